// The series of one model's scheduler. Updating them is lock-free, from any thread.
//
// How busy a model is: rate(penstock_batch_duration_seconds_sum). Waste: computed less useful
// tokens; a packed batch has no padding, rows run again after a failure show.
#pragma once

#include <array>
#include <string>

#include "base/status.h"
#include "metrics/demand.h"
#include "metrics/metrics.h"
#include "threads/request_context.h"

namespace penstock::sched {

// A model's totals and its waiting work; read one by one, in no order.
struct SchedulerStats {
  uint64_t batches = 0;
  uint64_t tokens = 0;  // in these batches
  uint64_t rows = 0;
  double busy_s = 0;  // of the model, all replicas together
  int64_t queued_tokens = 0;
  int64_t queued_requests = 0;
};

// What Admission and Executors count, of any kind of model.
struct QueueMetrics {
  // Counts `rows` as dropped for `reason`: kCancelled, kDeadlineExceeded, kResourceExhausted;
  // others are not counted.
  void CountDropped(StatusCode reason, size_t rows);

  // By class. Gauges of the queue are null where the scheduler sets its own, a batch at a time.
  struct Class {
    metrics::Gauge* queue_units;  // tokens of texts, bytes of tensors
    metrics::Gauge* queue_rows;
    metrics::Gauge* queue_requests;
    metrics::Counter* batches;
    // Times of the processor's turns (gate/compute_gate.h), one a grant: waiting, and held.
    metrics::Histogram* gate_wait;
    metrics::Histogram* gate_turn;
    metrics::DemandSeries demand;
  };
  std::array<Class, kPriorities> classes;
  metrics::Counter& cancelled;
  metrics::Counter& expired;
  metrics::Counter& queue_full;
};

// For models that read texts.
struct SchedulerMetrics : QueueMetrics {
  // `model`: value of the label of that name.
  static SchedulerMetrics Of(metrics::Metrics* metrics, const std::string& model);
  SchedulerStats Read() const;

  metrics::Histogram& batch_tokens;
  metrics::Histogram& batch_sequences;
  metrics::Histogram& batch_fill;
  metrics::Histogram& batch_duration;
  metrics::Histogram& queue_duration;
  metrics::Counter& tokens_computed;
  metrics::Counter& tokens_useful;
  metrics::Counter& batch_failures;
  metrics::Counter& led;
};

// For tensor models.
struct TensorMetrics : QueueMetrics {
  static TensorMetrics Of(metrics::Metrics* metrics, const std::string& model);

  // Set after each batch: both classes together.
  metrics::Gauge& queued_bytes;
  metrics::Gauge& queued_rows;
  metrics::Histogram& batch_rows;
  metrics::Histogram& batch_fill;
  metrics::Histogram& batch_duration;
  metrics::Histogram& queue_duration;
  metrics::Counter& rows_computed;
  metrics::Counter& batch_failures;
  metrics::Counter& led;
};

}  // namespace penstock::sched
