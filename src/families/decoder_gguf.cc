// Metadata of GGUF files -> DecoderConfig.
//
// Keys: github.com/ggml-org/ggml, docs/gguf.md, and the constants of gguf-py. What llama.cpp takes
// where a key is absent, and what its conversion does not write, stands at each setting.
#include "families/decoder_gguf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "families/list.h"

namespace penstock::families {
namespace {

constexpr int64_t kNoToken = std::numeric_limits<uint32_t>::max();  // some writers' "none"

// ---- What is refused

// Keys that are read below, or change nothing.
constexpr std::string_view kKnownKeys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "attn_logit_softcapping",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",
    "vocab_size",
};
// Of models that embed or score.
constexpr std::string_view kEmbedKeys[] = {"classifier.output_labels", "pooling_type"};
constexpr std::string_view kImageKeys[] = {"vision.", "mm."};  // some files of Gemma 3

bool IsOff(const files::GgufMetadata& all, const std::string& name) {
  if (const auto number = all.GetInt(name, INT64_MIN, INT64_MAX); number.ok()) return *number == 0;
  if (const auto number = all.GetFloat(name); number.ok()) return *number == 0;
  if (const auto flag = all.GetBool(name); flag.ok()) return !*flag;
  return false;
}

// A key of the architecture that is unknown here may change the results, unless it switches
// something off.
Status RefuseUnknownKeys(const GgufSource& from, DecoderUse use) {
  const std::string& prefix = from.keys.prefix();
  for (const auto& [name, value] : from.keys.all().values()) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view key = name.substr(prefix.size());
    const auto is = [&](std::string_view known) { return key == known; };
    const auto begins = [&](std::string_view known) { return key.starts_with(known); };
    if (std::any_of(std::begin(kKnownKeys), std::end(kKnownKeys), is)) continue;
    const auto& own = from.family.gguf.keys;
    if (std::any_of(own.begin(), own.end(), is)) continue;
    if (use == DecoderUse::kEmbed &&
        std::any_of(std::begin(kEmbedKeys), std::end(kEmbedKeys), is)) {
      continue;
    }
    if (std::any_of(std::begin(kImageKeys), std::end(kImageKeys), begins)) continue;
    if (IsOff(from.keys.all(), std::string(name))) continue;
    return UnsupportedKey(std::string(name), "is set, which is not supported");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool causal, from.keys.BoolOr("attention.causal", true));
  if (causal) return Status::Ok();
  return UnsupportedKey(from.keys.Name("attention.causal"), "is false: the model is not a decoder");
}

// ---- Sizes

Status ReadSizes(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
  PENSTOCK_RETURN_IF_ERROR(keys.Int("embedding_length", 1, kDecoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("feed_forward_length", 1, kDecoderIntermediateMax, &out->intermediate_size));
  int32_t layers = 0;
  PENSTOCK_RETURN_IF_ERROR(keys.Int("block_count", 1, kDecoderLayersMax, &layers));
  out->layers.resize(static_cast<size_t>(layers));
  PENSTOCK_RETURN_IF_ERROR(keys.Int("attention.head_count", 1, kDecoderHeadsMax, &out->heads));
  PENSTOCK_RETURN_IF_ERROR(
      keys.IntOr("attention.head_count_kv", out->heads, 1, kDecoderHeadsMax, &out->kv_heads));
  if (!keys.Has("attention.key_length") && out->hidden_size % out->heads != 0) {
    return InvalidKey(
        keys.Name("embedding_length"),
        "is not a multiple of the attention heads, and there is no attention.key_length");
  }
  PENSTOCK_RETURN_IF_ERROR(keys.IntOr("attention.key_length", out->hidden_size / out->heads, 1,
                                      kDecoderHeadSizeMax, &out->head_size));
  int32_t value_size = 0;
  PENSTOCK_RETURN_IF_ERROR(
      keys.IntOr("attention.value_length", out->head_size, 1, kDecoderHeadSizeMax, &value_size));
  if (value_size != out->head_size) {
    return UnsupportedKey(keys.Name("attention.value_length"),
                          "differs from the length of keys, which is not supported");
  }
  PENSTOCK_RETURN_IF_ERROR(keys.Int("context_length", 1, kDecoderContextMax, &out->context));
  PENSTOCK_ASSIGN_OR_RETURN(
      const double epsilon,
      keys.all().GetFloat(keys.Name("attention.layer_norm_rms_epsilon"), 0, 1));
  out->rms_epsilon = static_cast<float>(epsilon);
  return Status::Ok();
}

// The rows of the embedding. tokenizer.ggml.tokens may have fewer: rows behind them are padding.
Status ReadVocabulary(const GgufSource& from, DecoderConfig* out) {
  const files::TensorRecord* embedding = from.store.Find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return Status::InvalidArgument("the model has no matrix 'token_embd.weight'",
                                   "token_embd.weight");
  }
  const int64_t rows = embedding->shape[0];
  if (rows < 1 || rows > kDecoderVocabularyMax) {
    return Status::InvalidArgument("tensor 'token_embd.weight' has " + std::to_string(rows) +
                                       " rows; from 1 to " + std::to_string(kDecoderVocabularyMax) +
                                       " are allowed",
                                   "token_embd.weight");
  }
  out->vocab_size = static_cast<int32_t>(rows);
  const std::string key = "tokenizer.ggml.tokens";
  if (!from.keys.all().Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufStrings tokens, from.keys.all().GetStrings(key));
  if (tokens.size() <= static_cast<size_t>(rows)) return Status::Ok();
  return InvalidKey(key, "has " + std::to_string(tokens.size()) +
                             " tokens, but tensor 'token_embd.weight' only " +
                             std::to_string(rows) + " rows");
}

// ---- Layers

// attention.sliding_window_pattern: every how many layers one has no window, or a flag a layer.
Status ReadPattern(const GgufSource& from, int32_t window, DecoderConfig* out) {
  const std::string name = from.keys.Name("attention.sliding_window_pattern");
  const auto found = from.keys.all().values().find(name);
  if (found != from.keys.all().values().end() && found->second.is_array) {
    PENSTOCK_ASSIGN_OR_RETURN(const files::GgufNumbers<bool> flags, from.keys.all().GetBools(name));
    if (flags.size() != out->layers.size()) {
      return InvalidKey(name, "has " + std::to_string(flags.size()) + " entries for " +
                                  std::to_string(out->layers.size()) + " layers");
    }
    for (size_t i = 0; i < flags.size(); ++i) out->layers[i].window = flags[i] ? window : 0;
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t period,
      from.keys.all().GetIntOr(name, from.family.gguf.period, 1, kDecoderLayersMax));
  for (size_t i = 0; i < out->layers.size(); ++i) {
    out->layers[i].window = (i + 1) % static_cast<size_t>(period) != 0 ? window : 0;
  }
  return Status::Ok();
}

Status ReadLayers(const GgufSource& from, DecoderConfig* out) {
  const std::string_view key = "attention.sliding_window";
  int32_t window = 0;
  PENSTOCK_RETURN_IF_ERROR(
      from.keys.IntOr(key, from.family.gguf.window, 0, kDecoderContextMax, &window));
  if (from.family.gguf.period > 0) return ReadPattern(from, window, out);
  for (DecoderLayerConfig& layer : out->layers) layer.window = window;
  if (window == 0 || window >= out->context || from.family.gguf.window_in_all_layers) {
    return Status::Ok();
  }
  return UnsupportedKey(from.keys.Name(key),
                        "is not supported for " + std::string(from.family.name) +
                            ": the file does not say which layers have the window");
}

// ---- Scales and caps

Status ReadScales(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
  const DecoderDefaults& absent = from.family.defaults;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(out->head_size)));
  out->embedding_scale = EmbeddingScale(from.family, out->hidden_size);
  out->activation = *HiddenActivationNamed(absent.activation);
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("attn_logit_softcapping", absent.attention_soft_cap, 0,
                                        kMultiplierMax, &out->attention_soft_cap));
  if (out->attention_soft_cap > 0 && absent.attention_soft_cap == 0) {
    const auto with_cap = [](const DecoderFamily& family) {
      return family.defaults.attention_soft_cap > 0 ? family.name : std::string_view();
    };
    return UnsupportedKey(keys.Name("attn_logit_softcapping"),
                          "is supported for " + FamilyNames<DecoderFamily>(with_cap) + " only");
  }
  return keys.FloatOr("final_logit_softcapping", absent.logit_soft_cap, 0, kMultiplierMax,
                      &out->logit_soft_cap);
}

// ---- Tokens

// Ends of a turn or a text, known by their text as in llama.cpp: a file names one, two or three of
// them in its keys, and chat models have more.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",    "<end_of_turn>",
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>",
};

Status ReadTokenId(const files::GgufMetadata& all, const std::string& key, int32_t vocabulary,
                   int32_t* id) {
  *id = -1;
  if (!all.Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, all.GetInt(key, INT64_MIN, INT64_MAX));
  if (value == -1 || value == kNoToken) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t checked, all.GetInt(key, 0, vocabulary - 1));
  *id = static_cast<int32_t>(checked);
  return Status::Ok();
}

Status ReadTokens(const files::GgufMetadata& all, DecoderConfig* out) {
  const auto read = [&](const char* key, int32_t* id) {
    return ReadTokenId(all, std::string("tokenizer.ggml.") + key, out->vocab_size, id);
  };
  int32_t eot = -1, eom = -1;
  PENSTOCK_RETURN_IF_ERROR(read("bos_token_id", &out->bos_id));
  PENSTOCK_RETURN_IF_ERROR(read("eos_token_id", &out->eos_id));
  PENSTOCK_RETURN_IF_ERROR(read("padding_token_id", &out->pad_id));
  PENSTOCK_RETURN_IF_ERROR(read("eot_token_id", &eot));
  PENSTOCK_RETURN_IF_ERROR(read("eom_token_id", &eom));
  for (const int32_t id : {out->eos_id, eot, eom}) {
    if (id >= 0) out->end_ids.push_back(id);
  }
  if (all.Has("tokenizer.ggml.tokens")) {
    PENSTOCK_ASSIGN_OR_RETURN(const files::GgufStrings tokens,
                              all.GetStrings("tokenizer.ggml.tokens"));
    int32_t id = 0;
    for (const std::string_view token : tokens) {
      const bool ends =
          std::find(std::begin(kEndTexts), std::end(kEndTexts), token) != std::end(kEndTexts);
      // A broken file may have one text many times.
      if (ends && out->end_ids.size() < kDecoderEndIdsMax) out->end_ids.push_back(id);
      ++id;
    }
  }
  if (all.Has("tokenizer.ggml.add_bos_token")) {
    PENSTOCK_ASSIGN_OR_RETURN(out->add_bos, all.GetBool("tokenizer.ggml.add_bos_token"));
  }
  return Status::Ok();
}

}  // namespace

Expected<DecoderReading> ReadDecoderGguf(const files::TensorStore& store, DecoderUse use) {
  const files::GgufMetadata& all = store.gguf()->metadata;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view name, all.GetString("general.architecture"));
  const DecoderFamily* family = DecoderOfGguf(name);
  if (family == nullptr) {
    return UnsupportedKey("general.architecture",
                          "is '" + std::string(name.substr(0, 64)) +
                              "', which is not supported; supported decoders "
                              "are " +
                              DecoderGgufNames());
  }
  const GgufSource from = {store, *family, ArchitectureKeys(all, name)};
  DecoderReading out;
  out.config.architecture = family->name;
  out.wiring.family = family;
  out.wiring.gguf = true;
  out.wiring.qkv_bias = family->qkv_bias ? Bias::kRequired : Bias::kIfThere;
  out.wiring.attention_out_bias = out.wiring.ff_bias = Bias::kIfThere;
  out.wiring.tied = store.Find("output.weight") == nullptr;
  out.wiring.use = use;
  PENSTOCK_RETURN_IF_ERROR(RefuseUnknownKeys(from, use));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadVocabulary(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadLayers(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadGgufRope(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadScales(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadTokens(all, &out.config));
  if (family->gguf.read != nullptr) PENSTOCK_RETURN_IF_ERROR(family->gguf.read(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(
      FinishDecoderConfig(from.keys.Name("attention.head_count_kv"), &out.config));
  return out;
}

Expected<SamplingKeys> ReadSamplingKeys(const files::GgufMetadata& metadata) {
  SamplingKeys keys;
  const auto read = [&](const char* name, double max, std::optional<float>* to) -> Status {
    const std::string key = std::string("general.sampling.") + name;
    if (!metadata.Has(key)) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const double value, metadata.GetFloat(key, 0, max));
    *to = static_cast<float>(value);
    return Status::Ok();
  };
  PENSTOCK_RETURN_IF_ERROR(read("temp", 100, &keys.temperature));
  PENSTOCK_RETURN_IF_ERROR(read("top_p", 1, &keys.top_p));
  PENSTOCK_RETURN_IF_ERROR(read("min_p", 1, &keys.min_p));
  PENSTOCK_RETURN_IF_ERROR(read("penalty_repeat", 100, &keys.repetition_penalty));
  const std::string top_k = "general.sampling.top_k";
  if (metadata.Has(top_k)) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t value,
                              metadata.GetInt(top_k, 0, std::numeric_limits<int32_t>::max()));
    keys.top_k = static_cast<int32_t>(value);
  }
  return keys;
}

}  // namespace penstock::families
