#include "api/load_sample.h"

#include <algorithm>
#include <limits>

#include "api/stats.h"
#include "cache/cache_metrics.h"
#include "generate/decode_metrics.h"
#include "metrics/process_stats.h"
#include "os/memory.h"
#include "registry/registry.h"
#include "sched/scheduler_metrics.h"

namespace penstock::api {
namespace {

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

double PercentileMs(const metrics::DurationSnapshot& times, double share) {
  if (times.count() == 0) return std::numeric_limits<double>::quiet_NaN();
  return times.percentile_ns(share) / 1e6;
}

void AddCache(const char* name, metrics::Metrics* metrics, double* hits, double* lookups,
              int64_t* bytes) {
  const cache::CacheMetrics cache = cache::MakeCacheMetrics(name, metrics);
  *hits = static_cast<double>(cache.hits->value());
  *lookups = *hits + static_cast<double>(cache.misses->value());
  *bytes += cache.bytes->value();
}

void AddTensorModel(const registry::Registry::Entry& entry, metrics::Metrics* metrics,
                    LoadSample* sample) {
  const sched::TensorMetrics done = sched::TensorMetrics::Of(metrics, entry.name);
  for (const sched::QueueMetrics::Class& of : done.classes) {
    sample->tensor_batches += static_cast<double>(of.batches->value());
  }
  sample->tensor_rows += done.batch_rows.sum();
  sample->tensor_fill += done.batch_fill.sum();
  const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>();
  if (engine == nullptr) return;
  sample->now.tensor_queue.rows += engine->scheduler().queued_rows();
  sample->now.tensor_queue.bytes += engine->scheduler().queued_bytes();
}

// By name, so that the sums of a model go on where it is unloaded and comes again.
void AddModel(const registry::Registry::Entry& entry, metrics::Metrics* metrics,
              LoadSample* sample) {
  sample->now.memory.weights += entry.bytes.weights;
  sample->now.memory.activations += entry.bytes.activations;
  sample->now.memory.kv += entry.bytes.cache;
  if (!entry.purpose) return;  // it did nothing yet
  if (entry.purpose->capability == engine::Capability::kTensors) {
    return AddTensorModel(entry, metrics, sample);
  }
  const sched::SchedulerMetrics queue = sched::SchedulerMetrics::Of(metrics, entry.name);
  for (size_t c = 0; c < kPriorities; ++c) {
    sample->now.queues[c].requests += queue.classes[c].queue_requests->value();
    sample->now.queues[c].tokens += queue.classes[c].queue_units->value();
  }
  if (entry.purpose->capability == engine::Capability::kGenerate) {
    const generate::DecodeTotals done = generate::DecodeMetrics::Of(metrics, entry.name).Read();
    sample->prompt_tokens += static_cast<double>(done.prompt_tokens);
    sample->generated_tokens += static_cast<double>(done.generated_tokens);
    engine::DecoderEngine* const engine = entry.As<engine::DecoderEngine>();
    if (engine == nullptr) return;
    const generate::DecodeStats stats = engine->scheduler().stats();
    sample->now.texts_running += stats.running;
    sample->now.texts_waiting += stats.waiting;
    sample->now.kv.bytes += stats.BytesOf(&generate::CacheGroupStats::blocks);
    sample->now.kv.used += stats.BytesOf(&generate::CacheGroupStats::used);
    sample->now.kv.cached += stats.BytesOf(&generate::CacheGroupStats::cached);
    return;
  }
  const sched::SchedulerStats done = queue.Read();
  sample->batches += static_cast<double>(done.batches);
  sample->rows += static_cast<double>(done.rows);
  sample->tokens += static_cast<double>(done.tokens);
  sample->fill += queue.batch_fill.sum();
}

}  // namespace

void ServiceStats::Sample(LoadSample* sample) const {
  RotateIfDue();  // also while no request ends: this is called each second
  sample->seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  sample->requests = requests_.Snapshot();
  for (size_t s = 0; s < metrics::kStages; ++s) {
    sample->stage_s[s] = static_cast<double>(stages_[s]->sum_ns()) / 1e9;
  }
  for (const registry::Registry::Entry& entry : registry_->List())
    AddModel(entry, metrics_, sample);
  sample->tokenize_busy_s = static_cast<double>(pool_->load()->busy_ns.load()) / 1e9;
  sample->processor_s = metrics::ProcessorSeconds();
  sample->now.memory.resident = static_cast<int64_t>(ResidentBytes());
  AddCache("token", metrics_, &sample->token_cache_hits, &sample->token_cache_lookups,
           &sample->now.memory.caches);
  AddCache("result", metrics_, &sample->result_cache_hits, &sample->result_cache_lookups,
           &sample->now.memory.caches);
}

LoadPoint LoadPoint::Between(const LoadSample& before, const LoadSample& now,
                             int64_t tokenization_workers) {
  LoadPoint point;
  point.now = now.now;
  point.seconds = std::max(now.seconds - before.seconds, 1e-6);
  const auto since = [&](double LoadSample::*sum) { return std::max(0.0, now.*sum - before.*sum); };
  const auto per_s = [&](double LoadSample::*sum) { return since(sum) / point.seconds; };
  const metrics::DurationSnapshot requests = now.requests.Since(before.requests);
  const auto count = static_cast<double>(requests.count());
  point.requests_per_s = count / point.seconds;
  point.p50_ms = PercentileMs(requests, 0.5);
  point.p90_ms = PercentileMs(requests, 0.9);
  point.p99_ms = PercentileMs(requests, 0.99);
  point.max_ms = PercentileMs(requests, 1);
  for (size_t s = 0; s < metrics::kStages; ++s) {
    point.stage_ms[s] = Ratio(1e3 * std::max(0.0, now.stage_s[s] - before.stage_s[s]), count);
  }
  point.batches_per_s = per_s(&LoadSample::batches);
  point.rows_per_s = per_s(&LoadSample::rows);
  point.tokens_per_s = per_s(&LoadSample::tokens);
  point.batch_fill = Ratio(since(&LoadSample::fill), since(&LoadSample::batches));
  const metrics::DurationSnapshot infers = now.infers.Since(before.infers);
  point.tensor_requests_per_s = static_cast<double>(infers.count()) / point.seconds;
  point.tensor_p50_ms = PercentileMs(infers, 0.5);
  point.tensor_p99_ms = PercentileMs(infers, 0.99);
  point.tensor_batches_per_s = per_s(&LoadSample::tensor_batches);
  point.tensor_rows_per_s = per_s(&LoadSample::tensor_rows);
  point.tensor_batch_fill =
      Ratio(since(&LoadSample::tensor_fill), since(&LoadSample::tensor_batches));
  point.prompt_tokens_per_s = per_s(&LoadSample::prompt_tokens);
  point.generated_tokens_per_s = per_s(&LoadSample::generated_tokens);
  point.processors = per_s(&LoadSample::processor_s);
  point.tokenization = per_s(&LoadSample::tokenize_busy_s) /
                       static_cast<double>(std::max<int64_t>(tokenization_workers, 1));
  point.token_cache_hits =
      Ratio(since(&LoadSample::token_cache_hits), since(&LoadSample::token_cache_lookups));
  point.result_cache_hits =
      Ratio(since(&LoadSample::result_cache_hits), since(&LoadSample::result_cache_lookups));
  return point;
}

}  // namespace penstock::api
