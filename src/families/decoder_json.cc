// config.json -> DecoderConfig.
//
// Field names and defaults: the configuration classes of huggingface/transformers, 4.57 and 5;
// where the two read a file differently, 5.
#include "families/decoder_json.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "families/config_fields.h"
#include "families/list.h"

namespace penstock::families {
namespace {

Status ReadSizes(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  const DecoderDefaults& d = from.family.defaults;
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

// ---- Scales and the activation

Status ReadScales(const JsonSource& from, DecoderConfig* out) {
  const DecoderFamily& family = from.family;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(out->head_size)));
  out->unit_offset_norms = family.unit_offset_norms;
  out->embedding_scale = EmbeddingScale(family, out->hidden_size);
  return ReadActivation(from.model, family.activation_key, family.defaults.activation,
                        &out->activation);
}

// ---- Tokens

Status ReadTokenId(const JsonObject& config, std::string_view key, int32_t absent,
                   int32_t vocabulary, int32_t* id) {
  const bool none = IsWritten(config, key) || absent >= vocabulary;
  return ReadInt(config, {key}, none ? -1 : absent, -1, vocabulary - 1, id);
}

Status ReadTokens(const JsonSource& from, DecoderConfig* out) {
  const DecoderDefaults& d = from.family.defaults;
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
  bool implied = both;
  if (from.family.attends_both_ways != nullptr && !IsWritten(place, both_key)) {
    PENSTOCK_ASSIGN_OR_RETURN(implied, from.family.attends_both_ways(from));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool causal,
                            from.With("is_causal").GetBoolOr("is_causal", !implied));
  out->causal = causal && !both;
  if (out->causal) return Status::Ok();
  if (use == DecoderUse::kGenerate) {
    return Status::Unsupported("attention in both directions ('" +
                                   std::string(both ? both_key : "is_causal") +
                                   "') is for models that embed; this one is to generate text",
                               std::string(both ? both_key : "is_causal"));
  }
  // transformers halves the window of some families; the others' meaning is not clear.
  for (DecoderLayerConfig& layer : out->layers) {
    if (layer.window == 0) continue;
    if (!from.family.halves_window) {
      return Status::Unsupported("windows with attention in both directions are not supported",
                                 "sliding_window");
    }
    layer.window = layer.window / 2 + 1;
  }
  return Status::Ok();
}

Status ReadWiring(const JsonSource& from, DecoderWiring* out) {
  out->family = &from.family;
  const auto bias_if = [](bool there) { return there ? Bias::kRequired : Bias::kNone; };
  bool attention = false, ff = false;
  if (from.family.attention_bias) {
    PENSTOCK_ASSIGN_OR_RETURN(attention, from.model.GetBoolOr("attention_bias", false));
  }
  if (from.family.mlp_bias) {
    PENSTOCK_ASSIGN_OR_RETURN(ff, from.model.GetBoolOr("mlp_bias", false));
  }
  out->qkv_bias = bias_if(attention || from.family.qkv_bias);
  out->attention_out_bias = bias_if(attention);
  out->ff_bias = bias_if(ff);
  PENSTOCK_ASSIGN_OR_RETURN(
      out->tied,
      from.With("tie_word_embeddings").GetBoolOr("tie_word_embeddings", from.family.defaults.tied));
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
  const DecoderFamily* family = DecoderOfModelType(model_type);
  if (family == nullptr) {
    return Status::Unsupported("'model_type': '" + Shown(model_type) +
                                   "' is not supported; supported decoders are " +
                                   DecoderModelTypes(),
                               "model_type");
  }
  JsonObject model = file;
  if (model_type == family->type_with_images) {
    PENSTOCK_ASSIGN_OR_RETURN(model, file.GetObject("text_config"));
  }
  const JsonSource from = {model, file, *family};
  DecoderReading out;
  out.config.architecture = family->name;
  out.wiring.use = use;
  PENSTOCK_RETURN_IF_ERROR(RefuseOthers(from, use));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadScales(from, &out.config));
  if (family->read_json != nullptr) PENSTOCK_RETURN_IF_ERROR(family->read_json(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadJsonLayers(from, &out.config));
  const auto read_rope = family->read_json_rope != nullptr ? family->read_json_rope : ReadJsonRope;
  PENSTOCK_RETURN_IF_ERROR(read_rope(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadCausal(from, use, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadTokens(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadWiring(from, &out.wiring));
  PENSTOCK_RETURN_IF_ERROR(FinishDecoderConfig("num_key_value_heads", &out.config));
  return out;
}

}  // namespace penstock::families
