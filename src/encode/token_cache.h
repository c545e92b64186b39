// Texts and their tokens, so that a text that comes again is not tokenized again: queries,
// documents, prompts, and both sides of pairs, each by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/remote_store.h"
#include "cache/sharded_lru.h"
#include "engine/encoder_engine.h"
#include "metrics/metrics.h"

namespace penstock::encode {

class TokenCache {
 public:
  // Measured with all-MiniLM-L6-v2 (token_cache_bench): 32 bytes are tokenized in 0.41 us and found
  // in 0.05, 1024 in 10.4 and 0.22. Shorter ones would still be found faster, but an entry's head
  // takes more memory than they do, and would push out texts that save more.
  static constexpr size_t kTextBytesMin = 32;

  // Shorter ones are tokenized in less than 0.4 ms (4 KiB took 0.04): little more than
  // a thread needs to ask another one and be woken. Few texts are longer after the cut to a limit.
  static constexpr size_t kRemoteTextBytesMin = 32 << 10;

  // `bytes` 0: nothing is kept. `remote` may be null; it outlives the cache.
  TokenCache(size_t bytes, std::chrono::seconds ttl, cache::RemoteStore* remote,
             metrics::Metrics* metrics);

  // As engine.tokenizer().EncodeText. `salt` as RequestContext::cache_salt. Any thread.
  Status EncodeText(const engine::EncoderEngine& engine, std::string_view text, uint64_t salt,
                    const StopCondition& stop, std::vector<int32_t>* ids);
  void Clear() { lru_.Clear(); }
  size_t bytes() const { return lru_.bytes(); }

 private:
  bool FromRemote(const std::string& key, const engine::EncoderEngine& engine,
                  std::vector<int32_t>* ids);

  cache::RemoteStore* const remote_;
  const cache::CacheMetrics metrics_;
  cache::ShardedLru lru_;
};

}  // namespace penstock::encode
