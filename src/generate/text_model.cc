#include "generate/text_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/int_math.h"
#include "families/decoder_files.h"
#include "generate/context_bytes.h"
#include "log/log.h"
#include "program/dry_backend.h"
#include "sample/standard_sampling.h"
#include "text/gguf_tokenizer.h"

namespace penstock::generate {
namespace {

// The least that a context is cut to.
constexpr int64_t kContextMin = 512;
// Of the memory that is available, the part that weights and cache may take; the rest is for
// activations, for other programs, and for the pages of the file.
constexpr double kMemoryShare = 0.8;

void Add(std::vector<int32_t>* ids, std::span<const int32_t> more) {
  ids->insert(ids->end(), more.begin(), more.end());
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

Expected<std::unique_ptr<text::Tokenizer>> LoadTokenizer(const families::DecoderFiles& files) {
  if (!files.tokenizer) {
    return Status::Unsupported(files.path + " has no tokenizer (tokenizer.json)", "tokenizer");
  }
  if (files.tokenizer->gguf == nullptr) return text::Tokenizer::FromFile(files.tokenizer->path);
  return text::TokenizerFromGguf(*files.tokenizer->gguf);
}

// By the ids of the model where its files do not say the texts.
std::vector<std::pair<std::string, std::string>> SpecialTokensOf(
    const families::DecoderFiles& files, const text::Tokenizer& tokenizer) {
  const families::SpecialTokenTexts& said = files.special_tokens;
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const auto& [name, text] : said.by_name) {
    if (!text.empty()) tokens.emplace_back(name, text);
  }
  for (const auto& [name, id] :
       {std::pair("bos_token", files.config.bos_id), std::pair("eos_token", files.config.eos_id),
        std::pair("pad_token", files.config.pad_id)}) {
    if (id < 0 || said.complete || said.by_name.contains(name)) continue;
    tokens.emplace_back(name, tokenizer.IdToToken(id));
  }
  return tokens;
}

// What the weights take: on the host as they are stored, elsewhere as that backend packs them.
Expected<uint64_t> WeightBytes(const families::DecoderFiles& files, const TextModelOptions& options,
                               const program::Backend& backend) {
  if (backend.is_host()) return files.store->bytes_total();
  program::DryBackend dry(&backend);
  PENSTOCK_ASSIGN_OR_RETURN(const auto model,
                            models::DecoderModel::Load(files, &dry, {.dtype = options.dtype}));
  return model->weight_bytes();
}

}  // namespace

Expected<int32_t> ChooseContext(const families::DecoderFiles& files,
                                const TextModelOptions& options, const program::Backend& backend) {
  const families::DecoderConfig& config = files.config;
  const int64_t asked = options.context > 0 ? options.context : config.context;
  if (asked > config.context) {
    return Status::InvalidArgument(
        fmt::format("a context of {} tokens; the model is made for {}", asked, config.context),
        "context");
  }
  const double share = options.memory_bytes > 0 ? 1 : kMemoryShare;
  const uint64_t available =
      options.memory_bytes > 0 ? options.memory_bytes : backend.AvailableBytes();
  if (available == 0) return static_cast<int32_t>(asked);
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t weights, WeightBytes(files, options, backend));
  const double room = share * static_cast<double>(available) - static_cast<double>(weights);
  const ContextBytes bytes(config, options.cache_type);
  const int64_t holds = bytes.Fit(room, asked);
  if (asked <= holds) return static_cast<int32_t>(asked);
  if (options.context > 0 || holds < std::min(kContextMin, asked)) {
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("a context of {} tokens takes {:.1f} GB besides {:.1f} GB of weights; memory "
                    "holds {} tokens",
                    asked, bytes.Of(asked) / 1e9, static_cast<double>(weights) / 1e9, holds),
        "context");
  }
  const int64_t cut =
      std::max(holds / kKvBlockTokens * kKvBlockTokens, std::min(kContextMin, asked));
  LogWarn("the model is made for a context of {} tokens, memory holds {}: a text may have {}",
          asked, holds, cut);
  return static_cast<int32_t>(cut);
}

Expected<sample::GenerationDefaults> ReadGenerationDefaults(const families::DecoderFiles& files) {
  if (!files.generation_config_path.empty()) {
    return sample::GenerationDefaults::FromFile(files.generation_config_path,
                                                files.config.vocab_size);
  }
  sample::GenerationDefaults defaults;
  defaults.temperature = files.sampling.temperature;
  defaults.top_k = files.sampling.top_k;
  defaults.top_p = files.sampling.top_p;
  defaults.min_p = files.sampling.min_p;
  defaults.repetition_penalty = files.sampling.repetition_penalty;
  return defaults;
}

Expected<std::unique_ptr<TextModel>> TextModel::Load(const std::string& path,
                                                     program::Backend* backend,
                                                     const TextModelOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files, families::DecoderFiles::Open(path));
  auto model = std::make_unique<TextModel>();
  PENSTOCK_ASSIGN_OR_RETURN(model->defaults, ReadGenerationDefaults(files));
  sample::CompleteDefaults(files.chat_template, &model->defaults);
  PENSTOCK_ASSIGN_OR_RETURN(model->tokenizer, LoadTokenizer(files));
  models::DecoderOptions decoder;
  decoder.dtype = options.dtype;
  PENSTOCK_ASSIGN_OR_RETURN(decoder.context, ChooseContext(files, options, *backend));
  PENSTOCK_ASSIGN_OR_RETURN(model->decoder, models::DecoderModel::Load(files, backend, decoder));
  Add(&model->end_ids, files.config.end_ids);
  Add(&model->end_ids, model->defaults.eos_token_ids);
  model->cache_type = options.cache_type;
  model->stored_bytes = files.store->bytes_total();
  model->chat_templates = files.chat_templates;
  model->special_tokens = SpecialTokensOf(files, *model->tokenizer);
  return model;
}

std::vector<uint64_t> TextModel::cache_block_bytes() const {
  const std::vector<CacheGroup> groups = program::CacheGroups(decoder->program());
  const auto layer_bytes = static_cast<uint64_t>(KvBytesPerLayer(decoder->config(), cache_type));
  std::vector<uint64_t> bytes(groups.size());
  for (const program::Op& op : decoder->program().ops) {
    const auto* attention = std::get_if<program::AttentionOp>(&op);
    if (attention == nullptr) continue;
    bytes[program::CacheGroupOf(attention->shape, groups)] +=
        layer_bytes * uint64_t{kKvBlockTokens};
  }
  return bytes;
}

}  // namespace penstock::generate
