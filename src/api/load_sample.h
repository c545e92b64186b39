// What a server does, from second to second: LoadSample is read, LoadPoint is what happened between
// two samples, as rates and percentiles. For the web page; both are made of counters and gauges
// that exist anyway.
#pragma once

#include <array>
#include <cstdint>

#include "metrics/duration_histogram.h"
#include "metrics/stages.h"
#include "threads/request_context.h"

namespace penstock::api {

// Gauges of one moment.
struct LoadLevels {
  // By class: accepted by a model's scheduler and not yet answered.
  struct Queue {
    int64_t requests = 0;
    int64_t tokens = 0;
  };
  std::array<Queue, kPriorities> queues;
  // Accepted by tensor models and not yet answered; of loaded ones.
  struct TensorQueue {
    int64_t rows = 0;
    int64_t bytes = 0;  // of inputs
  } tensor_queue;
  int64_t requests_in_flight = 0;
  // In bytes.
  struct Memory {
    uint64_t weights = 0;  // of models, at most; as the next two
    uint64_t activations = 0;
    uint64_t kv = 0;
    int64_t requests = 0;  // bodies, ids, results, answers
    int64_t caches = 0;    // of tokens and results
    int64_t resident = 0;  // of the process, in RAM
  } memory;
  // Texts that are generated, and the blocks of keys and values of loaded models, in bytes.
  int64_t texts_running = 0;
  int64_t texts_waiting = 0;
  struct KeysAndValues {
    uint64_t bytes = 0;  // that there may be
    uint64_t used = 0;
    uint64_t cached = 0;  // not used, kept for texts that begin alike
  } kv;
};

// Limits of what LoadLevels has.
struct LoadLimits {
  uint64_t models_bytes = 0;  // 0: none
  int64_t requests_bytes = 0;
  int64_t caches_bytes = 0;
  int64_t processors = 1;
  int64_t tokenization_workers = 1;
};

struct LoadSample {
  LoadLevels now;
  // Since the start.
  double seconds = 0;
  metrics::DurationSnapshot requests;
  std::array<double, metrics::kStages> stage_s{};
  double batches = 0;  // of encoders, as rows and tokens
  double rows = 0;
  double tokens = 0;
  double fill = 0;                   // sum of the batches' fill ratios
  metrics::DurationSnapshot infers;  // of tensor models, answered with results
  double tensor_batches = 0;
  double tensor_rows = 0;
  double tensor_fill = 0;
  double prompt_tokens = 0;  // computed; of models that generate text
  double generated_tokens = 0;
  double tokenize_busy_s = 0;
  double processor_s = 0;
  double token_cache_hits = 0, token_cache_lookups = 0;
  double result_cache_hits = 0, result_cache_lookups = 0;
};

// A ratio or percentile of nothing is NaN.
struct LoadPoint {
  LoadLevels now;
  double seconds = 0;
  double requests_per_s = 0;
  double p50_ms = 0, p90_ms = 0, p99_ms = 0, max_ms = 0;
  std::array<double, metrics::kStages> stage_ms{};  // of the mean request
  double batches_per_s = 0;
  double rows_per_s = 0;
  double tokens_per_s = 0;
  double batch_fill = 0;  // 0 to 1
  double tensor_requests_per_s = 0;
  double tensor_p50_ms = 0, tensor_p99_ms = 0;  // from acceptance to answer
  double tensor_batches_per_s = 0;
  double tensor_rows_per_s = 0;
  double tensor_batch_fill = 0;
  double prompt_tokens_per_s = 0;
  double generated_tokens_per_s = 0;
  double processors = 0;        // busy
  double tokenization = 0;      // share of the workers' time
  double token_cache_hits = 0;  // share of the look-ups
  double result_cache_hits = 0;

  // `now` was read after `before`, of the same service. Sums that fell (a model was removed) count
  // as unchanged.
  static LoadPoint Between(const LoadSample& before, const LoadSample& now,
                           int64_t tokenization_workers);
};

}  // namespace penstock::api
