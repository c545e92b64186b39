#include "telemetry/collector.h"

#include <utility>

#include "cache/cache_metrics.h"
#include "engine/decoder_engine.h"
#include "engine/tensor_engine.h"
#include "metrics/process_stats.h"
#include "os/memory.h"
#include "registry/registry.h"
#include "sched/scheduler_metrics.h"

namespace penstock::telemetry {
namespace {

constexpr std::chrono::seconds kRotate{10};

int64_t Nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

Snapshot::Cache ReadCache(const char* name, metrics::Metrics* metrics) {
  const cache::CacheMetrics cache = cache::MakeCacheMetrics(name, metrics);
  const uint64_t hits = cache.hits->value();
  return {hits, hits + cache.misses->value(), cache.bytes->value()};
}

std::vector<Snapshot::Device> ReadDevices(const registry::Registry& registry) {
  std::vector<Snapshot::Device> devices;
  for (registry::Registry::DeviceMemory& one : registry.MemoryOfDevices()) {
    devices.push_back({std::move(one.device), one.budget_bytes, one.used_bytes});
    devices.back().lost = std::move(one.lost);
    if (const auto& counters = one.counters; counters != nullptr) {
      devices.back().work = {counters->busy_s.load(), counters->bytes_in.load(),
                             counters->bytes_out.load(), counters->captures.load(),
                             counters->graphs.load()};
    }
  }
  return devices;
}

Snapshot::Model::Kind KindOf(const registry::Registry::Entry& entry) {
  using Kind = Snapshot::Model::Kind;
  if (!entry.purpose) return Kind::kEncoder;  // it did nothing yet
  switch (entry.purpose->capability) {
    case engine::Capability::kGenerate:
      return Kind::kText;
    case engine::Capability::kTensors:
      return Kind::kTensors;
    default:
      return Kind::kEncoder;
  }
}

void ReadEncoder(const sched::SchedulerMetrics& series, Snapshot::Model* model) {
  const sched::SchedulerStats done = series.Read();
  model->batches = done.batches;
  model->rows = done.rows;
  model->tokens = done.tokens;
  model->busy_s = done.busy_s;
  model->fill = series.batch_fill.sum();
}

void ReadText(const registry::Registry::Entry& entry, metrics::Metrics* metrics,
              Snapshot::Model* model) {
  model->decode = generate::DecodeMetrics::Of(metrics, entry.name).Read();
  model->batches = model->decode.steps;
  model->rows = model->decode.generated_tokens;
  model->tokens = model->decode.computed_tokens;
  model->busy_s = model->decode.busy_s;
  if (engine::DecoderEngine* const engine = entry.As<engine::DecoderEngine>()) {
    model->text = engine->scheduler().stats();
  }
}

// All but the requests.
void ReadTensors(const registry::Registry::Entry& entry, metrics::Metrics* metrics,
                 Snapshot::Model* model) {
  const sched::TensorMetrics done = sched::TensorMetrics::Of(metrics, entry.name);
  for (const sched::QueueMetrics::Class& of : done.classes) model->batches += of.batches->value();
  model->rows = static_cast<uint64_t>(done.batch_rows.sum());
  model->fill = done.batch_fill.sum();
  model->busy_s = done.batch_duration.sum();
  if (const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>()) {
    const sched::TensorScheduler& scheduler = engine->scheduler();
    model->tensors = {scheduler.queued_rows(), scheduler.queued_bytes(),
                      scheduler.signature().max_batch_size};
  }
}

}  // namespace

Collector::Collector(const registry::Registry* registry, const WorkerPool* pool,
                     metrics::Metrics* metrics)
    : registry_(registry), pool_(pool), metrics_(metrics), started_(Clock::now()) {
  for (size_t s = 0; s < metrics::kStages; ++s) {
    stages_[s] = &metrics->AddDurations(
        "penstock_stage_duration_seconds", "Time that requests spent in a stage.",
        metrics::MetricLabel("stage", metrics::StageName(static_cast<metrics::Stage>(s))));
  }
  metrics->AddFunction("penstock_uptime_seconds", "Time since the service was made.",
                       metrics::Metrics::Kind::kGauge,
                       [start = started_] { return Seconds(Clock::now() - start); });
  metrics->AddFunction(
      "penstock_tokenize_busy_seconds_total", "Time that tokenization workers worked, summed.",
      metrics::Metrics::Kind::kCounter,
      [load = pool->load()] { return static_cast<double>(load->busy_ns.load()) / 1e9; });
  metrics->AddFunction(
      "penstock_tokenize_waiting_tasks", "Pieces of requests that wait for a tokenization worker.",
      metrics::Metrics::Kind::kGauge,
      [load = pool->load()] { return static_cast<double>(load->waiting_tasks.load()); });
  metrics::AddProcessMetrics(metrics);
  {
    const std::lock_guard lock(mutex_);
    reset_ = previous_ = latest_ = Take();
  }
  rotate_at_ns_ = Nanoseconds(started_ + kRotate);
}

// By name, so that the sums of a model go on where it is unloaded and comes again.
void Collector::AddModels(Snapshot* snapshot) const {
  for (const registry::Registry::Entry& entry : registry_->List()) {
    Snapshot::Model& model = snapshot->models.emplace_back();
    model.name = entry.name;
    model.device = entry.device;
    model.kind = KindOf(entry);
    model.ready = entry.state == registry::ModelState::kReady;
    model.weights_bytes = entry.bytes.weights;
    model.activations_bytes = entry.bytes.activations;
    model.kv_bytes = entry.bytes.cache;
    if (model.kind == Snapshot::Model::Kind::kTensors) {
      ReadTensors(entry, metrics_, &model);
      Answered& answered = answered_[entry.name];
      if (const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>()) {
        const uint64_t now = engine->scheduler().Statistics().success.count;
        if (now < answered.latest) answered.before += answered.latest;  // loaded again
        answered.latest = now;
      }
      model.requests = answered.before + answered.latest;
    } else {
      const sched::SchedulerMetrics series = sched::SchedulerMetrics::Of(metrics_, entry.name);
      for (size_t c = 0; c < kPriorities; ++c) {
        model.queues[c] = {series.classes[c].queue_requests->value(),
                           series.classes[c].queue_units->value()};
      }
      if (model.kind == Snapshot::Model::Kind::kText) {
        ReadText(entry, metrics_, &model);
      } else {
        ReadEncoder(series, &model);
      }
    }
    model.busy_s /= entry.replicas;
  }
}

Snapshot Collector::Take() const {
  Snapshot now;
  now.seconds = Seconds(Clock::now() - started_);
  now.requests = requests_.Snapshot();
  for (size_t s = 0; s < metrics::kStages; ++s) now.stages[s] = stages_[s]->Snapshot();
  AddModels(&now);
  now.devices = ReadDevices(*registry_);
  now.token_cache = ReadCache("token", metrics_);
  now.result_cache = ReadCache("result", metrics_);
  const auto load = pool_->load();
  now.tokenization = {static_cast<int64_t>(pool_->threads()), load->waiting_tasks.load(),
                      static_cast<double>(load->busy_ns.load()) / 1e9};
  now.processor_s = metrics::ProcessorSeconds();
  now.processors_max = metrics::ProcessorsAllowed();
  now.resident_bytes = static_cast<int64_t>(ResidentBytes());
  return now;
}

void Collector::Rotate(const Snapshot& now) const {
  if (Nanoseconds(Clock::now()) < rotate_at_ns_.load(std::memory_order_relaxed)) return;
  // After a pause the present begins anew: the pause would hide it.
  const double stretch_s = Seconds(kRotate);
  previous_ = now.seconds - latest_.seconds < 2 * stretch_s ? std::move(latest_) : now;
  latest_ = now;
  rotate_at_ns_.store(Nanoseconds(Clock::now() + kRotate), std::memory_order_relaxed);
}

void Collector::Record(const metrics::RequestTrace& trace) {
  if (Nanoseconds(Clock::now()) >= rotate_at_ns_.load(std::memory_order_relaxed)) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) Rotate(Take());
  }
  for (size_t s = 0; s < metrics::kStages; ++s) {
    if (const int64_t ns = trace.ns(static_cast<metrics::Stage>(s)); ns > 0) stages_[s]->Record(ns);
  }
  requests_.Record(trace.wall_ns());
}

Snapshot Collector::Read() const {
  const std::lock_guard lock(mutex_);
  Snapshot now = Take();
  Rotate(now);
  return now;
}

Stats Collector::ReadStats() const {
  const std::lock_guard lock(mutex_);
  const Snapshot now = Take();
  Rotate(now);
  const bool young = now.seconds - latest_.seconds < Seconds(kRotate);
  return {now.seconds, now.Since(reset_), FindBottleneck(now.Since(young ? previous_ : latest_))};
}

void Collector::Reset() {
  const std::lock_guard lock(mutex_);
  reset_ = Take();
}

}  // namespace penstock::telemetry
