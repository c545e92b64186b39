#include "runtime/local_models.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/regular_file.h"
#include "cache/remote_seal.h"
#include "devices/backends.h"
#include "families/model_kind.h"
#include "hub/hub.h"
#include "hub/reference.h"
#include "log/log.h"
#include "os/processors.h"
#include "runtime/per_model.h"

namespace penstock::runtime {

namespace {

// The secret of --redis-key or its file; "" = none is given.
Expected<std::string> RedisSecret(const ModelOptions& flags) {
  const auto refuse = [](const std::string& why) {
    return Status::InvalidArgument("--redis-key: " + why, "redis-key");
  };
  const char* const variable = std::getenv("PENSTOCK_REDIS_KEY");
  // A secret that failed to arrive must not mean no secret.
  if (variable != nullptr && *variable == '\0' && !flags.redis_key) {
    return refuse("PENSTOCK_REDIS_KEY is set, but empty");
  }
  std::string secret = flags.redis_key.value_or("");
  if (!flags.redis_key_file.empty()) {
    if (flags.redis_key) return refuse("give either the secret or --redis-key-file");
    auto text = ReadRegularFile(flags.redis_key_file, cache::RemoteSeal::kSecretBytesMax + 2);
    if (!text.ok()) return refuse(text.status().message());
    secret = *std::move(text);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  } else if (!flags.redis_key) {
    return secret;
  }
  if (secret.size() < cache::RemoteSeal::kSecretBytesMin ||
      secret.size() > cache::RemoteSeal::kSecretBytesMax) {
    return refuse(fmt::format("the secret has {} bytes; it must have {} to {}", secret.size(),
                              cache::RemoteSeal::kSecretBytesMin,
                              cache::RemoteSeal::kSecretBytesMax));
  }
  return secret;
}

Status ApplyRedis(const ModelOptions& flags, api::ServiceOptions* limits) {
  PENSTOCK_ASSIGN_OR_RETURN(limits->redis_secret, RedisSecret(flags));
  if (flags.redis_url.empty()) return Status::Ok();
  auto redis = cache::RedisUrl::Parse(flags.redis_url);
  if (!redis.ok()) {
    return Status::InvalidArgument("--redis-url: " + redis.status().message(), "redis-url");
  }
  if (limits->redis_secret.empty() && !redis->IsLocal()) {
    LogWarn(
        "redis at {} is another machine and there is no --redis-key: whoever can write there can "
        "make up results",
        redis->ToString());
  }
  limits->redis = *std::move(redis);
  return Status::Ok();
}

// A folder, a hub reference, or the path of a tokenizer.json.
Expected<std::unique_ptr<engine::Model>> LoadTokenizer(const registry::ModelSpec& spec,
                                                       metrics::Metrics* metrics) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string path = spec.reference;
  if (engine::TensorModelPath(path)) {
    return Status::Unsupported("it takes and gives tensors, and has no tokenizer", "model");
  }
  if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) {
    hub::ResolveOptions resolve;
    resolve.tokenizer_only = true;
    PENSTOCK_ASSIGN_OR_RETURN(path, hub::ResolveModel(path, resolve));
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<engine::Model> model,
      engine::EncoderEngine::LoadTokenizer(path, spec.options.encoder, metrics));
  return model;
}

// Checks references without the hub, before anything is started.
Status CheckReferences(const std::vector<registry::ModelSpec>& specs) {
  for (const registry::ModelSpec& spec : specs) {
    if (engine::TensorModelPath(spec.reference)) continue;
    const Status status = hub::ModelReference::Parse(spec.reference).status();
    if (status.ok()) continue;
    return {status.code(), fmt::format("cannot load model '{}': {}", spec.name, status.message())};
  }
  return Status::Ok();
}

// The commands that wait for their models take encoders. Others are refused before their weights
// are read.
Status CheckEncoders(const ModelOptions& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto specs, ModelSpecs(flags));
  for (const registry::ModelSpec& spec : specs) {
    if (engine::TensorModelPath(spec.reference)) {
      return Status::Unsupported(
          fmt::format("cannot load model '{}': it takes and gives tensors, not texts (penstock "
                      "serve takes it)",
                      spec.name),
          "model");
    }
    const auto kind = families::KindOfModel(spec.reference);
    if (!kind.ok() || *kind != families::ModelKind::kDecoder) continue;
    return Status::Unsupported(
        fmt::format("cannot load model '{}': it generates text; it gives no vectors and no scores "
                    "(penstock generate, chat and serve take it)",
                    spec.name),
        "model");
  }
  return Status::Ok();
}

// Models that are loaded at the start, but leave when nobody uses them: their next request waits.
void TellWhatLeaves(const std::vector<registry::ModelSpec>& specs,
                    const registry::RegistryOptions& options) {
  if (!options.on_demand) return;
  for (const registry::ModelSpec& spec : specs) {
    const registry::KeepAlive kept = spec.keep_alive.value_or(options.keep_alive);
    if (!spec.preload || spec.pinned || kept < registry::KeepAlive(0)) continue;
    LogInfo(
        "model '{}' is preloaded, and leaves after {:.0f} s without a request (--keep-alive); "
        "the next request loads it again. --keep-alive -1 keeps it",
        spec.name, std::chrono::duration<double>(kept).count());
  }
}

// Registry, with its models, and service.
Status Assemble(const ModelOptions& flags, registry::Registry::Loader loader, LocalModels* local) {
  PENSTOCK_ASSIGN_OR_RETURN(auto specs, ModelSpecs(flags));
  if (loader == nullptr) PENSTOCK_RETURN_IF_ERROR(CheckReferences(specs));
  api::ServiceOptions limits = flags.limits;
  registry::RegistryOptions options;
  program::Backend* const backend = local->backend();
  uint64_t memory_bytes = 0;
  if (flags.on_demand) {
    PENSTOCK_ASSIGN_OR_RETURN(const MemoryPlan plan,
                              MemoryPlan::Make(flags.memory, backend->AvailableBytes(), limits));
    if (plan.total > 0) LogInfo("memory: {}", plan.Text());
    memory_bytes = plan.models;
    options.keep_alive = std::chrono::minutes(5);
    limits.inflight_bytes = plan.inflight_bytes;
    limits.token_cache_bytes = plan.token_cache_bytes;
    limits.result_cache_bytes = plan.result_cache_bytes;
  }
  options.on_demand = flags.on_demand;
  options.check_interval = std::chrono::seconds(flags.check_interval_s);
  TellWhatLeaves(specs, options);
  if (flags.on_demand) local->check = std::make_unique<ReferenceCheck>(specs);
  local->registry = std::make_unique<registry::Registry>(
      backend == nullptr ? devices::Devices(nullptr)
                         : devices::DevicesOf(local->devices, memory_bytes, flags.device_memory),
      &local->metrics, std::move(loader), options);
  for (registry::ModelSpec& spec : specs) {
    PENSTOCK_RETURN_IF_ERROR(local->registry->Add(std::move(spec)));
  }
  if (!flags.repositories.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(local->repository, Repository::Open(local->registry.get(), flags));
  }
  PENSTOCK_RETURN_IF_ERROR(ApplyRedis(flags, &limits));
  local->service = std::make_unique<api::Service>(local->registry.get(), limits, &local->metrics);
  if (flags.pull_by_request) {
    PENSTOCK_ASSIGN_OR_RETURN(local->store, HubStore::Make(local->registry.get(), flags));
    local->service->SetModelStore(local->store.get());
  }
  local->registry->StartLoading();
  if (local->repository != nullptr && flags.repository_poll_s > 0) local->repository->Start();
  return Status::Ok();
}

}  // namespace

Expected<std::unique_ptr<LocalModels>> LocalModels::Start(const ModelOptions& given) {
  ModelOptions flags = given;
  TakeDefaultModel(&flags);
  hub::SetAutoPull(flags.auto_pull);
  auto local = std::make_unique<LocalModels>();
  const ProcessorLimits processors = ReadProcessorLimits();
  LogInfo("{}", processors.Text());
  if (static_cast<size_t>(flags.threads) > processors.usable()) {
    LogWarn("--threads {}: this process may use {}; more threads would only wait", flags.threads,
            processors.Text());
  }
  PENSTOCK_ASSIGN_OR_RETURN(const PerModel devices, PerModel::Parse("device", flags.devices));
  PENSTOCK_ASSIGN_OR_RETURN(
      local->devices,
      devices::NewDevices({.threads = flags.threads, .pin = flags.pin, .isa = flags.isa},
                          devices.Values()));
  PENSTOCK_RETURN_IF_ERROR(Assemble(flags, nullptr, local.get()));
  return local;
}

Expected<std::unique_ptr<LocalModels>> LocalModels::Load(const ModelOptions& flags) {
  PENSTOCK_RETURN_IF_ERROR(CheckEncoders(flags));
  PENSTOCK_ASSIGN_OR_RETURN(auto local, Start(flags));
  PENSTOCK_RETURN_IF_ERROR(local->registry->WaitLoaded());
  return local;
}

Expected<std::unique_ptr<LocalModels>> LocalModels::LoadTokenizers(const ModelOptions& given) {
  ModelOptions flags = given;
  TakeDefaultModel(&flags);
  hub::SetAutoPull(flags.auto_pull);
  auto local = std::make_unique<LocalModels>();
  metrics::Metrics* const metrics = &local->metrics;
  PENSTOCK_RETURN_IF_ERROR(Assemble(
      flags, [metrics](const registry::ModelSpec& spec) { return LoadTokenizer(spec, metrics); },
      local.get()));
  PENSTOCK_RETURN_IF_ERROR(local->registry->WaitLoaded());
  return local;
}

}  // namespace penstock::runtime
