#include "engine/text_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/int_math.h"
#include "common/log.h"
#include "common/memory.h"

namespace penstock {
namespace {

constexpr int64_t kContexts = 8;
// Of the memory that is available once the weights are loaded. Only what is used takes memory.
constexpr double kCacheShare = 0.5;

}  // namespace

int32_t ChooseCacheBlocks(const TextModel& model) {
  const int64_t one = CeilDiv(int64_t{model.context()}, int64_t{kKvBlockTokens});
  int64_t blocks = kContexts * one;
  if (const uint64_t available = AvailableBytes(); available > 0) {
    const double bytes = static_cast<double>(model.cache_bytes_per_token()) * kKvBlockTokens;
    const double room = kCacheShare * static_cast<double>(available) / bytes;
    blocks = std::min(blocks, static_cast<int64_t>(room));
  }
  return static_cast<int32_t>(std::max(blocks, one));
}

Expected<std::unique_ptr<TextEngine>> TextEngine::Load(const std::string& path,
                                                       const TextEngineOptions& options,
                                                       Backend* backend, Metrics* metrics) {
  PENSTOCK_ASSIGN_OR_RETURN(auto model, TextModel::Load(path, backend, options.model));
  PENSTOCK_ASSIGN_OR_RETURN(
      ModelTemplates templates,
      ModelTemplates::Make(model->chat_templates, options.chat_template, options.name));
  DecodeSchedulerOptions made = options.scheduler;
  made.model = options.name;
  made.gate = &backend->gate();
  if (made.cache_blocks == 0) made.cache_blocks = ChooseCacheBlocks(*model);
  PENSTOCK_ASSIGN_OR_RETURN(auto scheduler, DecodeScheduler::Make(model.get(), made, metrics));
  LogDebug("{}: context {}, {} blocks of cache", options.name, scheduler->context(),
           scheduler->stats().blocks);
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
