// The series of one model's scheduler. Updating them is lock-free, from any thread.
//
// How busy a model is: rate(penstock_batch_duration_seconds_sum). Waste: computed less useful
// tokens; a packed batch has no padding, rows run again after a failure show.
#pragma once

#include <array>
#include <string>

#include "common/request_context.h"
#include "common/status.h"
#include "metrics/demand.h"
#include "metrics/metrics.h"

namespace penstock {

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
    Gauge* queue_units;  // tokens of texts, bytes of tensors
    Gauge* queue_rows;
    Gauge* queue_requests;
    Counter* batches;
    // Times of the processor's turns (gate/compute_gate.h), one a grant: waiting, and held.
    Histogram* gate_wait;
    Histogram* gate_turn;
    DemandSeries demand;
  };
  std::array<Class, kPriorities> classes;
  Counter& cancelled;
  Counter& expired;
  Counter& queue_full;
};

// For models that read texts.
struct SchedulerMetrics : QueueMetrics {
  // `model`: value of the label of that name.
  static SchedulerMetrics Of(Metrics* metrics, const std::string& model);
  SchedulerStats Read() const;

  Histogram& batch_tokens;
  Histogram& batch_sequences;
  Histogram& batch_fill;
  Histogram& batch_duration;
  Histogram& queue_duration;
  Counter& tokens_computed;
  Counter& tokens_useful;
  Counter& batch_failures;
  Counter& led;
};

// For tensor models.
struct TensorMetrics : QueueMetrics {
  static TensorMetrics Of(Metrics* metrics, const std::string& model);

  // Set after each batch: both classes together.
  Gauge& queued_bytes;
  Gauge& queued_rows;
  Histogram& batch_rows;
  Histogram& batch_fill;
  Histogram& batch_duration;
  Histogram& queue_duration;
  Counter& rows_computed;
  Counter& batch_failures;
  Counter& led;
};

}  // namespace penstock
