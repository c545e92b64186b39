#include "engine/decoder_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "generate/grammar_vocabulary.h"
#include "generate/model_defaults.h"
#include "generate/text_stream.h"
#include "grammar/grammar_compiler.h"
#include "log/log.h"

namespace penstock::engine {
namespace {

// The cache may have this share of the memory that is available once the weights are loaded. Only
// blocks that are used take memory.
constexpr double kCacheShare = 0.5;

}  // namespace

std::vector<int32_t> FitCacheBlocks(const generate::TextModel& model, int32_t sequences,
                                    uint64_t cache_bytes) {
  const std::vector<CacheGroup> groups = program::CacheGroups(model.decoder->program());
  const std::vector<int32_t> least = generate::LeastCacheBlocks(groups, model.context());
  std::vector<int32_t> blocks =
      generate::ChooseCacheBlocks(groups, model.context(), kCacheContexts * least[0], sequences);
  const double room =
      cache_bytes > 0
          ? static_cast<double>(cache_bytes)
          : kCacheShare * static_cast<double>(model.decoder->backend().AvailableBytes());
  if (room == 0) return blocks;
  const std::vector<uint64_t> block_bytes = model.cache_block_bytes();
  double bytes = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    bytes += blocks[g] * static_cast<double>(block_bytes[g]);
  }
  if (bytes <= room) return blocks;
  blocks[0] = std::max(static_cast<int32_t>(blocks[0] * (room / bytes)), least[0]);
  double rest = room;
  for (size_t g = 1; g < groups.size(); ++g) {
    rest = std::max(0.0, rest - blocks[g - 1] * static_cast<double>(block_bytes[g - 1]));
    const double fit = std::min<double>(blocks[g], rest / static_cast<double>(block_bytes[g]));
    blocks[g] = std::max(static_cast<int32_t>(fit), least[g]);
  }
  return blocks;
}

Expected<std::unique_ptr<DecoderEngine>> DecoderEngine::Load(const std::string& path,
                                                             const DecoderEngineOptions& options,
                                                             program::Backend* backend,
                                                             metrics::Metrics* metrics) {
  const auto begun = Clock::now();
  generate::TextModelOptions limited = options.model;
  limited.memory_bytes = options.granted.weights + options.granted.cache;
  PENSTOCK_ASSIGN_OR_RETURN(auto model, generate::TextModel::Load(path, backend, limited));
  generate::OverrideDefaults(options.sampling, model.get());
  PENSTOCK_ASSIGN_OR_RETURN(
      ModelTemplates templates,
      ModelTemplates::Make(model->chat_templates, options.chat_template, options.name));
  const std::optional<numbers::DType> dtype = options.model.dtype;
  PENSTOCK_RETURN_IF_ERROR(checks::CheckLoad(
      {.name = options.name,
       .path = path,
       .fingerprint = "",
       .settings = fmt::format("{} {}", dtype ? numbers::DTypeName(*dtype) : "auto",
                               numbers::DTypeName(model->cache_type)),
       .begun = begun},
      options.check, backend, *model));
  generate::DecodeSchedulerOptions made = options.scheduler;
  made.model = options.name;
  made.gate = &backend->gate();
  if (made.cache_blocks.empty()) {
    made.cache_blocks = FitCacheBlocks(*model, made.sequences_max, options.granted.cache);
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto scheduler,
                            generate::DecodeScheduler::Make(model.get(), made, metrics));
  for (const generate::CacheGroupStats& group : scheduler->stats().groups) {
    LogDebug("{}: context {}, {} blocks of cache, {}", options.name, scheduler->context(),
             group.blocks, kCacheKindNames[static_cast<size_t>(group.kind)]);
  }
  return std::unique_ptr<DecoderEngine>(new DecoderEngine(
      path, options, std::move(templates), std::move(model), std::move(scheduler), *backend));
}

DecoderEngine::DecoderEngine(std::string path, DecoderEngineOptions options,
                             ModelTemplates templates, std::unique_ptr<generate::TextModel> model,
                             std::unique_ptr<generate::DecodeScheduler> scheduler,
                             const program::Backend& backend)
    : path_(std::move(path)),
      options_(std::move(options)),
      templates_(std::move(templates)),
      model_(std::move(model)),
      scheduler_(std::move(scheduler)),
      grammars_(std::make_unique<grammar::GrammarCache>(
          [this] {
            return grammar::MakeGrammarCompiler(generate::MakeGrammarVocabulary(
                *model_->tokenizer, generate::VocabularyOf(*model_), model_->end_ids,
                {"<tool_call>", "</tool_call>", "[TOOL_CALLS]"}));
          },
          grammar::GrammarCacheOptions())) {
  const models::DecoderModel& decoder = *model_->decoder;
  info_.hidden_size = decoder.config().hidden_size;
  info_.max_tokens = context();
  info_.parameters = decoder.parameters();
  info_.weight_bytes = decoder.weight_bytes();
  info_.cache_bytes = scheduler_->stats().BytesOf(&generate::CacheGroupStats::blocks);
  info_.activation_bytes = scheduler_->HeldBytes();
  info_.backend = backend.name();
  info_.dtype = program::LayerDType(decoder.program());
  loaded_unix_s_ = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
}

uint64_t DecoderEngine::ReleaseMemory() {
  scheduler_->ReleaseMemory();
  return 0;
}

}  // namespace penstock::engine
