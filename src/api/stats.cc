#include "api/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "metrics/process_stats.h"
#include "os/memory.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

constexpr std::chrono::seconds kRotate{10};
// Busy for this share of the time = saturated; the rest goes into gaps between two pieces of work.
constexpr double kSaturated = 0.9;

int64_t Nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

const char* WhyStage(metrics::Stage stage) {
  switch (stage) {
    case metrics::Stage::kReceive:
      return "clients take long to send their requests";
    case metrics::Stage::kParse:
      return "requests are large, or the io threads are behind with reading them";
    case metrics::Stage::kLoad:
      return "requests wait for models to be loaded";
    case metrics::Stage::kTokenize:
      return "texts wait for the tokenization workers";
    case metrics::Stage::kQueue:
      return "requests wait for batches before them";
    case metrics::Stage::kForm:
      return "batches take long to be laid out";
    case metrics::Stage::kForward:
      return "the model's own work, and no resource is used up";
    case metrics::Stage::kPrefill:
      return "prompts are long, or few of their tokens are cached";
    case metrics::Stage::kDecode:
      return "the model writes, and no resource is used up";
    case metrics::Stage::kComplete:
      return "results wait for the io threads";
    case metrics::Stage::kSerialise:
      return "answers are large, and printing them takes long";
    case metrics::Stage::kSend:
      return "clients take long to take their answers";
  }
  return "";
}

double BusyS(const LoadSums::Model& model) {
  return model.text ? model.decode.busy_s : model.busy_s;
}

std::vector<Stats::Device> MemoryOf(const registry::Registry& registry) {
  std::vector<Stats::Device> devices;
  for (registry::Registry::DeviceMemory& one : registry.MemoryOfDevices()) {
    devices.push_back({std::move(one.device), static_cast<int64_t>(one.budget_bytes),
                       static_cast<int64_t>(one.used_bytes)});
    devices.back().lost = std::move(one.lost);
    if (const auto& counters = one.counters; counters != nullptr) {
      devices.back().work = {counters->busy_s.load(), counters->bytes_in.load(),
                             counters->bytes_out.load(), counters->captures.load(),
                             counters->graphs.load()};
    }
  }
  return devices;
}

// At most one digit after the point, as the web page writes it: "66.2", "67".
std::string Percent(double share) { return fmt::format("{}", std::round(share * 1000) / 10); }

}  // namespace

LoadSums LoadSums::Since(const LoadSums& earlier) const {
  LoadSums window = *this;
  window.seconds -= earlier.seconds;
  window.requests -= earlier.requests;
  for (size_t s = 0; s < metrics::kStages; ++s) window.stage_s[s] -= earlier.stage_s[s];
  window.tokenize_busy_s -= earlier.tokenize_busy_s;
  window.processor_s -= earlier.processor_s;
  for (Model& model : window.models) {
    const auto found = std::find_if(earlier.models.begin(), earlier.models.end(),
                                    [&](const Model& one) { return one.name == model.name; });
    if (found == earlier.models.end()) continue;  // it came meanwhile
    const Model& before = *found;
    if (model.batches < before.batches) continue;  // loaded again meanwhile, and counted anew
    model.text = model.text || before.text;
    model.batches -= before.batches;
    model.rows -= before.rows;
    model.tokens -= before.tokens;
    model.tensor_requests -= before.tensor_requests;
    model.busy_s -= before.busy_s;
    model.decode = model.decode.Since(before.decode);
  }
  return window;
}

Bottleneck FindBottleneck(const LoadSums& load, const std::vector<std::string>& models,
                          size_t tokenization_workers, int processors) {
  Bottleneck found;
  found.window_s = load.seconds;
  const double seconds = std::max(load.seconds, 1e-9);
  const auto busiest = std::max_element(
      load.models.begin(), load.models.end(),
      [](const LoadSums::Model& a, const LoadSums::Model& b) { return BusyS(a) < BusyS(b); });
  const double model_busy = busiest == load.models.end() ? 0 : BusyS(*busiest) / seconds;
  const double workers_busy = load.tokenize_busy_s / seconds /
                              static_cast<double>(std::max<size_t>(tokenization_workers, 1));
  const double processors_busy = load.processor_s / seconds / processors;
  const auto saturated = [&](std::string name, std::string why) {
    found.name = std::move(name);
    found.why = std::move(why);
    found.saturated = true;
    return found;
  };
  if (model_busy >= kSaturated) {
    return saturated(
        metrics::StageName(busiest->text ? metrics::Stage::kDecode : metrics::Stage::kForward),
        fmt::format("the model '{}' is busy {} % of the time",
                    models[busiest - load.models.begin()], Percent(std::min(model_busy, 1.0))));
  }
  if (workers_busy >= kSaturated) {
    return saturated(metrics::StageName(metrics::Stage::kTokenize),
                     fmt::format("the {} tokenization workers are busy {} % of the time",
                                 tokenization_workers, Percent(std::min(workers_busy, 1.0))));
  }
  double total_s = 0;
  for (const double s : load.stage_s) total_s += s;
  const auto longest = std::max_element(load.stage_s.begin(), load.stage_s.end());
  const auto stage = static_cast<metrics::Stage>(longest - load.stage_s.begin());
  if (processors_busy >= kSaturated && load.requests > 0) {
    return saturated("processor",
                     fmt::format("the {} processors are busy {} % of the time; requests spend most "
                                 "of their time in {}",
                                 processors, Percent(std::min(processors_busy, 1.0)),
                                 metrics::StageName(stage)));
  }
  if (total_s <= 0) {
    found.name = "none";
    found.why = "no timed request was answered";
    return found;
  }
  found.name = metrics::StageName(stage);
  found.why =
      fmt::format("{} % of the requests' time: {}", Percent(*longest / total_s), WhyStage(stage));
  return found;
}

ServiceStats::ServiceStats(const registry::Registry* registry, const WorkerPool* pool,
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
    reset_ = previous_ = latest_ = Now();
  }
  rotate_at_ns_ = Nanoseconds(latest_.at + kRotate);
}

ServiceStats::Moment ServiceStats::Now() const {
  Moment now;
  now.at = Clock::now();
  LoadSums& sums = now.sums;
  sums.seconds = Seconds(now.at - started_);
  sums.requests = requests_.Snapshot().count();
  for (size_t s = 0; s < metrics::kStages; ++s) {
    sums.stage_s[s] = static_cast<double>(stages_[s]->sum_ns()) / 1e9;
  }
  sums.tokenize_busy_s = static_cast<double>(pool_->load()->busy_ns.load()) / 1e9;
  sums.processor_s = metrics::ProcessorSeconds();
  for (const registry::Registry::Entry& entry : registry_->List()) {
    LoadSums::Model& model = sums.models.emplace_back();
    model.name = entry.name;
    const bool keeps_own_sums = entry.purpose && !entry.purpose->encodes();
    if (keeps_own_sums && !entry.model) {
      if (const auto seen = seen_.find(entry.name); seen != seen_.end()) model = seen->second;
      continue;
    }
    if (engine::DecoderEngine* const engine = entry.As<engine::DecoderEngine>()) {
      model.text = true;
      model.decode = engine->scheduler().totals();
      seen_[entry.name] = model;
      continue;
    }
    if (const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>()) {
      const sched::TensorStatistics done = engine->scheduler().Statistics();
      model.batches = done.runs;
      model.rows = done.rows;
      model.tensor_requests = done.success.count;
      model.busy_s = static_cast<double>(done.infer.ns) / 1e9 / entry.replicas;
      seen_[entry.name] = model;
      continue;
    }
    const sched::SchedulerStats done = sched::EncoderScheduler::StatsOf(entry.name, metrics_);
    model.batches = done.batches;
    model.tokens = done.tokens;
    model.rows = done.rows;
    model.busy_s = done.busy_s;
    // How busy its replicas are on average.
    model.busy_s /= entry.replicas;
  }
  return now;
}

void ServiceStats::RotateIfDue() const {
  if (Nanoseconds(Clock::now()) < rotate_at_ns_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Moment now = Now();
  // After a pause the present begins anew: the pause would hide it.
  previous_ = now.at - latest_.at < 2 * kRotate ? std::move(latest_) : now;
  latest_ = std::move(now);
  rotate_at_ns_.store(Nanoseconds(latest_.at + kRotate), std::memory_order_relaxed);
}

void ServiceStats::Record(const metrics::RequestTrace& trace) {
  RotateIfDue();
  for (size_t s = 0; s < metrics::kStages; ++s) {
    if (const int64_t ns = trace.ns(static_cast<metrics::Stage>(s)); ns > 0) stages_[s]->Record(ns);
  }
  requests_.Record(trace.wall_ns());
}

Stats ServiceStats::Read() const {
  RotateIfDue();
  Stats stats;
  const std::lock_guard lock(mutex_);
  const Moment now = Now();
  const LoadSums window = now.sums.Since(reset_.sums);
  stats.uptime_s = now.sums.seconds;
  stats.window_s = window.seconds;
  stats.requests = requests_.Snapshot().Since(reset_requests_);
  double total_s = 0;
  for (size_t s = 0; s < metrics::kStages; ++s) {
    stats.stages.push_back(
        {static_cast<metrics::Stage>(s), 0, stages_[s]->Snapshot().Since(reset_stages_[s])});
    total_s += stats.stages.back().latency.total_s();
  }
  for (StageStats& stage : stats.stages) {
    stage.percent = total_s > 0 ? 100 * stage.latency.total_s() / total_s : 0;
  }
  std::vector<std::string> names;
  for (const registry::Registry::Entry& entry : registry_->List()) {
    ModelStats model = {entry.name, entry.device, entry.state == registry::ModelState::kReady};
    if (const size_t m = stats.models.size(); m < window.models.size()) {
      model.batches = static_cast<int64_t>(window.models[m].batches);
      model.rows = static_cast<int64_t>(window.models[m].rows);
      model.tokens = static_cast<int64_t>(window.models[m].tokens);
      model.busy_s = window.models[m].busy_s;
    }
    if (engine::DecoderEngine* const engine = entry.As<engine::DecoderEngine>()) {
      const size_t m = stats.models.size();
      auto done = m < window.models.size() ? window.models[m].decode : generate::DecodeTotals();
      model.batches = static_cast<int64_t>(done.steps);
      model.rows = static_cast<int64_t>(done.generated_tokens);
      model.tokens = static_cast<int64_t>(done.computed_tokens);
      model.busy_s = done.busy_s;
      model.text = {engine->scheduler().stats(), done};
    }
    if (entry.purpose && entry.purpose->capability == engine::Capability::kTensors) {
      ModelStats::Tensors& tensors = model.tensors.emplace();
      if (const size_t m = stats.models.size(); m < window.models.size()) {
        tensors.requests = static_cast<int64_t>(window.models[m].tensor_requests);
      }
      if (const engine::TensorEngine* const engine = entry.As<engine::TensorEngine>()) {
        const sched::TensorScheduler& scheduler = engine->scheduler();
        tensors.queued_rows = scheduler.queued_rows();
        tensors.queued_bytes = scheduler.queued_bytes();
        tensors.max_batch_size = scheduler.signature().max_batch_size;
      }
    } else {
      const sched::SchedulerStats waits = sched::EncoderScheduler::StatsOf(entry.name, metrics_);
      model.queued_tokens = waits.queued_tokens;
      model.queued_requests = waits.queued_requests;
    }
    names.push_back(entry.name);
    stats.models.push_back(std::move(model));
  }
  stats.devices = MemoryOf(*registry_);
  const double seconds = std::max(window.seconds, 1e-9);
  stats.tokenization_workers = static_cast<int64_t>(pool_->threads());
  stats.tokenization_waiting = pool_->load()->waiting_tasks.load();
  stats.tokenization_busy =
      window.tokenize_busy_s / seconds / static_cast<double>(pool_->threads());
  stats.processors = window.processor_s / seconds;
  stats.processors_max = metrics::ProcessorsAllowed();
  stats.resident_bytes = static_cast<int64_t>(ResidentBytes());
  const Moment& recent = now.at - latest_.at < kRotate ? previous_ : latest_;
  stats.bottleneck = FindBottleneck(now.sums.Since(recent.sums), names, pool_->threads(),
                                    static_cast<int>(stats.processors_max));
  return stats;
}

void ServiceStats::Reset() {
  const std::lock_guard lock(mutex_);
  reset_ = Now();
  for (size_t s = 0; s < metrics::kStages; ++s) reset_stages_[s] = stages_[s]->Snapshot();
  reset_requests_ = requests_.Snapshot();
}

}  // namespace penstock::api
