// TensorEngine: one tensor model, ready to run: its runtime, signature and scheduler. Users of a
// registered engine hold a Lease<TensorEngine> (registry/lease.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/model.h"
#include "metrics/metrics.h"
#include "program/backend.h"
#include "sched/tensor_scheduler.h"
#include "signature/declared_tensors.h"
#include "signature/tensor_runner.h"

namespace penstock::engine {

struct TensorEngineOptions {
  std::string name;     // as served
  int64_t version = 0;  // of a model that has versions; else 0
  // Rows of a batch at most. -1: as the model's settings say, else chosen where its first dimension
  // may be anything; 0: the model has no batches.
  int32_t max_batch_size = -1;
  int32_t replicas = 1;
  // `model` is set to the name, `gate` to the backend's.
  sched::TensorSchedulerOptions scheduler;
  // Inputs and outputs as its settings have them: checked, and kept where they differ.
  signature::DeclaredTensors declared;
  ModelBytes granted;  // the memory it may take; 0: as it likes
};

// The parts of a TensorEngine. Tests supply their own runners.
struct TensorEngineParts : EngineInfo {
  signature::TensorSignature signature;
  std::vector<std::unique_ptr<signature::TensorRunner>> runners;
  // As Triton names it: "onnxruntime_onnx", "openvino", "tensorflow_savedmodel",
  // "tensorflow_graphdef". Clients look at it. Else "tflite" or "builtin".
  std::string platform;
  // Inputs that the file declares and the model makes no use of: a request may have them or not.
  std::vector<std::string> ignored_inputs;
};

// Whether a reference names a tensor model, by names of files alone: "builtin:...", a file as
// openvino/model_files.h takes it, or a folder with one. A folder that also has config.json and
// tokenizer.json is a text model's. Nothing: it is none; else its path on this machine.
std::optional<std::string> TensorModelPath(const std::string& reference);

// What such a model takes, told before it is loaded. Errors as TensorEngine::Load, as far as files
// tell.
Expected<ModelNeeds> TensorNeedsOf(const std::string& path, const TensorEngineOptions& options);

class TensorEngine final : public Model {
 public:
  static constexpr Capability kCapability = Capability::kTensors;

  // Reads and compiles the model at `path`, as openvino/model_files.h takes it, or a built-in one
  // ("builtin:identity", builtin_models.h). `backend` and `metrics` must outlive the engine.
  // Errors: those of TensorModel::Load and Compile, and of DeclareTensors; kUnavailable: OpenVINO
  // is not installed.
  static Expected<std::unique_ptr<TensorEngine>> Load(const std::string& path,
                                                      const TensorEngineOptions& options,
                                                      program::Backend* backend,
                                                      metrics::Metrics* metrics);
  static Expected<std::unique_ptr<TensorEngine>> Make(std::string path, TensorEngineParts parts,
                                                      const TensorEngineOptions& options,
                                                      metrics::Metrics* metrics);

  const std::string& name() const override { return options_.name; }
  const EngineInfo& info() const override { return parts_; }
  uint64_t HeldBytes() const override { return scheduler_->HeldBytes(); }
  uint64_t ReleaseMemory() override { return scheduler_->ReleaseMemory(); }
  void Stop() override { scheduler_->Stop(); }
  const std::string& path() const override { return path_; }
  ModelPurpose purpose() const override { return {.capability = kCapability}; }

  const std::string& platform() const { return parts_.platform; }
  int64_t version() const { return options_.version; }
  const signature::TensorSignature& signature() const { return *signature_; }
  std::shared_ptr<const signature::TensorSignature> shared_signature() const { return signature_; }
  const std::vector<std::string>& ignored_inputs() const { return parts_.ignored_inputs; }
  sched::TensorScheduler& scheduler() { return *scheduler_; }
  const sched::TensorScheduler& scheduler() const { return *scheduler_; }
  int64_t loaded_unix_s() const { return loaded_unix_s_; }

 private:
  TensorEngine(std::string path, TensorEngineParts parts, TensorEngineOptions options,
               std::shared_ptr<const signature::TensorSignature> signature,
               std::unique_ptr<sched::TensorScheduler> scheduler);

  const std::string path_;
  const TensorEngineParts parts_;  // signature and runners have gone to the scheduler
  const TensorEngineOptions options_;
  int64_t loaded_unix_s_ = 0;
  const std::shared_ptr<const signature::TensorSignature> signature_;
  const std::unique_ptr<sched::TensorScheduler> scheduler_;
};

}  // namespace penstock::engine
