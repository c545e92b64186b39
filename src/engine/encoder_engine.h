// EncoderEngine: one encoder model, ready to work: folder, tokenizer, weights and scheduler. Users
// of a registered engine hold a lease (registry/lease.h).
//
// The engine owns all four; only the Backend is shared between models. Everything but the scheduler
// is immutable after loading, so any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checks/linear_check.h"
#include "checks/model_load.h"
#include "engine/model.h"
#include "families/model_folder.h"
#include "metrics/metrics.h"
#include "models/linear_types.h"
#include "numbers/dtype.h"
#include "program/backend.h"
#include "sched/encoder_scheduler.h"
#include "text/tokenizer.h"

namespace penstock::checks {
struct RunnerToCheck;  // checks/known_answers.h
}  // namespace penstock::checks

namespace penstock::engine {

struct EncoderEngineOptions {
  std::string name;      // as served
  std::string revision;  // commit if known
  // Used where the folder does not say how to pool; refused where it says otherwise.
  std::optional<families::PoolingMode> pooling;
  // Of the model's linear layers: kF32, kBf16 or kI8; none: what the backend prefers.
  std::optional<numbers::DType> dtype;
  // Where dtype is kI8: these linear layers take what the backend prefers.
  std::vector<models::TypeOverride> int8_keep;
  // Work out EngineInfo::fingerprint, which reads the whole folder.
  bool fingerprint = false;
  // Load sets `model` to the name, and `gate` and what else depends on the backend. It measures
  // max_batch_tokens where that is kAutoBatchTokens, and takes the backend's max_batch_rows. `times`
  // known: those of an earlier load, not measured again.
  sched::EncoderSchedulerOptions scheduler;
  // Runners of the model, each with activation memory of its own; a device may have more, which
  // share it (BackendSizes).
  int32_t replicas = 1;
  ModelBytes granted;  // the activations it may take; 0: as it likes
  checks::ModelCheckOptions check;
};

// "cls", "mean", "max", "lasttoken", ... as PoolingModeName; kInvalidArgument lists them.
Expected<families::PoolingMode> ParsePoolingMode(const std::string& name);
// "auto" (none), "f32", "bf16", "int8"; kInvalidArgument lists them.
Expected<std::optional<numbers::DType>> ParseDType(const std::string& name);

// The parts of an EncoderEngine. Tests supply their own tokenizer and runner.
struct EncoderParts : EngineInfo {
  families::ModelFolder folder;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<std::unique_ptr<program::EncoderRunner>> runners;
  checks::LinearChecker linear_checker;  // used by Load alone; null: the layers are not Penstock's
  bool same_bits = true;                 // of a result, whatever shares the batch
  uint64_t activation_sets = 1;          // that runners have together

  // These, as checks see them. `times`: of batches.
  checks::RunnerToCheck ToCheck(const sched::BatchTimes& times) const;
};

class EncoderEngine final : public Model {
 public:
  static constexpr Capability kCapability = Capability::kEncode;

  // Reads the model folder at `path` and packs its weights; seconds for a big one. `backend` and
  // `metrics` must outlive the engine. Errors name the file, tensor or setting at fault; kInternal
  // also: a check of options.check failed.
  static Expected<std::unique_ptr<EncoderEngine>> Load(const std::string& path,
                                                       const EncoderEngineOptions& options,
                                                       program::Backend* backend,
                                                       metrics::Metrics* metrics);
  // A tokenizer and no model, from a folder with tokenizer.json or from such a file: for
  // Service::Tokenize alone; calls that need a model fail. As ModelFolder::ReadForTokenizer.
  static Expected<std::unique_ptr<EncoderEngine>> LoadTokenizer(const std::string& path,
                                                                const EncoderEngineOptions& options,
                                                                metrics::Metrics* metrics);
  EncoderEngine(EncoderParts parts, const EncoderEngineOptions& options, metrics::Metrics* metrics);

  const std::string& name() const override { return options_.name; }
  const EngineInfo& info() const override { return parts_; }
  uint64_t HeldBytes() const override { return scheduler_->HeldBytes(); }
  uint64_t ReleaseMemory() override { return scheduler_->ReleaseMemory(); }
  void Stop() override { scheduler_->Stop(); }
  const std::string& path() const override { return parts_.folder.path; }
  ModelPurpose purpose() const override { return {kCapability, task()}; }
  MeasuredModel measured() const override {
    return {scheduler_->times(), static_cast<int32_t>(scheduler_->limits().tokens)};
  }

  const EncoderEngineOptions& options() const { return options_; }
  const std::string& revision() const { return options_.revision; }
  families::ModelTask task() const { return parts_.folder.task; }
  const families::ModelFolder& folder() const { return parts_.folder; }
  const text::Tokenizer& tokenizer() const { return *parts_.tokenizer; }
  // The engine's number in cache keys. Engines of one fingerprint share it, so that a reloaded
  // model finds its entries; without a fingerprint it is this engine's alone. Never reused.
  uint64_t cache_id() const { return cache_id_; }
  // Equal for equal models in every process (fingerprint.h); "" if it was not asked for.
  const std::string& fingerprint() const { return parts_.fingerprint; }
  sched::EncoderScheduler& scheduler() { return *scheduler_; }
  int64_t loaded_unix_s() const { return loaded_unix_s_; }

 private:
  EncoderParts parts_;  // the runners have gone to the scheduler
  EncoderEngineOptions options_;
  int64_t loaded_unix_s_ = 0;
  uint64_t cache_id_ = 0;
  std::unique_ptr<sched::EncoderScheduler> scheduler_;
};

}  // namespace penstock::engine
