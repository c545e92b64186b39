// Metadata of GGUF files -> DecoderConfig.
//
// Keys: github.com/ggml-org/ggml, docs/gguf.md, and the constants of gguf-py. What llama.cpp takes
// where a key is absent, and what its conversion does not write, stands at each setting.
#include "formats/decoder_gguf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

constexpr double kMultiplierMin = 1e-9, kMultiplierMax = 1e9;
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
constexpr std::string_view kGraniteKeys[] = {"attention.scale", "embedding_scale", "logit_scale",
                                             "residual_scale"};
// Of models that embed or score.
constexpr std::string_view kEmbedKeys[] = {"classifier.output_labels", "pooling_type"};
constexpr std::string_view kImageKeys[] = {"vision.", "mm."};  // some files of Gemma 3

bool IsOff(const GgufMetadata& all, const std::string& name) {
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
    if (from.Is("granite") && std::any_of(std::begin(kGraniteKeys), std::end(kGraniteKeys), is)) {
      continue;
    }
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
  const TensorRecord* embedding = from.store.Find("token_embd.weight");
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
  PENSTOCK_ASSIGN_OR_RETURN(const GgufStrings tokens, from.keys.all().GetStrings(key));
  if (tokens.size() <= static_cast<size_t>(rows)) return Status::Ok();
  return InvalidKey(key, "has " + std::to_string(tokens.size()) +
                             " tokens, but tensor 'token_embd.weight' only " +
                             std::to_string(rows) + " rows");
}

// ---- Layers

// attention.sliding_window_pattern: every how many layers one has no window, or a flag a layer.
Status ReadPattern(const GgufSource& from, int32_t window, int64_t absent, DecoderConfig* out) {
  const std::string name = from.keys.Name("attention.sliding_window_pattern");
  const auto found = from.keys.all().values().find(name);
  if (found != from.keys.all().values().end() && found->second.is_array) {
    PENSTOCK_ASSIGN_OR_RETURN(const GgufNumbers<bool> flags, from.keys.all().GetBools(name));
    if (flags.size() != out->layers.size()) {
      return InvalidKey(name, "has " + std::to_string(flags.size()) + " entries for " +
                                  std::to_string(out->layers.size()) + " layers");
    }
    for (size_t i = 0; i < flags.size(); ++i) out->layers[i].window = flags[i] ? window : 0;
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t period,
                            from.keys.all().GetIntOr(name, absent, 1, kDecoderLayersMax));
  for (size_t i = 0; i < out->layers.size(); ++i) {
    out->layers[i].window = (i + 1) % static_cast<size_t>(period) != 0 ? window : 0;
  }
  return Status::Ok();
}

Status ReadLayers(const GgufSource& from, DecoderConfig* out) {
  const std::string_view key = "attention.sliding_window";
  int32_t window = 0;
  PENSTOCK_RETURN_IF_ERROR(
      from.keys.IntOr(key, from.Is("gemma2") ? 4096 : 0, 0, kDecoderContextMax, &window));
  if (from.Is("gemma3") && !from.keys.Has(key)) {
    return InvalidKey(from.keys.Name(key), "is missing");
  }
  if (from.architecture.post_norms)
    return ReadPattern(from, window, from.Is("gemma2") ? 2 : 6, out);
  for (size_t i = 0; i < out->layers.size(); ++i) {
    out->layers[i].window = window;
    // The files have no key for it.
    if (from.Is("smollm3")) out->layers[i].rope = (i + 1) % 4 != 0;
  }
  if (window == 0 || window >= out->context || from.Is("llama") || from.Is("phi3")) {
    return Status::Ok();
  }
  return UnsupportedKey(from.keys.Name(key),
                        "is not supported for " + std::string(from.architecture.name) +
                            ": the file does not say which layers have the window");
}

// ---- Scales and caps

// The largest models of Gemma divide by the root of another size than the head's; the files have
// no key for it, only the number of their layers tells.
bool ScalesByHidden(const GgufSource& from, const DecoderConfig& config) {
  return (from.Is("gemma2") && config.layers.size() == 46) ||
         (from.Is("gemma3") && config.layers.size() == 62);
}

Status ReadScales(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
  const bool gemma2 = from.Is("gemma2");
  const int32_t root = ScalesByHidden(from, *out) ? out->hidden_size / out->heads : out->head_size;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(root)));
  if (from.architecture.post_norms) {
    out->activation = HiddenActivation::kGeluTanh;
    out->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(out->hidden_size)));
  }
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("attn_logit_softcapping", gemma2 ? 50 : 0, 0,
                                        kMultiplierMax, &out->attention_soft_cap));
  if (!gemma2 && out->attention_soft_cap > 0) {
    return UnsupportedKey(keys.Name("attn_logit_softcapping"), "is supported for gemma2 only");
  }
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("final_logit_softcapping", gemma2 ? 30 : 0, 0,
                                        kMultiplierMax, &out->logit_soft_cap));
  if (!from.Is("granite")) return Status::Ok();
  const auto read = [&](std::string_view key, double absent, float* to) {
    return keys.FloatOr(key, absent, kMultiplierMin, kMultiplierMax, to);
  };
  PENSTOCK_RETURN_IF_ERROR(read("embedding_scale", 1, &out->embedding_scale));
  PENSTOCK_RETURN_IF_ERROR(read("residual_scale", 1, &out->residual_scale));
  PENSTOCK_RETURN_IF_ERROR(read("attention.scale", out->attention_scale, &out->attention_scale));
  if (!keys.Has("logit_scale")) return InvalidKey(keys.Name("logit_scale"), "is missing");
  float divisor = 1;
  PENSTOCK_RETURN_IF_ERROR(read("logit_scale", 1, &divisor));
  out->logit_scale = 1 / divisor;
  return Status::Ok();
}

// ---- Tokens

// Ends of a turn or a text, known by their text as in llama.cpp: a file names one, two or three of
// them in its keys, and chat models have more.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",    "<end_of_turn>",
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>",
};

Status ReadTokenId(const GgufMetadata& all, const std::string& key, int32_t vocabulary,
                   int32_t* id) {
  *id = -1;
  if (!all.Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, all.GetInt(key, INT64_MIN, INT64_MAX));
  if (value == -1 || value == kNoToken) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t checked, all.GetInt(key, 0, vocabulary - 1));
  *id = static_cast<int32_t>(checked);
  return Status::Ok();
}

Status ReadTokens(const GgufMetadata& all, DecoderConfig* out) {
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
    PENSTOCK_ASSIGN_OR_RETURN(const GgufStrings tokens, all.GetStrings("tokenizer.ggml.tokens"));
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

Status ArchitectureKeys::Int(std::string_view key, int64_t min, int64_t max, int32_t* out) const {
  const std::string name = Name(key);
  const auto found = all_.values().find(name);
  if (found == all_.values().end() || !found->second.is_array) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, all_.GetInt(name, min, max));
    *out = static_cast<int32_t>(value);
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const GgufNumbers<int64_t> values, all_.GetInts(name));
  if (values.size() == 0) return InvalidKey(name, "is an empty array");
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[0]) return UnsupportedKey(name, "differs from layer to layer");
  }
  if (values[0] < min || values[0] > max) {
    return InvalidKey(name, "must be from " + std::to_string(min) + " to " + std::to_string(max) +
                                ", but is " + std::to_string(values[0]));
  }
  *out = static_cast<int32_t>(values[0]);
  return Status::Ok();
}

Expected<DecoderReading> ReadDecoderGguf(const TensorStore& store, DecoderUse use) {
  const GgufMetadata& all = store.gguf()->metadata;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view name, all.GetString("general.architecture"));
  const DecoderArchitecture* architecture = DecoderOfGguf(name);
  if (architecture == nullptr) {
    return UnsupportedKey("general.architecture",
                          "is '" + std::string(name.substr(0, 64)) +
                              "', which is not supported; supported decoders "
                              "are " +
                              DecoderGgufNames());
  }
  const GgufSource from = {store, *architecture, ArchitectureKeys(all, name)};
  DecoderReading out;
  out.config.architecture = architecture->name;
  out.wiring.architecture = architecture;
  out.wiring.gguf = true;
  out.wiring.qkv_bias = architecture->qkv_bias ? Bias::kRequired : Bias::kIfThere;
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
  PENSTOCK_RETURN_IF_ERROR(
      FinishDecoderConfig(from.keys.Name("attention.head_count_kv"), &out.config));
  return out;
}

Expected<SamplingKeys> ReadSamplingKeys(const GgufMetadata& metadata) {
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

}  // namespace penstock
