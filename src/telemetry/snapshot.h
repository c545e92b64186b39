// Snapshot: what the counters and gauges of a server say at one moment.
//
// All that is told of the present or of a stretch of time is made of snapshots: GET /v1/stats
// (print_stats.h) and the points of GET /v1/live (live/live_print.h) print the difference of two,
// and the bottleneck is found from one (bottleneck.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/decode_metrics.h"
#include "generate/decode_scheduler.h"
#include "metrics/duration_histogram.h"
#include "metrics/stages.h"
#include "threads/request_context.h"

namespace penstock::telemetry {

// Sums are since the start, levels are of the moment.
struct Snapshot {
  struct Model {
    enum class Kind { kUnknown, kEncoder, kText, kTensors };

    std::string name;
    std::string device;          // where it lies and computes
    Kind kind = Kind::kUnknown;  // until it is loaded, where nothing says it
    bool ready = false;
    int32_t replicas = 1;    // that work at once; their times are summed
    uint64_t scheduler = 0;  // of a tensor model that is loaded: larger than those before it

    // Sums, which go on where a model is unloaded and loaded again. A batch of a text model is a
    // step, its rows are the texts that got a token, and its tokens are those that were computed.
    uint64_t batches = 0;
    uint64_t rows = 0;
    uint64_t tokens = 0;
    double fill = 0;        // sum of the batches' fill ratios; not of text models
    double busy_s = 0;      // the replicas worked on batches
    uint64_t requests = 0;  // answered with results; of tensor models
    generate::DecodeTotals decode;

    // Levels.
    struct Queue {  // accepted by the scheduler and not yet answered; not of tensor models
      int64_t requests = 0;
      int64_t tokens = 0;
    };
    std::array<Queue, kPriorities> queues;
    struct Tensors {
      int64_t queued_rows = 0;
      int64_t queued_bytes = 0;    // of inputs
      int32_t max_batch_size = 0;  // 0: it has no batches, or is not loaded
    } tensors;
    std::optional<generate::DecodeStats> text;  // of a text model that is loaded
    // What it takes at most, in bytes.
    uint64_t weights_bytes = 0, activations_bytes = 0, kv_bytes = 0;

    double replica_busy_s() const { return busy_s / replicas; }  // of one replica, on average
    int64_t queued_requests() const;
    int64_t queued_tokens() const;
  };

  struct Cache {
    uint64_t hits = 0, lookups = 0;  // sums
    int64_t bytes = 0;
  };

  struct Device {
    std::string name;
    uint64_t memory_budget_bytes = 0;  // 0: not bounded
    uint64_t memory_used_bytes = 0;    // what its models may take at most
    // Sums, of devices apart from the host; /v1/stats tells them since the start.
    struct Work {
      double busy_s = 0;  // in batches: their copies and kernels
      uint64_t bytes_in = 0, bytes_out = 0;
      uint64_t graph_captures = 0;
      uint64_t graphs = 0;  // kept
    };
    std::optional<Work> work = {};
    std::string lost = {};  // why it is lost, or empty
  };

  double seconds = 0;
  // Requests that were timed, from the first byte to the last, and their stages.
  metrics::DurationSnapshot requests;
  std::array<metrics::DurationSnapshot, metrics::kStages> stages;
  metrics::DurationSnapshot infers;  // of tensor models, from acceptance to a result
  int64_t requests_in_flight = 0;
  int64_t requests_bytes = 0;  // bodies, ids, results, answers
  std::vector<Model> models;   // as Registry::List
  std::vector<Model> gone;     // the sums of those that were there before
  std::vector<Device> devices;
  Cache token_cache, result_cache;
  struct Tokenization {
    int64_t workers = 1;
    int64_t waiting = 0;  // tasks
    double busy_s = 0;    // of the workers, summed
  } tokenization;
  double processor_s = 0;
  int64_t processors_max = 1;  // that the process may use
  int64_t resident_bytes = 0;

  // The sums since `earlier`, of the same server, and the levels of this one. Models are known by
  // their names. A sum that fell counts as unchanged.
  Snapshot Since(const Snapshot& earlier) const;
};

// What bounds the levels of a snapshot.
struct Limits {
  uint64_t models_bytes = 0;  // 0: none
  int64_t requests_bytes = 0;
  int64_t caches_bytes = 0;
  int64_t processors = 1;
  int64_t tokenization_workers = 1;
};

}  // namespace penstock::telemetry
