#include "api/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "api/service_impl.h"
#include "engine/tensor_engine.h"
#include "hub/file_choice.h"
#include "metrics/process_stats.h"
#include "os/processors.h"
#include "registry/registry.h"

namespace penstock::api {

namespace {

// More workers do not help: a model takes tokens more slowly than a few of them make them.
constexpr size_t kWorkersDefaultMax = 8;

ServiceOptions WithWorkers(ServiceOptions options) {
  if (options.tokenization_workers <= 0) {
    options.tokenization_workers =
        static_cast<int32_t>(std::min(UsableProcessors(), kWorkersDefaultMax));
  }
  return options;
}

}  // namespace

Service::Service(registry::Registry* registry, const ServiceOptions& options,
                 metrics::Metrics* metrics)
    : options_(WithWorkers(options)), impl_(std::make_unique<Impl>(registry, options_, metrics)) {}

Service::~Service() {
  StopAccepting();
  std::unique_lock lock(impl_->mutex);
  while (!impl_->AwaitAnswers(&lock, std::chrono::seconds(1))) continue;
}

SharedMemory& Service::shared_memory() { return impl_->shared_memory; }

void Service::StopAccepting() { impl_->accepting = false; }

bool Service::Drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  return impl_->AwaitAnswers(&lock, timeout);
}

void Service::RecordTrace(const metrics::RequestTrace& trace) { impl_->telemetry.Record(trace); }
telemetry::Stats Service::GetStats() const { return impl_->telemetry.ReadStats(); }
void Service::ResetStats() { impl_->telemetry.Reset(); }

telemetry::Snapshot Service::TakeSnapshot() const {
  telemetry::Snapshot snapshot = impl_->telemetry.Read();
  snapshot.infers = impl_->metrics.infer_duration().Snapshot();
  snapshot.requests_bytes = impl_->budget->used();
  snapshot.requests_in_flight = impl_->in_flight.taken();
  return snapshot;
}

telemetry::Limits Service::GetLimits() const {
  return {impl_->registry->memory_bytes(), impl_->budget->limit(),
          options_.token_cache_bytes + options_.result_cache_bytes, metrics::ProcessorsAllowed(),
          options_.tokenization_workers};
}

void Service::HoldReadiness(bool held) { impl_->starting = held; }

void Service::AnnounceStop() { impl_->leaving = true; }

bool Service::Ready() const { return Readiness().ok(); }

Status Service::Readiness() const {
  if (!impl_->accepting || impl_->leaving) {
    return {StatusCode::kUnavailable, "the server is shutting down"};
  }
  if (impl_->starting) return {StatusCode::kUnavailable, "the server is being started"};
  PENSTOCK_RETURN_IF_ERROR(impl_->registry->HealthOfDevices());
  if (impl_->registry->AllReady()) return Status::Ok();
  for (const registry::Registry::Entry& entry : impl_->registry->List()) {
    if (entry.state == registry::ModelState::kFailed && entry.version == 0) {
      return {StatusCode::kUnavailable, entry.error.message()};
    }
    if (entry.state == registry::ModelState::kWaiting ||
        entry.state == registry::ModelState::kLoading) {
      return {StatusCode::kUnavailable, fmt::format("model '{}' is being loaded", entry.name)};
    }
  }
  return {StatusCode::kUnavailable, "no model is served"};
}

namespace {

void AddTextInfo(const engine::DecoderEngine& engine, ModelInfo* info) {
  const engine::EngineInfo& loaded = engine.info();
  info->path = engine.path();
  info->revision = engine.revision();
  info->task = kGenerationTask;
  info->architecture = engine.model().decoder->config().architecture;
  info->dtype = numbers::DTypeWord(loaded.dtype);
  if (info->path.ends_with(".gguf")) info->quantisation = hub::QuantisationOf(info->path);
  info->tokenizer = engine.tokenizer().model_type();
  info->backend = loaded.backend;
  info->context = info->max_tokens = engine.context();
  info->sequences_max = engine.sequences_max();
  if (const auto& chat = engine.chat_template(false); chat.ok()) {
    info->chat = true;
    info->chat_template = chat->source();
  }
  info->hidden_size = loaded.hidden_size;
  info->parameters = static_cast<int64_t>(loaded.parameters);
  info->weight_bytes = static_cast<int64_t>(loaded.weight_bytes);
  info->created_unix_s = engine.loaded_unix_s();
  info->ready = true;
}

void AddTensorInfo(const engine::TensorEngine& engine, ModelInfo* info) {
  const engine::EngineInfo& loaded = engine.info();
  info->path = engine.path();
  info->backend = loaded.backend;
  info->weight_bytes = static_cast<int64_t>(loaded.weight_bytes);
  info->created_unix_s = engine.loaded_unix_s();
  info->signature = engine.shared_signature();
  info->platform = engine.platform();
  info->ready = true;
}

void AddEncoderInfo(engine::EncoderEngine& engine, ModelInfo* info) {
  const families::ModelFolder& folder = engine.folder();
  const engine::EngineInfo& loaded = engine.info();
  info->path = folder.path;
  info->revision = engine.revision();
  info->task = families::ModelTaskName(folder.task);
  info->architecture = folder.encoder.model_type;
  info->dtype = numbers::DTypeWord(loaded.dtype);
  if (info->path.ends_with(".gguf")) info->quantisation = hub::QuantisationOf(info->path);
  info->int8_keep = models::TypeOverridesText(loaded.int8_keep);
  if (folder.task == families::ModelTask::kEmbedding) {
    info->pooling = families::PoolingModeName(folder.pooling);
    info->dimensions = loaded.embedding_size;
    info->similarity = folder.similarity;
    info->normalizes = folder.normalize;
    info->prompts = folder.prompts;
  } else {
    info->labels = folder.encoder.labels;
  }
  info->tokenizer = engine.tokenizer().model_type();
  info->backend = loaded.backend;
  info->max_tokens = loaded.max_tokens;
  info->max_batch_tokens = static_cast<int32_t>(engine.scheduler().limits().tokens);
  info->hidden_size = loaded.hidden_size;
  info->parameters = static_cast<int64_t>(loaded.parameters);
  info->weight_bytes = static_cast<int64_t>(loaded.weight_bytes);
  info->created_unix_s = engine.loaded_unix_s();
  info->ready = true;
}

// Adds what the files of a model that is not loaded say of it.
void AddFileFacts(const engine::FileFacts& facts, ModelInfo* info) {
  info->path = facts.path;
  info->revision = facts.revision;
  info->architecture = facts.architecture;
  if (facts.path.ends_with(".gguf")) info->quantisation = hub::QuantisationOf(facts.path);
  info->max_tokens = facts.max_tokens;
  if (facts.generates) info->context = facts.max_tokens;
  info->chat = facts.chat;
  info->chat_template = facts.chat_template;
  info->hidden_size = facts.hidden_size;
  info->parameters = facts.parameters;
  info->weight_bytes = facts.weight_bytes;
}

void AddLifecycle(const registry::Registry::Entry& entry, ModelInfo* info) {
  info->state = registry::ModelStateName(entry.state);
  if (entry.state == registry::ModelState::kFailed) info->error = entry.error.message();
  info->version = entry.version;
  if (entry.refused) {
    info->refused_version = entry.refused->number;
    info->refused_error = entry.refused->error;
  }
  info->pinned = entry.pinned;
  info->keep_alive = entry.keep_alive;
  info->load_s = entry.load_s;
  info->loads = entry.loads;
  info->requests_waiting = entry.requests_waiting;
  info->evictions = entry.evictions;
  info->weights_memory = entry.bytes.weights;
  info->activations_memory = entry.bytes.activations;
  info->cache_memory = entry.bytes.cache;
  if (entry.state == registry::ModelState::kLoading) info->load_percent = entry.load_percent;
  if (entry.state != registry::ModelState::kReady && entry.state != registry::ModelState::kParked)
    return;
  const std::chrono::duration<double> idle = Clock::now() - entry.last_use;
  info->idle_s = idle.count();
  if (entry.pinned || entry.keep_alive < registry::KeepAlive(0)) return;
  info->unload_in_s = std::max(0.0, std::chrono::duration<double>(entry.keep_alive - idle).count());
}

ModelInfo InfoOf(const registry::Registry::Entry& entry) {
  ModelInfo info;
  info.name = entry.name;
  info.aliases = entry.aliases;
  info.path = entry.reference;
  if (entry.purpose) info.task = engine::ModelPurposeName(*entry.purpose);
  AddLifecycle(entry, &info);
  if (const engine::DecoderEngine* const text = entry.As<engine::DecoderEngine>())
    AddTextInfo(*text, &info);
  if (const engine::TensorEngine* const tensors = entry.As<engine::TensorEngine>())
    AddTensorInfo(*tensors, &info);
  if (engine::EncoderEngine* const encoder = entry.As<engine::EncoderEngine>())
    AddEncoderInfo(*encoder, &info);
  if (!entry.model && entry.facts) AddFileFacts(*entry.facts, &info);
  return info;
}

}  // namespace

std::vector<ModelInfo> Service::Models() const {
  std::vector<ModelInfo> models;
  for (const registry::Registry::Entry& entry : impl_->registry->List())
    models.push_back(InfoOf(entry));
  return models;
}

void Service::LoadModel(const std::string& name, const RequestContext& context,
                        Callback<ModelInfo> done) {
  if (!impl_->registry->Has(name)) return done(Model(name));
  const std::shared_ptr<metrics::RequestTrace> trace = context.trace;
  const bool waits = trace != nullptr && impl_->registry->MustAwait(name, {});
  if (waits) trace->Enter(metrics::Stage::kLoad);
  impl_->registry->Await(name, {}, context, [this, name, done, waits, trace](const Status& status) {
    if (waits) trace->Enter(metrics::Stage::kParse);  // goes on where it was
    if (!status.ok()) return done(status);
    done(Model(name));
  });
}

Expected<ModelInfo> Service::StartLoadModel(const std::string& name) {
  const auto outcome = impl_->registry->Load(name);
  if (outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    PENSTOCK_RETURN_IF_ERROR(outcome.get());
  }
  return Model(name);
}

Expected<ModelInfo> Service::UnloadModel(const std::string& name) {
  const auto outcome = impl_->registry->Unload(name);
  if (outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    PENSTOCK_RETURN_IF_ERROR(outcome.get());
  }
  return Model(name);
}

Expected<ModelInfo> Service::PinModel(const std::string& name, bool pinned) {
  PENSTOCK_RETURN_IF_ERROR(impl_->registry->Pin(name, pinned));
  return Model(name);
}

namespace {

// The model of that name or, where any name is accepted, the one for the first of `uses` that has
// one.
Expected<ModelInfo> InfoFor(const registry::Registry& registry, const std::string& name,
                            std::initializer_list<registry::ModelUse> uses) {
  const auto entries = registry.List();
  const registry::ModelUse& use = *uses.begin();
  const bool for_all = use.is_any();
  const auto answers = [&](const registry::Registry::Entry& entry, const std::string& to) {
    const auto& aliases = entry.aliases;
    return (to.empty() && for_all) || to == entry.name ||
           std::find(aliases.begin(), aliases.end(), to) != aliases.end();
  };
  for (const registry::Registry::Entry& entry : entries) {
    if (answers(entry, name)) return InfoOf(entry);
  }
  for (const registry::ModelUse& each : uses) {
    const auto known = registry.Look(name, each);
    if (!known) continue;
    for (const registry::Registry::Entry& entry : entries) {
      if (entry.name == known->name) return InfoOf(entry);
    }
  }
  if (name.empty() && !for_all) return Status::NotFound("no model for this is served", "model");
  const Status none = registry.Find<engine::EncoderEngine>(name).status();
  return none.ok() ? Status::NotFound("no such model", "model") : none;
}

}  // namespace

Expected<ModelInfo> Service::Model(const std::string& name) const {
  return InfoFor(*impl_->registry, name,
                 {{},
                  {.capability = engine::Capability::kGenerate},
                  {.capability = engine::Capability::kTensors}});
}

Expected<ModelInfo> Service::EmbeddingModel(const std::string& name) const {
  return InfoFor(*impl_->registry, name, {{.task = families::ModelTask::kEmbedding}});
}

Expected<ModelInfo> Service::TextModel(const std::string& name) const {
  return InfoFor(*impl_->registry, name, {{.capability = engine::Capability::kGenerate}});
}

}  // namespace penstock::api
