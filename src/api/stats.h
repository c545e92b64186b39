// Where the time goes: the content of GET /v1/stats as native types, and ServiceStats, which
// gathers it.
//
// A front end hands over the trace of each finished request. Times are kept in latency histograms,
// whose percentiles are right within 2 %. They only grow; Reset() takes a snapshot and later
// reports leave it out, so nothing recorded meanwhile is lost. The present bottleneck is found from
// the last 10 to 20 seconds, regardless of resets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/seeded_hash.h"
#include "generate/decode_scheduler.h"
#include "metrics/duration_histogram.h"
#include "metrics/metrics.h"
#include "metrics/stages.h"
#include "threads/request_context.h"
#include "threads/worker_pool.h"

namespace penstock::registry {
class Registry;
}  // namespace penstock::registry

namespace penstock::api {

struct LoadSample;  // api/load_sample.h

struct StageStats {
  metrics::Stage stage;
  double percent = 0;  // of the time of all requests
  metrics::DurationSnapshot latency;
};

// A model's batches are those of encoders; of one that generates text they are its steps, their
// rows the texts that got a token, and their tokens those that were computed.
struct ModelStats {
  std::string name;
  std::string device;  // where it lies and computes
  bool ready = false;
  int64_t queued_tokens = 0;  // now
  int64_t queued_requests = 0;
  int64_t batches = 0;  // in the window, as what follows
  int64_t rows = 0;
  int64_t tokens = 0;
  double busy_s = 0;  // the model worked on batches
  // For a model that generates text.
  struct Text {
    generate::DecodeStats now;
    generate::DecodeTotals window;
  };
  std::optional<Text> text;
  // For a model that takes tensors.
  struct Tensors {
    int64_t requests = 0;     // answered with results, in the window
    int64_t queued_rows = 0;  // now
    int64_t queued_bytes = 0;
    int32_t max_batch_size = 0;  // 0: it has no batches, or is not loaded
  };
  std::optional<Tensors> tensors;
};

struct Bottleneck {
  // A stage, "processor" (all of them are busy) or "none" (there was nothing to do).
  std::string name;
  std::string why;         // one sentence
  bool saturated = false;  // a resource is used up; else: where most of the time goes
  double window_s = 0;     // the time it was found from
};

struct Stats {
  double uptime_s = 0;
  double window_s = 0;                 // since the last reset, or the start
  metrics::DurationSnapshot requests;  // from the first byte to the last
  std::vector<StageStats> stages;
  std::vector<ModelStats> models;
  struct Device {
    std::string name;
    int64_t memory_budget_bytes = 0;  // 0: not bounded
    int64_t memory_used_bytes = 0;    // what its models may take at most
    // Since the start, of devices apart from the host.
    struct Work {
      double busy_s = 0;  // in batches: their copies and kernels
      uint64_t bytes_in = 0, bytes_out = 0;
      uint64_t graph_captures = 0;
      uint64_t graphs = 0;  // kept
    };
    std::optional<Work> work = {};
    std::string lost = {};  // why it is lost, or empty
  };
  std::vector<Device> devices;
  int64_t tokenization_workers = 0;
  int64_t tokenization_waiting = 0;  // tasks, now
  double tokenization_busy = 0;      // share of the workers' time, in the window
  double processors = 0;             // busy on average, in the window
  int64_t processors_max = 1;        // that the process may use
  int64_t resident_bytes = 0;
  Bottleneck bottleneck;
};

// Sums over a period, from which bottlenecks are found.
struct LoadSums {
  double seconds = 0;
  uint64_t requests = 0;
  std::array<double, metrics::kStages> stage_s{};
  double tokenize_busy_s = 0;  // of the workers, summed
  double processor_s = 0;
  struct Model {
    std::string name;
    uint64_t batches = 0;
    uint64_t rows = 0;
    uint64_t tokens = 0;
    uint64_t tensor_requests = 0;
    double busy_s = 0;
    bool text = false;
    generate::DecodeTotals decode;  // where text
  };
  std::vector<Model> models;  // as Registry::List

  // Models are known by their names.
  LoadSums Since(const LoadSums& earlier) const;
};

// Finds the bottleneck of requests. A saturated resource comes first (a model, the tokenization
// workers, the processors), else the stage that took most of the requests' time.
Bottleneck FindBottleneck(const LoadSums& load, const std::vector<std::string>& models,
                          size_t tokenization_workers, int processors);

class ServiceStats {
 public:
  // All must outlive it.
  ServiceStats(const registry::Registry* registry, const WorkerPool* pool,
               metrics::Metrics* metrics);

  // Adds a finished request. Any thread; takes no lock that another request holds for long.
  void Record(const metrics::RequestTrace& trace);
  Stats Read() const;
  void Reset();
  // Fills in all but what the service knows of its requests. Regardless of resets.
  void Sample(LoadSample* sample) const;

 private:
  struct Moment {
    Clock::time_point at;
    LoadSums sums;
  };
  // With the mutex held.
  Moment Now() const;
  // Begins a new stretch, if the last one is over.
  void RotateIfDue() const;

  const registry::Registry* const registry_;
  const WorkerPool* const pool_;
  metrics::Metrics* const metrics_;
  const Clock::time_point started_;
  std::array<metrics::DurationHistogram*, metrics::kStages> stages_{};
  metrics::DurationHistogram requests_;

  mutable std::mutex mutex_;  // guards the members below; Record takes it only every 10 s
  Moment reset_;
  std::array<metrics::DurationSnapshot, metrics::kStages> reset_stages_;
  metrics::DurationSnapshot reset_requests_;
  // Begins of the last two stretches of at least kRotate, for the present bottleneck.
  mutable Moment previous_;
  mutable Moment latest_;
  mutable std::atomic<int64_t> rotate_at_ns_;  // on Clock; read without the mutex
  // By name: of a model that is away, the sums as they were when it was seen last.
  mutable SeededMap<std::string, LoadSums::Model> seen_;
};

}  // namespace penstock::api
