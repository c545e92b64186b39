// config.json -> DecoderConfig.
//
// Field names and defaults: the configuration classes of huggingface/transformers, 4.57 and 5;
// where the two read a file differently, 5.
#include "families/decoder_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "common/printable.h"
#include "families/config_fields.h"

namespace penstock {
namespace {

constexpr double kSoftCapMax = 1e6;

constexpr std::array kDefaults = {
    JsonDefaults{"llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, 1e4, false, 1, 2, -1},
    JsonDefaults{"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, 1e4, false, 1, 2, -1,
                 4096},
    JsonDefaults{"granite", 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, 1e4, false, 1, 2, -1},
    JsonDefaults{"smollm3", 128256, 2048, 11008, 36, 16, 4, 0, 32768, 1e-6, 2e6, true, 128000,
                 128001, 128004},
    JsonDefaults{"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, 1e4, false, -1, -1, -1,
                 4096},
    JsonDefaults{"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, 1e4, false, -1, -1, -1,
                 4096},
    JsonDefaults{"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, 1e4, true, 2, 1, 0, 4096},
    JsonDefaults{"gemma3", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, 1e6, true, 2, 1, 0,
                 4096},
    JsonDefaults{"phi3", 32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5, 1e4, false, 1, 32000, 32000},
};
const JsonDefaults& DefaultsOf(std::string_view architecture) {
  const auto found = std::find_if(kDefaults.begin(), kDefaults.end(), [&](const JsonDefaults& d) {
    return d.architecture == architecture;
  });
  PENSTOCK_CHECK(found != kDefaults.end());
  return *found;
}

Status ReadSizes(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  const JsonDefaults& d = from.defaults;
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"vocab_size"}, d.vocab_size, 1, kDecoderVocabularyMax, &out->vocab_size));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"hidden_size"}, d.hidden_size, 1, kDecoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"intermediate_size"}, d.intermediate_size, 1,
                                   kDecoderIntermediateMax, &out->intermediate_size));
  int32_t layers = 0;
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"num_hidden_layers"}, d.layers, 1, kDecoderLayersMax, &layers));
  out->layers.resize(static_cast<size_t>(layers));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"num_attention_heads"}, d.heads, 1, kDecoderHeadsMax, &out->heads));
  const bool as_heads = d.kv_heads == 0 || IsWritten(config, "num_key_value_heads");
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_key_value_heads"},
                                   as_heads ? out->heads : d.kv_heads, 1, kDecoderHeadsMax,
                                   &out->kv_heads));
  if (!config.Has("head_dim") && d.head_size == 0 && out->hidden_size % out->heads != 0) {
    return Status::InvalidArgument("'hidden_size' " + std::to_string(out->hidden_size) +
                                       " is not a multiple of the " + std::to_string(out->heads) +
                                       " attention heads, and there is no head_dim",
                                   "hidden_size");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"head_dim"},
                                   d.head_size > 0 ? d.head_size : out->hidden_size / out->heads, 1,
                                   kDecoderHeadSizeMax, &out->head_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"max_position_embeddings"}, d.context, 1,
                                   kDecoderContextMax, &out->context));
  return ReadFloat(config, {"rms_norm_eps"}, d.rms_epsilon, 0, 1, &out->rms_epsilon);
}

// ---- Scales, caps and the activation

Status ReadCap(const JsonObject& config, std::string_view key, double absent, float* cap) {
  const bool none = IsWritten(config, key) && !config.Has(key);
  return ReadFloat(config, {key}, none ? 0 : absent, kMultiplierMin, kSoftCapMax, cap);
}

// The reference has caps among Gemma 3's settings, but caps no scores, and logits only in models
// without images. What a file means that sets the others is not known.
Status RefuseGemma3Caps(const JsonSource& from) {
  PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(from.model, {"attn_logit_softcapping"}));
  if (!IsWritten(from.file, "text_config")) return Status::Ok();
  return RefuseIfSet(from.model, {"final_logit_softcapping"});
}

Status ReadScales(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(out->head_size)));
  if (from.architecture.post_norms) {
    const bool gemma2 = from.Is("gemma2");
    out->unit_offset_norms = true;
    out->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(out->hidden_size)));
    PENSTOCK_ASSIGN_OR_RETURN(const double scalar,
                              config.GetNumberOr("query_pre_attn_scalar", 256, 1e-3, 1e9));
    out->attention_scale = static_cast<float>(1 / std::sqrt(scalar));
    if (gemma2) {
      PENSTOCK_RETURN_IF_ERROR(
          ReadCap(config, "attn_logit_softcapping", 50, &out->attention_soft_cap));
    } else {
      PENSTOCK_RETURN_IF_ERROR(RefuseGemma3Caps(from));
    }
    PENSTOCK_RETURN_IF_ERROR(
        ReadCap(config, "final_logit_softcapping", gemma2 ? 30 : 0, &out->logit_soft_cap));
    return ReadActivation(config, "hidden_activation", "gelu_pytorch_tanh", &out->activation);
  }
  if (from.Is("granite")) {
    const auto read = [&](std::string_view key, float* to) {
      return ReadFloat(config, {key}, 1, kMultiplierMin, kMultiplierMax, to);
    };
    PENSTOCK_RETURN_IF_ERROR(read("embedding_multiplier", &out->embedding_scale));
    PENSTOCK_RETURN_IF_ERROR(read("residual_multiplier", &out->residual_scale));
    PENSTOCK_RETURN_IF_ERROR(read("attention_multiplier", &out->attention_scale));
    float divisor = 1;
    PENSTOCK_RETURN_IF_ERROR(read("logits_scaling", &divisor));
    out->logit_scale = 1 / divisor;
  }
  return ReadActivation(config, "hidden_act", "silu", &out->activation);
}

// ---- Tokens

Status ReadTokenId(const JsonObject& config, std::string_view key, int32_t absent,
                   int32_t vocabulary, int32_t* id) {
  const bool none = IsWritten(config, key) || absent >= vocabulary;
  return ReadInt(config, {key}, none ? -1 : absent, -1, vocabulary - 1, id);
}

Status ReadTokens(const JsonSource& from, DecoderConfig* out) {
  const JsonDefaults& d = from.defaults;
  PENSTOCK_RETURN_IF_ERROR(
      ReadTokenId(from.With("bos_token_id"), "bos_token_id", d.bos, out->vocab_size, &out->bos_id));
  PENSTOCK_RETURN_IF_ERROR(
      ReadTokenId(from.With("pad_token_id"), "pad_token_id", d.pad, out->vocab_size, &out->pad_id));
  // A file with images has the ends of its chat outside of text_config.
  const bool outside = IsWritten(from.file, "eos_token_id");
  PENSTOCK_RETURN_IF_ERROR(
      ReadEndIds(outside ? from.file : from.model, d.eos, out->vocab_size, &out->end_ids));
  out->eos_id = out->end_ids.empty() ? -1 : out->end_ids.front();
  return Status::Ok();
}

// ---- What is refused, and which tensors there are

Status RefuseOthers(const JsonSource& from, DecoderUse use) {
  for (const JsonObject* object : {&from.model, &from.file}) {
    PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(
        *object,
        {"quantization_config", "compression_config", "is_encoder_decoder", "add_cross_attention",
         "cross_attention_hidden_size", "pruned_heads", "num_experts", "num_local_experts",
         "n_routed_experts", "moe_intermediate_size", "attention_chunk_size", "clip_qkv",
         "use_qk_norm", "qk_layernorm", "attn_temperature_tuning", "per_layer_config"}));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto architectures,
                            from.file.GetStringsOrEmpty("architectures", 64));
  if (architectures.empty() || architectures[0].ends_with("ForCausalLM") ||
      architectures[0].ends_with("ForConditionalGeneration")) {
    return Status::Ok();
  }
  if (use == DecoderUse::kEmbed && (architectures[0].ends_with("Model") ||
                                    architectures[0].ends_with("ForSequenceClassification"))) {
    return Status::Ok();
  }
  return Status::Unsupported("'architectures': '" + Shown(architectures[0]) +
                                 "' is not supported; a decoder's ends in ForCausalLM",
                             "architectures");
}

// Qwen2 as gte-Qwen2 changes it, by code in the model's folder: it attends in both directions.
Expected<bool> IsGteQwen2(const JsonSource& from) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject classes, from.file.GetObjectOrEmpty("auto_map"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, classes.GetStringOr("AutoModel", ""));
  return from.Is("qwen2") && name.ends_with("modeling_qwen.Qwen2Model");
}

// Whether tokens see those after them: "is_causal" and "use_bidirectional_attention" say it.
Status ReadCausal(const JsonSource& from, DecoderUse use, DecoderConfig* out) {
  const std::string_view both_key = "use_bidirectional_attention";
  const JsonObject& place = from.With(both_key);
  bool both = false;
  if (const auto value = place.Find(both_key); value && value->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string kind, place.GetString(both_key));
    both = kind == "all";
    if (!both) {
      return Status::Unsupported(
          "'" + place.PathOf(both_key) + "': '" + Shown(kind) + "' is not supported",
          place.PathOf(both_key));
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(both, place.GetBoolOr(both_key, false));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool gte, IsGteQwen2(from));
  const bool silent = !IsWritten(place, both_key);
  PENSTOCK_ASSIGN_OR_RETURN(
      const bool causal, from.With("is_causal").GetBoolOr("is_causal", !(both || (gte && silent))));
  out->causal = causal && !both;
  if (out->causal) return Status::Ok();
  if (use == DecoderUse::kGenerate) {
    return Status::Unsupported("attention in both directions ('" +
                                   std::string(both ? both_key : "is_causal") +
                                   "') is for models that embed; this one is to generate text",
                               std::string(both ? both_key : "is_causal"));
  }
  // transformers halves Gemma's window; the others' meaning is not clear.
  for (DecoderLayerConfig& layer : out->layers) {
    if (layer.window == 0) continue;
    if (!from.Is("gemma3")) {
      return Status::Unsupported("windows with attention in both directions are not supported",
                                 "sliding_window");
    }
    layer.window = layer.window / 2 + 1;
  }
  return Status::Ok();
}

Status ReadWiring(const JsonSource& from, DecoderWiring* out) {
  out->architecture = &from.architecture;
  const auto bias_if = [](bool there) { return there ? Bias::kRequired : Bias::kNone; };
  bool attention = false, ff = false;
  if (!from.Is("mistral") && !from.Is("qwen2") && !from.Is("phi3")) {
    PENSTOCK_ASSIGN_OR_RETURN(attention, from.model.GetBoolOr("attention_bias", false));
  }
  if (from.Is("llama") || from.Is("granite") || from.Is("smollm3")) {
    PENSTOCK_ASSIGN_OR_RETURN(ff, from.model.GetBoolOr("mlp_bias", false));
  }
  out->qkv_bias = bias_if(attention || from.architecture.qkv_bias);
  out->attention_out_bias = bias_if(attention);
  out->ff_bias = bias_if(ff);
  PENSTOCK_ASSIGN_OR_RETURN(
      out->tied,
      from.With("tie_word_embeddings").GetBoolOr("tie_word_embeddings", from.defaults.tied));
  return Status::Ok();
}

}  // namespace

bool IsWritten(const JsonObject& config, std::string_view key) {
  bool written = false;
  config.ForEach([&](std::string_view name, JsonElement) { written |= name == key; });
  return written;
}

Status ReadEndIds(const JsonObject& config, int32_t absent, int32_t vocabulary,
                  std::vector<int32_t>* ids) {
  const std::string_view key = "eos_token_id";
  const auto value = config.Find(key);
  JsonArray list;
  if (!value || !value->Get(&list)) {
    int32_t id = -1;
    PENSTOCK_RETURN_IF_ERROR(ReadTokenId(config, key, absent, vocabulary, &id));
    if (id >= 0) ids->push_back(id);
    return Status::Ok();
  }
  if (list.size() > kDecoderEndIdsMax) {
    return Status::InvalidArgument("'" + config.PathOf(key) + "' has more than " +
                                       std::to_string(kDecoderEndIdsMax) + " tokens",
                                   config.PathOf(key));
  }
  for (const JsonElement item : list) {
    int64_t id = -1;
    if (!item.Get(&id) || id < 0 || id >= vocabulary) {
      return Status::InvalidArgument("'" + config.PathOf(key) + "' must have tokens from 0 to " +
                                         std::to_string(vocabulary - 1),
                                     config.PathOf(key));
    }
    ids->push_back(static_cast<int32_t>(id));
  }
  return Status::Ok();
}

Expected<DecoderReading> ReadDecoderJson(const JsonObject& file, DecoderUse use) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string model_type, file.GetString("model_type"));
  const DecoderArchitecture* architecture = DecoderOfModelType(model_type);
  if (architecture == nullptr) {
    return Status::Unsupported("'model_type': '" + Shown(model_type) +
                                   "' is not supported; supported decoders are " +
                                   DecoderModelTypes(),
                               "model_type");
  }
  JsonObject model = file;
  if (model_type == "gemma3") {
    PENSTOCK_ASSIGN_OR_RETURN(model, file.GetObject("text_config"));
  }
  const JsonSource from = {model, file, *architecture, DefaultsOf(architecture->name)};
  DecoderReading out;
  out.config.architecture = architecture->name;
  out.wiring.use = use;
  PENSTOCK_RETURN_IF_ERROR(RefuseOthers(from, use));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadJsonLayers(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadJsonRope(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadScales(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadCausal(from, use, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadTokens(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadWiring(from, &out.wiring));
  PENSTOCK_RETURN_IF_ERROR(FinishDecoderConfig("num_key_value_heads", &out.config));
  return out;
}

}  // namespace penstock
