#include "sched/scheduler_metrics.h"

namespace penstock::sched {
namespace {

metrics::Counter& Dropped(metrics::Metrics* metrics, const std::string& label, const char* reason) {
  return metrics->AddCounter("penstock_dropped_total",
                             "Rows that were dropped before they reached the model.",
                             label + "," + metrics::MetricLabel("reason", reason));
}

QueueMetrics::Class ClassSeries(metrics::Metrics* metrics, const std::string& model,
                                const char* priority, bool with_gauges) {
  const std::string model_label = metrics::MetricLabel("model", model);
  const std::string label = model_label + "," + metrics::MetricLabel("lane", priority);
  const std::string gate_label = model_label + "," + metrics::MetricLabel("class", priority);
  const auto gauge = [&](const char* name, const char* help) {
    return with_gauges ? &metrics->AddGauge(name, help, label) : nullptr;
  };
  return {
      gauge("penstock_queue_tokens", "Tokens accepted and not yet answered."),
      gauge("penstock_queue_rows", "Sequences accepted and not yet answered."),
      gauge("penstock_queue_requests", "Requests accepted by the scheduler and not yet answered."),
      &metrics->AddCounter("penstock_batches_total", "Batches the model worked on.", label),
      &metrics->AddHistogram("penstock_gate_wait_seconds",
                             "Time a model waited for its turn at the processor; one a grant.",
                             metrics::DurationBounds(), gate_label),
      &metrics->AddHistogram("penstock_gate_turn_seconds",
                             "Time a model held its turn at the processor; the count is grants.",
                             metrics::DurationBounds(), gate_label),
      metrics::DemandSeries::Of(metrics, model, priority)};
}

uint64_t CountOf(const metrics::Histogram& histogram) {
  uint64_t count = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) count += histogram.bucket(i);
  return count;
}

}  // namespace

SchedulerMetrics SchedulerMetrics::Of(metrics::Metrics* m, const std::string& model) {
  const std::string label = metrics::MetricLabel("model", model);
  return {
      {{{ClassSeries(m, model, "interactive", true), ClassSeries(m, model, "bulk", true)}},
       Dropped(m, label, "cancelled"),
       Dropped(m, label, "expired"),
       Dropped(m, label, "queue_full")},
      m->AddHistogram("penstock_batch_tokens", "Tokens in a batch.",
                      {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
                      label),
      m->AddHistogram("penstock_batch_sequences", "Sequences in a batch.",
                      {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}, label),
      m->AddHistogram("penstock_batch_fill_ratio", "Tokens of a batch in parts of the limit.",
                      {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1}, label),
      m->AddHistogram("penstock_batch_duration_seconds",
                      "Time the model worked on a batch; the rate of the sum is its utilisation.",
                      metrics::DurationBounds(), label),
      m->AddHistogram("penstock_queue_duration_seconds",
                      "Time from submission until the first row was batched.",
                      metrics::DurationBounds(), label),
      m->AddCounter("penstock_tokens_computed_total",
                    "Tokens the model worked on, padding and second tries included.", label),
      m->AddCounter("penstock_tokens_useful_total", "Tokens of results that were kept.", label),
      m->AddCounter("penstock_batch_failures_total", "Batches that the model refused or failed.",
                    label),
      m->AddCounter("penstock_batches_led_total",
                    "Batches that the submitting thread ran itself, the model being idle.", label)};
}

TensorMetrics TensorMetrics::Of(metrics::Metrics* m, const std::string& model) {
  const std::string label = metrics::MetricLabel("model", model);
  const auto series = [&](const char* priority) { return ClassSeries(m, model, priority, false); };
  return {
      {{{series("interactive"), series("bulk")}},
       Dropped(m, label, "cancelled"),
       Dropped(m, label, "expired"),
       Dropped(m, label, "queue_full")},
      m->AddGauge("penstock_tensor_queue_bytes",
                  "Bytes of inputs accepted and not yet answered, after the last batch.", label),
      m->AddGauge("penstock_tensor_queue_rows",
                  "Rows accepted and not yet answered, after the last batch.", label),
      m->AddHistogram("penstock_tensor_batch_rows", "Rows in a batch of tensors.",
                      {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}, label),
      m->AddHistogram("penstock_batch_fill_ratio", "Tokens of a batch in parts of the limit.",
                      {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1}, label),
      m->AddHistogram("penstock_batch_duration_seconds",
                      "Time the model worked on a batch; the rate of the sum is its utilisation.",
                      metrics::DurationBounds(), label),
      m->AddHistogram("penstock_queue_duration_seconds",
                      "Time from submission until the first row was batched.",
                      metrics::DurationBounds(), label),
      m->AddCounter("penstock_tensor_rows_computed_total",
                    "Rows the model worked on, second tries included.", label),
      m->AddCounter("penstock_batch_failures_total", "Batches that the model refused or failed.",
                    label),
      m->AddCounter("penstock_batches_led_total",
                    "Batches that the submitting thread ran itself, the model being idle.", label)};
}

void QueueMetrics::CountDropped(StatusCode reason, size_t rows) {
  if (reason == StatusCode::kCancelled) cancelled.Add(rows);
  if (reason == StatusCode::kDeadlineExceeded) expired.Add(rows);
  if (reason == StatusCode::kResourceExhausted) queue_full.Add(rows);
}

SchedulerStats SchedulerMetrics::Read() const {
  SchedulerStats stats;
  stats.batches = CountOf(batch_tokens);
  stats.tokens = static_cast<uint64_t>(batch_tokens.sum());
  stats.rows = static_cast<uint64_t>(batch_sequences.sum());
  stats.busy_s = batch_duration.sum();
  for (const Class& of : classes) {
    stats.queued_tokens += of.queue_units->value();
    stats.queued_requests += of.queue_requests->value();
  }
  return stats;
}

}  // namespace penstock::sched
