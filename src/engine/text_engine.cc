#include "engine/text_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/int_math.h"
#include "common/log.h"
#include "generate/model_defaults.h"

namespace penstock {
namespace {

// Of the memory that is available once the weights are loaded. Only what is used takes memory.
constexpr double kCacheShare = 0.5;

}  // namespace

CacheBlocks ChooseCacheBlocks(const TextModel& model, int32_t sequences, uint64_t cache_bytes) {
  const auto one = static_cast<int32_t>(CeilDiv(int64_t{model.context()}, int64_t{kKvBlockTokens}));
  CacheBlocks blocks;
  blocks.full = kCacheContexts * one;
  blocks.window = ChooseWindowBlocks(model, blocks.full, sequences);
  const double room =
      cache_bytes > 0
          ? static_cast<double>(cache_bytes)
          : kCacheShare * static_cast<double>(model.decoder->backend().AvailableBytes());
  if (room == 0) return blocks;
  const auto full_bytes = static_cast<double>(model.cache_block_bytes(KvArea::kFull));
  const auto window_bytes = static_cast<double>(model.cache_block_bytes(KvArea::kWindow));
  const double bytes = blocks.full * full_bytes + blocks.window * window_bytes;
  if (bytes <= room) return blocks;
  blocks.full = std::max(static_cast<int32_t>(blocks.full * (room / bytes)), one);
  if (blocks.window == 0) return blocks;
  const double rest = std::max(0.0, room - blocks.full * full_bytes) / window_bytes;
  blocks.window = std::max(static_cast<int32_t>(std::min<double>(blocks.window, rest)),
                           LeastWindowBlocks(model));
  return blocks;
}

Expected<std::unique_ptr<TextEngine>> TextEngine::Load(const std::string& path,
                                                       const TextEngineOptions& options,
                                                       Backend* backend, Metrics* metrics) {
  const auto begun = Clock::now();
  TextModelOptions limited = options.model;
  limited.memory_bytes = options.granted.weights + options.granted.cache;
  PENSTOCK_ASSIGN_OR_RETURN(auto model, TextModel::Load(path, backend, limited));
  OverrideDefaults(options.sampling, model.get());
  PENSTOCK_ASSIGN_OR_RETURN(
      ModelTemplates templates,
      ModelTemplates::Make(model->chat_templates, options.chat_template, options.name));
  PENSTOCK_RETURN_IF_ERROR(CheckTextEngine(path, options, begun, backend, *model));
  DecodeSchedulerOptions made = options.scheduler;
  made.model = options.name;
  made.gate = &backend->gate();
  if (made.cache_blocks == 0) {
    const CacheBlocks chosen = ChooseCacheBlocks(*model, made.sequences_max, options.granted.cache);
    made.cache_blocks = chosen.full;
    made.window_blocks = chosen.window;
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto scheduler, DecodeScheduler::Make(model.get(), made, metrics));
  const DecodeStats cache = scheduler->stats();
  LogDebug("{}: context {}, {} blocks of cache, {} of windows", options.name, scheduler->context(),
           cache.blocks, cache.window_blocks);
  return std::unique_ptr<TextEngine>(new TextEngine(
      path, options, std::move(templates), std::move(model), std::move(scheduler), *backend));
}

TextEngine::TextEngine(std::string path, TextEngineOptions options, ModelTemplates templates,
                       std::unique_ptr<TextModel> model, std::unique_ptr<DecodeScheduler> scheduler,
                       const Backend& backend)
    : path_(std::move(path)),
      options_(std::move(options)),
      templates_(std::move(templates)),
      model_(std::move(model)),
      scheduler_(std::move(scheduler)) {
  const DecoderModel& decoder = *model_->decoder;
  info_.hidden_size = decoder.config().hidden_size;
  info_.max_tokens = context();
  info_.parameters = decoder.parameters();
  info_.weight_bytes = decoder.weight_bytes();
  const DecodeStats stats = scheduler_->stats();
  info_.cache_bytes = static_cast<uint64_t>(stats.blocks) * stats.block_bytes +
                      static_cast<uint64_t>(stats.window_blocks) * stats.window_block_bytes;
  info_.activation_bytes = scheduler_->HeldBytes();
  info_.backend = backend.name();
  for (const Op& op : decoder.program().ops) {
    if (const auto* attention = std::get_if<CachedAttentionOp>(&op)) {
      info_.dtype = attention->q->dtype();
    }
  }
  loaded_unix_s_ = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
}

uint64_t TextEngine::ReleaseMemory() {
  scheduler_->ReleaseMemory();
  return 0;
}

}  // namespace penstock
