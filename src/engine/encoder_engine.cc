#include "engine/encoder_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "checks/known_answers.h"
#include "engine/decoder_parts.h"
#include "engine/fingerprint.h"
#include "engine/onnx_runner.h"
#include "gate/load_turn.h"
#include "log/log.h"
#include "models/encoder.h"
#include "os/memory.h"
#include "threads/thread_pool.h"
#include "threads/waiting_lock.h"

namespace penstock::engine {
namespace {

constexpr std::array kPoolingModes = {
    families::PoolingMode::kCls,         families::PoolingMode::kMean,
    families::PoolingMode::kMax,         families::PoolingMode::kLastToken,
    families::PoolingMode::kMeanSqrtLen, families::PoolingMode::kWeightedMean};

class ModelRunner : public program::EncoderRunner {
 public:
  // The backend outlives the runner, as it does the model.
  ModelRunner(std::shared_ptr<const models::EncoderModel> model, const program::Backend* backend)
      : model_(std::move(model)), backend_(backend), session_(model_.get()) {}
  // That of preparing the programs.
  Status status() const { return session_.status(); }

  int32_t OutputWidth(program::EncoderOutput output) const override {
    return model_->OutputWidth(output);
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    const std::lock_guard lock(session_mutex_);
    return session_.Run(batch, output, sinks);
  }
  double device_seconds() const override { return session_.device_seconds(); }
  void PlaceExecutor() const override { backend_->PlaceCaller(); }
  uint64_t HeldBytes() const override { return session_.HeldBytes(); }
  uint64_t BytesFor(size_t tokens, size_t sequences) const override {
    return session_.BytesFor(tokens, sequences);
  }
  uint64_t ReleaseMemory() override {
    uint64_t released = 0;
    {
      const std::unique_lock lock(session_mutex_, std::try_to_lock);
      if (!lock) return 0;
      released = session_.Release();
    }
    TrimHeap();  // takes milliseconds, in which a batch may run
    return released;
  }

 private:
  const std::shared_ptr<const models::EncoderModel> model_;
  const program::Backend* const backend_;
  std::mutex session_mutex_;  // taken once a batch; another thread has it only to release memory
  models::EncoderSession session_;
};

// Stands in for a missing model.
class NoRunner : public program::EncoderRunner {
 public:
  int32_t OutputWidth(program::EncoderOutput) const override { return 0; }
  Status Run(const program::PackedBatch&, program::EncoderOutput,
             std::span<float* const>) override {
    return Status::Unsupported("only the tokenizer of this model is loaded", "model");
  }
};

Status ChoosePooling(const EncoderEngineOptions& options, families::ModelFolder* folder) {
  if (folder->task != families::ModelTask::kEmbedding) {
    if (!options.pooling) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("pooling is for embedding models; this one is for {}",
                    families::ModelTaskName(folder->task)),
        "pooling");
  }
  if (!folder->pooling_declared) {
    if (!options.pooling) {
      return Status::Unsupported(
          "the model folder does not say how token vectors are pooled (no modules.json with a "
          "Pooling module); pass --pooling cls, mean, max or lasttoken, as its authors say",
          "pooling");
    }
    folder->pooling = *options.pooling;
    folder->pooling_declared = true;
    return Status::Ok();
  }
  if (options.pooling && *options.pooling != folder->pooling) {
    return Status::InvalidArgument(
        fmt::format("the model folder says pooling is '{}', --pooling says '{}'",
                    families::PoolingModeName(folder->pooling),
                    families::PoolingModeName(*options.pooling)),
        "pooling");
  }
  return Status::Ok();
}

sched::EncoderSchedulerOptions Named(sched::EncoderSchedulerOptions options,
                                     const std::string& name) {
  options.model = name;
  return options;
}

// Runs batches in turns of the gate, with little between them: a model that loads beside others that
// serve.
class TurnRunner : public program::EncoderRunner {
 public:
  TurnRunner(program::EncoderRunner* runner, gate::ComputeGate* gate) : runner_(runner) {
    if (gate != nullptr) turn_.emplace(gate);
  }
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return runner_->OutputWidth(output);
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    if (!turn_) return runner_->Run(batch, output, sinks);
    const auto begin = Clock::now();
    turn_->Begin();
    waited_ += Clock::now() - begin;
    const Status status = runner_->Run(batch, output, sinks);
    turn_->End(status.ok() ? runner_->device_seconds() : 0);
    return status;
  }
  double device_seconds() const override { return runner_->device_seconds(); }
  Clock::duration waited() const { return waited_; }

 private:
  program::EncoderRunner* const runner_;
  std::optional<gate::LoadTurn> turn_;
  Clock::duration waited_{};
};

// Cuts batches to what the activations of a runner may take.
void FitBatches(const EncoderParts& parts, const EncoderEngineOptions& options,
                int32_t* tokens_max) {
  constexpr int32_t kStep = 128;
  const uint64_t each = options.granted.activations / parts.activation_sets;
  if (each == 0) return;
  const auto rows = static_cast<size_t>(options.scheduler.max_batch_rows);
  const int32_t least = std::max(parts.max_tokens, sched::kKneeTokensMin);
  while (*tokens_max - kStep >= least &&
         parts.runners[0]->BytesFor(static_cast<size_t>(*tokens_max), rows) > each) {
    *tokens_max -= kStep;
  }
}

// What of the settings is the backend's.
void SuitBackend(program::Backend* backend, sched::EncoderSchedulerOptions* scheduler) {
  const program::BackendSizes& sizes = backend->sizes();
  scheduler->gate = &backend->gate();
  scheduler->queued_turns = static_cast<int32_t>(sizes.turns);
  // A leader only waits for the device, on a thread that has other things to do.
  if (sizes.turns > 1) scheduler->lead_s_max = std::min(scheduler->lead_s_max, 1e-3);
  if (scheduler->max_batch_rows == sched::EncoderSchedulerOptions::kAutoBatchRows) {
    scheduler->max_batch_rows = sizes.batch_rows;
  }
}

// Measures the batch times of this model, and with them its batch limits.
Status MeasureLimits(const EncoderParts& parts, const EncoderEngineOptions& options,
                     const program::BackendSizes& sizes,
                     sched::EncoderSchedulerOptions* scheduler) {
  sched::MeasureOptions measure;
  measure.tokens_max = sizes.batch_tokens;
  measure.output =
      parts.num_labels > 0 ? program::EncoderOutput::kLogits : program::EncoderOutput::kPooled;
  measure.length_max = parts.max_tokens;
  // This model's own time: waiting for other models' batches is not counted.
  TurnRunner runner(parts.runners[0].get(), scheduler->gate);
  measure.now = [&runner] { return Clock::now() - WaitingLock::Waited() - runner.waited(); };
  const bool automatic =
      scheduler->max_batch_tokens == sched::EncoderSchedulerOptions::kAutoBatchTokens;
  if (scheduler->times.known() && !automatic) {  // measured when it was loaded before
    FitBatches(parts, options, &scheduler->max_batch_tokens);
    scheduler->length_max = parts.max_tokens;
    return Status::Ok();
  }
  if (!automatic) {
    FitBatches(parts, options, &scheduler->max_batch_tokens);
    measure.tokens_max = std::min(measure.tokens_max, scheduler->max_batch_tokens);
  }
  FitBatches(parts, options, &measure.tokens_max);
  // Where the executors run: on a worker's processor each small batch would take 2 ms longer.
  const KeptAffinity kept;
  parts.runners[0]->PlaceExecutor();
  PENSTOCK_ASSIGN_OR_RETURN(const sched::BatchMeasurement measured,
                            sched::MeasureBatchTimes(&runner, measure));
  scheduler->times = measured.times;
  scheduler->length_max = parts.max_tokens;
  if (automatic) scheduler->max_batch_tokens = measured.knee_tokens;
  LogDebug(
      "batches take {:.0f} us + {:.3f} us a token + {:.3f} ns a squared length; limit {} "
      "tokens{}",
      measured.times.fixed_s * 1e6, measured.times.token_s * 1e6, measured.times.work_s * 1e9,
      scheduler->max_batch_tokens, measured.complete ? "" : " (measured in part)");
  return Status::Ok();
}

// Tokenizer, runners and sizes of an encoder, whose folder `parts` has.
Status LoadEncoderParts(const EncoderEngineOptions& options, program::Backend* backend,
                        EncoderParts* parts) {
  const families::ModelFolder& folder = parts->folder;
  PENSTOCK_ASSIGN_OR_RETURN(parts->tokenizer, text::Tokenizer::FromFile(folder.tokenizer_path));
  parts->dtype = options.dtype.value_or(backend->preferred_dtype());
  models::LinearTypes types = parts->dtype;
  if (parts->dtype == numbers::DType::kI8) {
    parts->int8_keep = types.kept = options.int8_keep;
    types.override_dtype = backend->preferred_dtype();
    if (const Status kept = types.Check(folder.encoder.num_hidden_layers); !kept.ok()) {
      return Status::InvalidArgument("--int8-keep " + kept.message(), "int8-keep");
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto model, models::EncoderModel::Load(folder, backend, types));
  parts->hidden_size = model->hidden_size();
  parts->embedding_size = model->embedding_size();
  parts->num_labels = model->num_labels();
  parts->max_tokens = model->max_tokens();
  if (folder.max_tokens > 0) parts->max_tokens = std::min(parts->max_tokens, folder.max_tokens);
  parts->uses_type_ids = model->uses_type_ids();
  parts->parameters = model->parameters();
  parts->weight_bytes = model->weight_bytes();
  const std::shared_ptr<const models::EncoderModel> shared = std::move(model);
  parts->linear_checker = [shared, backend] {
    return checks::CheckEncoderLinear(*shared, backend);
  };
  const int32_t runners = std::max(options.replicas, backend->sizes().runners);
  for (int32_t i = 0; i < runners; ++i) {
    auto runner = std::make_unique<ModelRunner>(shared, backend);
    PENSTOCK_RETURN_IF_ERROR(runner->status());
    parts->runners.push_back(std::move(runner));
  }
  return Status::Ok();
}

// The same of an encoder that is an ONNX file.
Status LoadOnnxParts(const EncoderEngineOptions& options, program::Backend* backend,
                     EncoderParts* parts) {
  const families::ModelFolder& folder = parts->folder;
  if (!options.int8_keep.empty()) {
    return Status::InvalidArgument(
        "--int8-keep is for models that Penstock computes; this one is "
        "an ONNX file",
        "int8-keep");
  }
  if (options.dtype && *options.dtype != numbers::DType::kF32) {
    LogWarn("{}: an ONNX file is computed in f32, not {}", options.name,
            numbers::DTypeName(*options.dtype));
  }
  PENSTOCK_ASSIGN_OR_RETURN(parts->tokenizer, text::Tokenizer::FromFile(folder.tokenizer_path));
  PENSTOCK_ASSIGN_OR_RETURN(auto model, OnnxEncoder::Load(folder, backend));
  parts->backend = model->backend_name();
  parts->dtype = numbers::DType::kF32;
  parts->same_bits = false;
  parts->hidden_size = model->hidden_size();
  parts->embedding_size = model->embedding_size();
  parts->num_labels = model->num_labels();
  parts->max_tokens = model->max_tokens();
  parts->uses_type_ids = model->uses_type_ids();
  parts->weight_bytes = model->weight_bytes();
  const std::shared_ptr<const OnnxEncoder> shared = std::move(model);
  for (int32_t i = 0; i < options.replicas; ++i) {
    parts->runners.push_back(std::make_unique<OnnxRunner>(shared));
  }
  LogInfo("{}: '{}' runs through its ONNX file, slower than a model that Penstock computes",
          options.name, folder.encoder.model_type);
  return Status::Ok();
}

Status LoadParts(const EncoderEngineOptions& options, program::Backend* backend,
                 EncoderParts* parts) {
  if (parts->folder.decoder) return LoadDecoderParts(options, backend, parts);
  if (!parts->folder.onnx.empty()) return LoadOnnxParts(options, backend, parts);
  return LoadEncoderParts(options, backend, parts);
}

// Fingerprints are kept for good: there are as many as models, not as loads.
uint64_t CacheIdOf(const std::string& fingerprint) {
  static std::mutex mutex;
  static auto* const ids = new std::map<std::string, uint64_t>;
  static uint64_t last = 0;
  const std::lock_guard lock(mutex);
  if (fingerprint.empty()) return ++last;
  const auto [id, first] = ids->try_emplace(fingerprint, 0);
  if (first) id->second = ++last;
  return id->second;
}

}  // namespace

Expected<families::PoolingMode> ParsePoolingMode(const std::string& name) {
  std::string known;
  for (const families::PoolingMode mode : kPoolingModes) {
    if (name == families::PoolingModeName(mode)) return mode;
    known += known.empty() ? "" : ", ";
    known += families::PoolingModeName(mode);
  }
  return Status::InvalidArgument(fmt::format("unknown pooling '{}'; known: {}", name, known),
                                 "pooling");
}

Expected<std::optional<numbers::DType>> ParseDType(const std::string& name) {
  if (name == "auto") return std::optional<numbers::DType>();
  // Names of other servers.
  const auto plain = [](const std::string& given) -> std::string {
    if (given == "float32") return "f32";
    if (given == "float16" || given == "half") return "f16";
    return given == "bfloat16" ? "bf16" : given;
  };
  std::string known = "auto";
  for (const numbers::DType dtype : numbers::kComputedTypes) {
    if (plain(name) == numbers::DTypeFlag(dtype)) return std::optional<numbers::DType>(dtype);
    known += std::string(", ") + numbers::DTypeFlag(dtype);
  }
  return Status::InvalidArgument(fmt::format("unknown dtype '{}'; known: {}", name, known),
                                 "dtype");
}

checks::RunnerToCheck EncoderParts::ToCheck(const sched::BatchTimes& times) const {
  return {
      .runner = runners[0].get(),
      .output = num_labels > 0 ? program::EncoderOutput::kLogits : program::EncoderOutput::kPooled,
      .vocab_size = folder.encoder.vocab_size,
      .max_tokens = max_tokens,
      .times = times,
      .same_bits = same_bits,
      .folder = &folder,
      .tokenizer = tokenizer.get(),
      .dtype = dtype};
}

Expected<std::unique_ptr<EncoderEngine>> EncoderEngine::Load(const std::string& path,
                                                             const EncoderEngineOptions& options,
                                                             program::Backend* backend,
                                                             metrics::Metrics* metrics) {
  const auto begun = Clock::now();
  EncoderParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.folder, families::ModelFolder::Read(path));
  PENSTOCK_RETURN_IF_ERROR(ChoosePooling(options, &parts.folder));
  PENSTOCK_RETURN_IF_ERROR(LoadParts(options, backend, &parts));
  if (!backend->sizes().shared_activations) parts.activation_sets = parts.runners.size();
  const int32_t vocab_size = parts.folder.encoder.vocab_size;
  if (parts.tokenizer->vocab_size() > vocab_size) {
    LogWarn("{}: the tokenizer knows {} tokens, the model {}; texts with one beyond fail",
            options.name, parts.tokenizer->vocab_size(), vocab_size);
  }
  if (parts.max_tokens <= static_cast<int32_t>(parts.tokenizer->special_tokens_pair())) {
    return Status::Unsupported(
        fmt::format("the model takes {} tokens, fewer than its own template needs",
                    parts.max_tokens),
        "max_tokens");
  }
  if (parts.backend.empty()) parts.backend = backend->name();
  if (options.fingerprint) {
    const std::string settings =
        fmt::format("{} {} {} {}", parts.backend, families::PoolingModeName(parts.folder.pooling),
                    numbers::DTypeName(parts.dtype), models::TypeOverridesText(parts.int8_keep));
    PENSTOCK_ASSIGN_OR_RETURN(parts.fingerprint, ModelFingerprint(parts.folder.path, settings));
  }
  EncoderEngineOptions measured = options;
  SuitBackend(backend, &measured.scheduler);
  PENSTOCK_RETURN_IF_ERROR(MeasureLimits(parts, measured, backend->sizes(), &measured.scheduler));
  parts.activation_bytes =
      parts.activation_sets *
      parts.runners[0]->BytesFor(static_cast<size_t>(measured.scheduler.max_batch_tokens),
                                 static_cast<size_t>(measured.scheduler.max_batch_rows));
  PENSTOCK_RETURN_IF_ERROR(checks::CheckLoad(
      {.name = options.name,
       .path = path,
       .fingerprint = parts.fingerprint,
       .settings = fmt::format("{} {} {}", numbers::DTypeName(parts.dtype),
                               models::TypeOverridesText(parts.int8_keep),
                               families::PoolingModeName(parts.folder.pooling)),
       .begun = begun},
      options.check, backend, parts.ToCheck(measured.scheduler.times), parts.linear_checker));
  parts.linear_checker = nullptr;     // holds the model
  parts.runners[0]->ReleaseMemory();  // the largest batch tried may be larger than any to come
  TrimHeap();                         // what the tensors passed through while they were packed
  return std::make_unique<EncoderEngine>(std::move(parts), measured, metrics);
}

Expected<std::unique_ptr<EncoderEngine>> EncoderEngine::LoadTokenizer(
    const std::string& path, const EncoderEngineOptions& options, metrics::Metrics* metrics) {
  EncoderParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.folder, families::ModelFolder::ReadForTokenizer(path));
  PENSTOCK_ASSIGN_OR_RETURN(parts.tokenizer,
                            text::Tokenizer::FromFile(parts.folder.tokenizer_path));
  parts.max_tokens = parts.folder.max_tokens;
  parts.runners.push_back(std::make_unique<NoRunner>());
  EncoderEngineOptions made = options;
  made.scheduler.max_batch_tokens = made.scheduler.max_batch_rows = 1;
  return std::make_unique<EncoderEngine>(std::move(parts), made, metrics);
}

EncoderEngine::EncoderEngine(EncoderParts parts, const EncoderEngineOptions& options,
                             metrics::Metrics* metrics)
    : parts_(std::move(parts)), options_(options), cache_id_(CacheIdOf(parts_.fingerprint)) {
  parts_.replicas = static_cast<int32_t>(parts_.runners.size());
  loaded_unix_s_ = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  scheduler_ = std::make_unique<sched::EncoderScheduler>(
      std::move(parts_.runners), Named(options.scheduler, options.name), metrics);
}

}  // namespace penstock::engine
