// The series of one model's scheduler. Updating them is lock-free, from any thread.
//
// How busy a model is: rate(penstock_batch_duration_seconds_sum). What padding costs: computed
// less useful tokens; a packed batch has none, what is computed twice after a failure shows.
#pragma once

#include <array>
#include <string>

#include "common/cancel.h"
#include "common/status.h"
#include "metrics/metrics.h"

namespace penstock {

struct SchedulerMetrics {
  // `model`: value of the label of that name.
  static SchedulerMetrics Of(Metrics* metrics, const std::string& model);

  // Counts `rows` as dropped for `reason`: kCancelled, kDeadlineExceeded, kResourceExhausted;
  // others are not counted.
  void CountDropped(StatusCode reason, size_t rows);

  struct Lane {
    Gauge* queue_tokens;
    Gauge* queue_rows;
    Gauge* queue_requests;
    Counter* batches;
  };
  std::array<Lane, kPriorities> lanes;
  Histogram& batch_tokens;
  Histogram& batch_sequences;
  Histogram& batch_fill;
  Histogram& batch_duration;
  Histogram& queue_duration;
  Counter& tokens_computed;
  Counter& tokens_useful;
  Counter& batch_failures;
  Counter& led;
  Counter& cancelled;
  Counter& expired;
  Counter& queue_full;
};

}  // namespace penstock
