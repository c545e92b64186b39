#include "engine/model_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/decoder_engine.h"
#include "engine/decoder_runner.h"
#include "engine/encoder_engine.h"
#include "engine/onnx_runner.h"
#include "families/decoder_files.h"
#include "families/model_kind.h"
#include "generate/context_bytes.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "openvino/model_files.h"
#include "program/dry_backend.h"
#include "program/program_cost.h"
#include "sched/batch_limits.h"

namespace penstock::engine {
namespace {

// Tokens of the shortest context that will do.
constexpr int64_t kContextLeast = 2048;
// Bytes in memory for a byte of tokenizer.json: texts, ids, merges and their hash tables.
constexpr uint64_t kTokenizerFactor = 4;

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

Expected<ModelNeeds> EncoderNeeds(const families::ModelFolder& folder,
                                  const EncoderEngineOptions& options, program::Backend* backend) {
  program::DryBackend dry(backend);
  models::LinearTypes types = options.dtype.value_or(backend->preferred_dtype());
  // Calibration would run batches. A little more than int8 takes.
  if (options.dtype == numbers::DType::kI8) types = backend->preferred_dtype();
  PENSTOCK_ASSIGN_OR_RETURN(const auto model, models::EncoderModel::Load(folder, &dry, types));
  std::vector<const program::Program*> programs;
  for (const program::EncoderOutput output :
       {program::EncoderOutput::kPooled, program::EncoderOutput::kTokens,
        program::EncoderOutput::kLogits}) {
    if (const program::Program* program = model->program(output)) programs.push_back(program);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, backend->Prepare(programs));
  const bool automatic =
      options.scheduler.max_batch_tokens == sched::EncoderSchedulerOptions::kAutoBatchTokens;
  const int32_t longest = folder.max_tokens > 0 ? std::min(folder.max_tokens, model->max_tokens())
                                                : model->max_tokens();
  const program::BackendSizes& sizes = backend->sizes();
  const auto most = static_cast<size_t>(
      std::max(automatic ? sizes.batch_tokens : options.scheduler.max_batch_tokens, longest));
  const auto least = static_cast<size_t>(std::max(sched::kKneeTokensMin, longest));
  const int32_t given_rows = options.scheduler.max_batch_rows;
  const auto rows = static_cast<size_t>(
      given_rows == sched::EncoderSchedulerOptions::kAutoBatchRows ? sizes.batch_rows : given_rows);
  const int32_t runners = std::max(options.replicas, sizes.runners);
  const uint64_t sets = sizes.shared_activations ? 1 : static_cast<uint64_t>(runners);
  ModelNeeds needs;
  needs.wanted.weights =
      model->weight_bytes() + kTokenizerFactor * FileBytes(folder.tokenizer_path);
  needs.wanted.activations = sets * run->BytesFor(most, rows);
  needs.least = needs.wanted;
  needs.least.activations = sets * run->BytesFor(std::min(least, most), rows);
  return needs;
}

// The file's constants, which OpenVINO packs: both may be in memory.
Expected<ModelNeeds> OnnxNeeds(const families::ModelFolder& folder,
                               const EncoderEngineOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const openvino::ModelFiles files,
                            openvino::FindModelFiles(folder.onnx));
  ModelNeeds needs;
  needs.wanted.weights = 2 * files.bytes + kTokenizerFactor * FileBytes(folder.tokenizer_path);
  const auto tokens = static_cast<size_t>(
      std::max(OnnxRunner::kGroupTokens, static_cast<size_t>(folder.max_tokens)));
  needs.wanted.activations =
      static_cast<uint64_t>(options.replicas) * OnnxBytesFor(tokens, folder.encoder.hidden_size);
  needs.least = needs.wanted;
  return needs;
}

uint64_t TokenizerBytes(const families::DecoderFiles& files) {
  if (!files.tokenizer) return 0;
  if (files.tokenizer->gguf == nullptr) return kTokenizerFactor * FileBytes(files.tokenizer->path);
  // A text, its merge and their entries in tables.
  constexpr uint64_t kTokenBytes = 150;
  return static_cast<uint64_t>(files.config.vocab_size) * kTokenBytes;
}

struct DecoderPlan {
  int64_t context = 0;
  numbers::DType cache_type = numbers::DType::kBf16;
  int64_t rows = 0;        // of a step
  int64_t logit_rows = 0;  // of them with logits
  uint64_t runs = 1;
  bool windowed = false;  // layers with a window keep no more than it
};

Expected<ModelNeeds> DecoderNeeds(const families::DecoderFiles& files,
                                  const models::DecoderOptions& options, const DecoderPlan& plan,
                                  program::Backend* backend) {
  program::DryBackend dry(backend);
  models::DecoderOptions made = options;
  made.context = static_cast<int32_t>(plan.context);
  PENSTOCK_ASSIGN_OR_RETURN(const auto model, models::DecoderModel::Load(files, &dry, made));
  const int64_t value_bytes = plan.cache_type == numbers::DType::kF32  ? 4
                              : plan.cache_type == numbers::DType::kI8 ? 1
                                                                       : 2;
  const auto token = static_cast<uint64_t>(families::KvBytesPerToken(files.config, value_bytes));
  const generate::ContextBytes windowed(files.config, plan.cache_type);
  const auto cache = [&](int64_t tokens) {
    return plan.windowed ? static_cast<uint64_t>(windowed.Of(tokens))
                         : static_cast<uint64_t>(tokens) * token;
  };
  ModelNeeds needs;
  needs.wanted.weights = model->weight_bytes() + TokenizerBytes(files);
  program::PrepareOptions steps;
  steps.cache_type = plan.cache_type;
  steps.rows = plan.rows;
  steps.picks = plan.logit_rows > 0 ? plan.logit_rows : plan.rows;
  steps.ahead = plan.logit_rows > 0;
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t step_bytes, backend->StepBytes(model->program(), steps));
  needs.wanted.activations = plan.runs * step_bytes;
  needs.least = needs.wanted;
  needs.wanted.cache = plan.runs * cache(plan.context);
  needs.least.cache = plan.runs * cache(std::min(plan.context, kContextLeast));
  return needs;
}

// The blocks of a step's sequences, beside those of one of the whole context: a device allocates all.
uint64_t StepCacheBytes(const families::DecoderFiles& files, const DecoderPlan& plan,
                        const program::Backend& backend) {
  const int64_t value_bytes = plan.cache_type == numbers::DType::kF32 ? 4 : 2;
  return static_cast<uint64_t>(DecoderRunner::BlocksOfStep(backend, plan.rows) * kKvBlockTokens *
                               families::KvBytesPerToken(files.config, value_bytes));
}

// A decoder that embeds or scores.
Expected<ModelNeeds> EmbedderNeeds(const families::ModelFolder& folder,
                                   const EncoderEngineOptions& options, program::Backend* backend) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const families::DecoderFiles files,
      families::DecoderFiles::Open(folder.path, families::DecoderUse::kEmbed));
  DecoderPlan plan;
  plan.context = std::min(files.config.context, folder.max_tokens);
  plan.cache_type =
      options.dtype == numbers::DType::kF32 ? numbers::DType::kF32 : numbers::DType::kBf16;
  plan.rows = DecoderRunner::kRows;
  plan.runs = static_cast<uint64_t>(options.replicas);
  PENSTOCK_ASSIGN_OR_RETURN(ModelNeeds needs,
                            DecoderNeeds(files, {.dtype = options.dtype}, plan, backend));
  uint64_t more = static_cast<uint64_t>(DecoderRunner::kCachedBytesMax);
  if (!backend->is_host()) more += StepCacheBytes(files, plan, *backend);
  needs.wanted.cache += plan.runs * more;
  needs.least.cache += backend->is_host() ? 0 : plan.runs * more;
  return needs;
}

Expected<ModelNeeds> TextNeeds(const std::string& path, const DecoderEngineOptions& options,
                               program::Backend* backend) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files, families::DecoderFiles::Open(path));
  DecoderPlan plan;
  const int32_t asked = options.model.context;
  plan.context = asked > 0 ? std::min(asked, files.config.context) : files.config.context;
  plan.cache_type = options.model.cache_type;
  using generate::DecodeScheduler;
  plan.rows = DecodeScheduler::kPromptRows + options.scheduler.sequences_max;
  plan.logit_rows =
      options.scheduler.sequences_max + DecodeScheduler::kScoredRows + DecodeScheduler::kDraftRows;
  plan.windowed = true;
  PENSTOCK_ASSIGN_OR_RETURN(ModelNeeds needs,
                            DecoderNeeds(files, {.dtype = options.model.dtype}, plan, backend));
  const uint64_t one = needs.wanted.cache;
  needs.wanted.cache = kCacheContexts * one;
  if (asked > 0) needs.least.cache = one;  // what was asked for is not cut
  return needs;
}

}  // namespace

std::string ModelBytesText(const ModelBytes& bytes) {
  std::string parts;
  for (const auto& [name, count] :
       {std::pair("weights", bytes.weights), std::pair("activations", bytes.activations),
        std::pair("cache", bytes.cache)}) {
    if (count == 0) continue;
    parts += fmt::format("{}{} {:.1f}", parts.empty() ? "" : ", ", name,
                         static_cast<double>(count) / 1e6);
  }
  return fmt::format("{:.1f} MB ({})", static_cast<double>(bytes.total()) / 1e6, parts);
}

Expected<ModelNeeds> ModelNeedsOf(const std::string& path, const EncoderEngineOptions& options,
                                  const DecoderEngineOptions& text, program::Backend* backend) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelKind kind, families::KindOfModel(path));
  if (kind == families::ModelKind::kDecoder) return TextNeeds(path, text, backend);
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelFolder folder, families::ModelFolder::Read(path));
  if (!folder.onnx.empty()) return OnnxNeeds(folder, options);
  return folder.decoder ? EmbedderNeeds(folder, options, backend)
                        : EncoderNeeds(folder, options, backend);
}

}  // namespace penstock::engine
