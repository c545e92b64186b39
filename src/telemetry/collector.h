// Collector: gathers snapshots, and the windows that are told of.
//
// A front end hands over the trace of each finished request. Times are kept in latency histograms,
// whose percentiles are right within 2 %. They only grow; Reset() keeps a snapshot that later
// windows begin at, so nothing recorded meanwhile is lost. The present bottleneck is found from the
// last 10 to 20 seconds, regardless of resets, if snapshots are read at least as often
// (live/live_feed.h does each second).
#pragma once

#include <array>
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

  // Adds a finished request. Any thread, without a lock.
  void Record(const metrics::RequestTrace& trace);
  // All but what the service knows of its requests: infers, requests_in_flight, requests_bytes.
  Snapshot Read() const;
  Stats ReadStats() const;
  void Reset();

 private:
  // The counters as they are, of schedulers that are there.
  Snapshot Take() const;
  // With the mutex held, as Rotate: adds what was counted by schedulers and models that are gone.
  void AddKnown(Snapshot* now) const;
  // Begins a new stretch with `now`, if the last one is over.
  void Rotate(const Snapshot& now) const;

  const registry::Registry* const registry_;
  const WorkerPool* const pool_;
  metrics::Metrics* const metrics_;
  const Clock::time_point started_;
  std::array<metrics::DurationHistogram*, metrics::kStages> stages_{};
  metrics::DurationHistogram requests_;

  mutable std::mutex mutex_;  // guards the members below
  Snapshot reset_;
  // Begins of the last two stretches of at least kRotateS, for the present bottleneck.
  mutable Snapshot previous_;
  mutable Snapshot latest_;
  // By name. Schedulers of tensor models count for themselves, and end with the model.
  struct Known {
    Snapshot::Model before;  // sums of the schedulers before the latest
    Snapshot::Model latest;  // as read last
  };
  mutable SeededMap<std::string, Known> known_;
};

}  // namespace penstock::telemetry
