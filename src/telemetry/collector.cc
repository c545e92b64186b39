#include "telemetry/collector.h"

#include <algorithm>
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

constexpr double kRotateS = 10;

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
  if (!entry.purpose) return Kind::kUnknown;
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

// All but the fill ratios are of the present scheduler.
void ReadTensors(const registry::Registry::Entry& entry, metrics::Metrics* metrics,
                 Snapshot::Model* model) {
  model->fill = sched::TensorMetrics::Of(metrics, entry.name).batch_fill.sum();
  const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>();
  if (engine == nullptr) return;
  const sched::TensorScheduler& scheduler = engine->scheduler();
  const sched::TensorStatistics done = scheduler.Statistics();
  model->scheduler = done.scheduler;
  model->batches = done.runs;
  model->rows = done.rows;
  model->requests = done.success.count;
  model->busy_s = static_cast<double>(done.infer.ns) / 1e9;
  model->tensors = {scheduler.queued_rows(), scheduler.queued_bytes(),
                    scheduler.signature().max_batch_size};
}

Snapshot::Model ReadModel(const registry::Registry::Entry& entry, metrics::Metrics* metrics) {
  Snapshot::Model model;
  model.name = entry.name;
  model.device = entry.device;
  model.kind = KindOf(entry);
  model.ready = entry.state == registry::ModelState::kReady;
  model.weights_bytes = entry.bytes.weights;
  model.activations_bytes = entry.bytes.activations;
  model.kv_bytes = entry.bytes.cache;
  if (model.kind != Snapshot::Model::Kind::kText) model.replicas = entry.replicas;
  if (model.kind == Snapshot::Model::Kind::kTensors) {
    ReadTensors(entry, metrics, &model);
    return model;
  }
  const sched::SchedulerMetrics series = sched::SchedulerMetrics::Of(metrics, entry.name);
  for (size_t c = 0; c < kPriorities; ++c) {
    model.queues[c] = {series.classes[c].queue_requests->value(),
                       series.classes[c].queue_units->value()};
  }
  if (model.kind == Snapshot::Model::Kind::kText) ReadText(entry, metrics, &model);
  if (model.kind == Snapshot::Model::Kind::kEncoder) ReadEncoder(series, &model);
  return model;
}

void SetTensorSums(const Snapshot::Model& a, const Snapshot::Model& b, Snapshot::Model* sums) {
  sums->batches = a.batches + b.batches;
  sums->rows = a.rows + b.rows;
  sums->requests = a.requests + b.requests;
  sums->busy_s = a.busy_s + b.busy_s;
}

void CopySums(const Snapshot::Model& from, Snapshot::Model* to) {
  to->kind = from.kind;
  to->batches = from.batches;
  to->rows = from.rows;
  to->tokens = from.tokens;
  to->fill = from.fill;
  to->busy_s = from.busy_s;
  to->decode = from.decode;
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
  reset_ = previous_ = latest_ = Take();
}

void Collector::AddKnown(Snapshot* now) const {
  using Kind = Snapshot::Model::Kind;
  for (Snapshot::Model& model : now->models) {
    Known& known = known_[model.name];
    if (model.kind == Kind::kUnknown) {  // it was removed, and added again
      CopySums(known.latest, &model);
    } else if (model.kind != known.latest.kind) {
      known = {.before = {}, .latest = {.kind = model.kind}};
    }
    if (model.kind != Kind::kTensors) {
      known.latest = model;
      continue;
    }
    // Another thread's snapshot may be newer than this one.
    if (model.scheduler > known.latest.scheduler) {
      SetTensorSums(known.before, known.latest, &known.before);
      known.latest = model;
    } else if (model.scheduler == known.latest.scheduler && model.batches >= known.latest.batches) {
      known.latest = model;
    }
    SetTensorSums(known.before, known.latest, &model);
  }
  for (const auto& [name, known] : known_) {
    if (std::ranges::find(now->models, name, &Snapshot::Model::name) != now->models.end()) continue;
    Snapshot::Model& gone = now->gone.emplace_back(known.latest);
    if (gone.kind == Kind::kTensors) SetTensorSums(known.before, known.latest, &gone);
    gone.name = name;
  }
}

Snapshot Collector::Take() const {
  Snapshot now;
  now.seconds = Seconds(Clock::now() - started_);
  now.requests = requests_.Snapshot();
  for (size_t s = 0; s < metrics::kStages; ++s) now.stages[s] = stages_[s]->Snapshot();
  for (const registry::Registry::Entry& entry : registry_->List()) {
    now.models.push_back(ReadModel(entry, metrics_));
  }
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
  const double past_s = now.seconds - latest_.seconds;
  if (past_s < kRotateS) return;
  Snapshot latest = now;
  // After a pause the present begins anew: the pause would hide it.
  previous_ = past_s < 2 * kRotateS ? std::move(latest_) : Snapshot(now);
  latest_ = std::move(latest);
}

void Collector::Record(const metrics::RequestTrace& trace) {
  for (size_t s = 0; s < metrics::kStages; ++s) {
    if (const int64_t ns = trace.ns(static_cast<metrics::Stage>(s)); ns > 0) stages_[s]->Record(ns);
  }
  requests_.Record(trace.wall_ns());
}

Snapshot Collector::Read() const {
  Snapshot now = Take();
  const std::lock_guard lock(mutex_);
  AddKnown(&now);
  Rotate(now);
  return now;
}

Stats Collector::ReadStats() const {
  Snapshot now = Take();
  const std::lock_guard lock(mutex_);
  AddKnown(&now);
  Rotate(now);
  const bool young = now.seconds - latest_.seconds < kRotateS;
  return {now.seconds, now.Since(reset_), FindBottleneck(now.Since(young ? previous_ : latest_))};
}

void Collector::Reset() {
  Snapshot now = Take();
  const std::lock_guard lock(mutex_);
  AddKnown(&now);
  reset_ = std::move(now);
}

}  // namespace penstock::telemetry
