// ResultCache: results of repeated sequences. The same model, output and ids give the same bits, so
// the model need not compute them again. Off by default.
//
//   Submit --> known rows are taken out --> (Redis is asked for the others) --> scheduler
//         <-- rows put together in their order <-- results of the others, kept for the next time
//
// Equal rows that miss at once are computed once: the first leads, later ones follow and get its
// values. An interactive row never follows bulk work, and no row a request much larger than its
// own. If the leader fails, its followers are computed by themselves.
//
// One row a sequence: pooled vectors and logits. Token embeddings are not kept; they are long.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/remote_store.h"
#include "cache/sharded_lru.h"
#include "engine/encoder_engine.h"
#include "metrics/metrics.h"
#include "registry/lease.h"
#include "sched/encode_job.h"

namespace penstock::encode {

class ResultCache {
 public:
  // `bytes` 0: everything goes to the scheduler. `remote` may be null; it outlives the cache.
  ResultCache(size_t bytes, std::chrono::seconds ttl, cache::RemoteStore* remote,
              metrics::Metrics* metrics);
  ~ResultCache();

  // As engine->scheduler().Submit, but `done` may be called before this returns, or on the remote
  // store's thread; and a refusal of the scheduler may come through `done`.
  Status Submit(const registry::Lease<engine::EncoderEngine>& engine,
                std::unique_ptr<sched::EncodeJob> job);
  void Clear() { lru_.Clear(); }
  size_t bytes() const { return lru_.bytes(); }

 private:
  struct Lookup;
  struct Part;
  struct Flights;

  bool Takes(const engine::EncoderEngine& engine, const sched::EncodeJob& job) const;
  bool AsksRemote(const engine::EncoderEngine& engine) const;
  std::shared_ptr<Lookup> LookUp(const registry::Lease<engine::EncoderEngine>& engine,
                                 std::unique_ptr<sched::EncodeJob> job);
  void AskRemote(const std::shared_ptr<Lookup>& lookup);
  void Continue(const std::shared_ptr<Lookup>& lookup, bool may_lead);
  void Compute(const std::shared_ptr<Lookup>& lookup, const std::vector<size_t>& rows,
               bool may_lead);
  void Keep(const Lookup& lookup, size_t row);

  cache::RemoteStore* const remote_;
  const cache::CacheMetrics metrics_;
  cache::ShardedLru lru_;
  const std::unique_ptr<Flights> flights_;
};

}  // namespace penstock::encode
