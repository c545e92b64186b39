// Collector: gathers snapshots, and the windows that are told of.
//
// A front end hands over the trace of each finished request. Times are kept in latency histograms,
// whose percentiles are right within 2 %. They only grow; Reset() keeps a snapshot that later
// windows begin at, so nothing recorded meanwhile is lost. The present bottleneck is found from the
// last 10 to 20 seconds, regardless of resets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/seeded_hash.h"
#include "metrics/metrics.h"
#include "telemetry/bottleneck.h"
#include "telemetry/snapshot.h"
#include "threads/worker_pool.h"

namespace penstock::registry {
class Registry;
}  // namespace penstock::registry

namespace penstock::telemetry {

// The content of GET /v1/stats.
struct Stats {
  double uptime_s = 0;
  Snapshot window;  // since the last reset, or the start
  Bottleneck bottleneck;
};

class Collector {
 public:
  // All must outlive it.
  Collector(const registry::Registry* registry, const WorkerPool* pool, metrics::Metrics* metrics);

  // Adds a finished request. Any thread; takes no lock that another request holds for long.
  void Record(const metrics::RequestTrace& trace);
  // All but what the service knows of its requests: infers, requests_in_flight, requests_bytes.
  Snapshot Read() const;
  Stats ReadStats() const;
  void Reset();

 private:
  // With the mutex held, as Rotate.
  Snapshot Take() const;
  // Begins a new stretch with `now`, if the last one is over.
  void Rotate(const Snapshot& now) const;
  void AddModels(Snapshot* snapshot) const;

  const registry::Registry* const registry_;
  const WorkerPool* const pool_;
  metrics::Metrics* const metrics_;
  const Clock::time_point started_;
  std::array<metrics::DurationHistogram*, metrics::kStages> stages_{};
  metrics::DurationHistogram requests_;

  mutable std::mutex mutex_;  // guards the members below; Record takes it only every 10 s
  Snapshot reset_;
  // Begins of the last two stretches of at least kRotate, for the present bottleneck.
  mutable Snapshot previous_;
  mutable Snapshot latest_;
  mutable std::atomic<int64_t> rotate_at_ns_;  // on Clock; read without the mutex
  // Requests of tensor models by name. Their schedulers count, and end with the model.
  struct Answered {
    uint64_t before = 0;  // of the schedulers before the present one
    uint64_t latest = 0;
  };
  mutable SeededMap<std::string, Answered> answered_;
};

}  // namespace penstock::telemetry
