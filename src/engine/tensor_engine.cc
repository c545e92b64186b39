#include "engine/tensor_engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "engine/builtin_models.h"
#include "engine/openvino_model.h"
#include "hub/reference.h"
#include "openvino/model_files.h"

namespace penstock::engine {
namespace {

// The memory of batches is taken once and kept, as weights are.
uint64_t WeightBytes(const TensorEngineParts& parts, const TensorEngineOptions& options) {
  return parts.weight_bytes + sched::TensorScheduler::BatchBytes(
                                  parts.signature, parts.runners.size(), options.scheduler);
}

Status Declare(signature::DeclaredTensors declared, TensorEngineParts* parts) {
  if (declared.empty()) return Status::Ok();
  // The model has them and makes no use of them.
  std::erase_if(declared.inputs, [&](const signature::DeclaredTensor& input) {
    const auto& ignored = parts->ignored_inputs;
    return std::find(ignored.begin(), ignored.end(), input.name) != ignored.end();
  });
  PENSTOCK_ASSIGN_OR_RETURN(signature::TensorSignature users,
                            signature::DeclareTensors(parts->signature, declared));
  for (auto& runner : parts->runners) {
    runner = signature::NewDeclaredRunner(std::move(runner), parts->signature, declared);
  }
  parts->signature = std::move(users);
  return Status::Ok();
}

}  // namespace

std::optional<std::string> TensorModelPath(const std::string& reference) {
  namespace fs = std::filesystem;
  if (IsBuiltinModel(reference)) return reference;
  const std::string path = hub::ExpandHome(reference);
  if (!openvino::LooksLikeModel(path)) return std::nullopt;
  std::error_code ignored;
  if (fs::exists(fs::path(path) / "config.json", ignored) &&
      fs::exists(fs::path(path) / "tokenizer.json", ignored)) {
    return std::nullopt;
  }
  return path;
}

Expected<ModelNeeds> TensorNeedsOf(const std::string& path, const TensorEngineOptions& options) {
  if (!IsBuiltinModel(path)) return OpenVinoNeedsOf(path, options);
  PENSTOCK_ASSIGN_OR_RETURN(const TensorEngineParts parts, MakeBuiltinModel(path, options));
  ModelNeeds needs;
  needs.wanted.weights = WeightBytes(parts, options);
  needs.least = needs.wanted;
  return needs;
}

Expected<std::unique_ptr<TensorEngine>> TensorEngine::Load(const std::string& path,
                                                           const TensorEngineOptions& options,
                                                           program::Backend* backend,
                                                           metrics::Metrics* metrics) {
  if (backend != nullptr && !backend->is_host()) {
    return Status::Unsupported(
        "tensor models run on the CPU: name the models that go to the GPU (--device NAME=cuda)",
        "device");
  }
  TensorEngineOptions made = options;
  if (backend != nullptr) made.scheduler.gate = &backend->gate();
  auto parts = IsBuiltinModel(path)
                   ? MakeBuiltinModel(path, made)
                   : LoadOpenVinoModel(path, made, backend != nullptr ? backend->threads() : 1);
  if (!parts.ok()) return std::move(parts).status();
  const Status declared = Declare(options.declared, &*parts);
  if (!declared.ok()) return declared.Annotate(path);
  return Make(path, *std::move(parts), made, metrics);
}

Expected<std::unique_ptr<TensorEngine>> TensorEngine::Make(std::string path,
                                                           TensorEngineParts parts,
                                                           const TensorEngineOptions& options,
                                                           metrics::Metrics* metrics) {
  sched::TensorSchedulerOptions scheduling = options.scheduler;
  scheduling.model = options.name;
  parts.weight_bytes = WeightBytes(parts, options);
  parts.replicas = static_cast<int32_t>(parts.runners.size());
  auto signature = std::make_shared<const signature::TensorSignature>(parts.signature);
  PENSTOCK_ASSIGN_OR_RETURN(
      auto scheduler, sched::TensorScheduler::Make(std::move(parts.signature),
                                                   std::move(parts.runners), scheduling, metrics));
  return std::unique_ptr<TensorEngine>(new TensorEngine(
      std::move(path), std::move(parts), options, std::move(signature), std::move(scheduler)));
}

TensorEngine::TensorEngine(std::string path, TensorEngineParts parts, TensorEngineOptions options,
                           std::shared_ptr<const signature::TensorSignature> signature,
                           std::unique_ptr<sched::TensorScheduler> scheduler)
    : path_(std::move(path)),
      parts_(std::move(parts)),
      options_(std::move(options)),
      loaded_unix_s_(std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count()),
      signature_(std::move(signature)),
      scheduler_(std::move(scheduler)) {}

}  // namespace penstock::engine
