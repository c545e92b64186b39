// Gemma 2 and 3: norms before and behind attention and feed-forward, whose weights are stored less
// 1, a scaled embedding, and layers with a window between those without. Gemma 2 caps scores and
// logits; Gemma 3 has norms on the heads of queries and keys instead, and rotates layers with a
// window in another way.
#include <cmath>
#include <string>

#include "families/config_fields.h"
#include "families/decoder_family.h"
#include "families/decoder_gguf.h"
#include "families/decoder_json.h"
#include "families/decoder_rope.h"

namespace penstock::families {
namespace {

// ---- config.json

// Scores are divided by the root of a setting.
Status ReadQueryScalar(const JsonSource& from, DecoderConfig* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const double scalar,
                            from.model.GetNumberOr("query_pre_attn_scalar", 256, 1e-3, 1e9));
  out->attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  return Status::Ok();
}

Status ReadSoftCap(const JsonSource& from, std::string_view key, double absent, float* cap) {
  constexpr double kSoftCapMax = 1e6;
  const bool none = IsWritten(from.model, key) && !from.model.Has(key);
  return ReadFloat(from.model, {key}, none ? 0 : absent, kMultiplierMin, kSoftCapMax, cap);
}

Status ReadGemma2Json(const JsonSource& from, DecoderConfig* out) {
  const DecoderDefaults& absent = from.family.defaults;
  PENSTOCK_RETURN_IF_ERROR(ReadQueryScalar(from, out));
  PENSTOCK_RETURN_IF_ERROR(ReadSoftCap(from, "attn_logit_softcapping", absent.attention_soft_cap,
                                       &out->attention_soft_cap));
  return ReadSoftCap(from, "final_logit_softcapping", absent.logit_soft_cap, &out->logit_soft_cap);
}

// The reference has caps among the settings, but caps no scores, and logits only in models without
// images. What a file means that sets the others is not known.
Status ReadGemma3Json(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  PENSTOCK_RETURN_IF_ERROR(ReadQueryScalar(from, out));
  PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(config, {"attn_logit_softcapping"}));
  if (IsWritten(from.file, "text_config")) {
    PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(config, {"final_logit_softcapping"}));
  }
  if (IsWritten(config, "sliding_window") && !config.Has("sliding_window")) {
    return Status::Unsupported(
        "'" + config.PathOf("sliding_window") + "' is null, which is not supported for gemma3",
        config.PathOf("sliding_window"));
  }
  return ReadSoftCap(from, "final_logit_softcapping", 0, &out->logit_soft_cap);
}

// There are two kinds of layers, which could rotate parts of unlike sizes.
Status RefuseShareOfHead(const JsonObject& place) {
  PENSTOCK_ASSIGN_OR_RETURN(const double share, place.GetNumberOr(kRopeShareKey, 1, 1e-3, 1));
  if (share == 1) return Status::Ok();
  return Status::Unsupported("'" + place.PathOf(kRopeShareKey) + "' is not supported for gemma3",
                             place.PathOf(kRopeShareKey));
}

// The scaling is for the global layers, and those with a window have another theta. Newer files
// have an object for either kind.
Status ReadGemma3Rope(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  const DecoderDefaults& absent = from.family.defaults;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject newer, config.GetObjectOrEmpty("rope_parameters"));
  if (newer.Has("rope_theta") || newer.Has("rope_type")) {
    return Status::Unsupported(
        "'rope_parameters' of gemma3 must name full_attention and sliding_attention",
        config.PathOf("rope_parameters"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(JsonObject full, newer.GetObjectOrEmpty("full_attention"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject local, newer.GetObjectOrEmpty("sliding_attention"));
  if (config.Has("rope_scaling")) {
    PENSTOCK_ASSIGN_OR_RETURN(full, config.GetObject("rope_scaling"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double theta,
                            ReadRopeTheta(full, config, "rope_theta", absent.rope_theta));
  PENSTOCK_ASSIGN_OR_RETURN(
      const double local_theta,
      ReadRopeTheta(local, config, "rope_local_base_freq", absent.local_rope_theta));
  PENSTOCK_RETURN_IF_ERROR(RefuseShareOfHead(local));
  const std::string_view type = PresentField(local, {"rope_type", "type"});
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, local.GetStringOr(type, "default"));
  if (name != "default") {
    return Status::Unsupported("'" + local.PathOf(type) + "': rotary scaling of layers with a " +
                                   "window is not supported, but is '" + name + "'",
                               local.PathOf(type));
  }
  PENSTOCK_RETURN_IF_ERROR(RefuseShareOfHead(PlaceOfRopeShare(from, full)));
  PENSTOCK_RETURN_IF_ERROR(ReadScaledRope(from, full, theta, out));
  for (DecoderLayerConfig& layer : out->layers) {
    if (layer.window == 0) continue;
    layer.rope_theta = static_cast<float>(local_theta);
    layer.rope_scaled = false;
  }
  return Status::Ok();
}

// ---- GGUF

// The largest models divide scores by the root of another size than the head's; the files have no
// key for it, only the number of their layers tells.
void ScaleByHiddenOf(size_t layers, DecoderConfig* out) {
  if (out->layers.size() != layers) return;
  const int32_t root = out->hidden_size / out->heads;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(root)));
}

Status ReadGemma2Gguf(const GgufSource&, DecoderConfig* out) {
  ScaleByHiddenOf(46, out);
  return Status::Ok();
}

Status ReadGemma3Gguf(const GgufSource& from, DecoderConfig* out) {
  const std::string_view key = "attention.sliding_window";
  if (!from.keys.Has(key)) return InvalidKey(from.keys.Name(key), "is missing");
  ScaleByHiddenOf(62, out);
  return Status::Ok();
}

}  // namespace

extern constexpr DecoderFamily kGemma2 = {
    .name = "gemma2",
    .model_type = "gemma2",
    .defaults = {.vocab_size = 256000,
                 .hidden_size = 2304,
                 .intermediate_size = 9216,
                 .layers = 26,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_size = 256,
                 .context = 8192,
                 .tied = true,
                 .bos = 2,
                 .eos = 1,
                 .pad = 0,
                 .window = 4096,
                 .attention_soft_cap = 50,
                 .logit_soft_cap = 30,
                 .activation = "gelu_pytorch_tanh"},
    .tensors = {.post_attention_norm = "post_attention_layernorm",
                .ff_norm = "pre_feedforward_layernorm",
                .post_ff_norm = "post_feedforward_layernorm"},
    .attention_bias = true,
    .unit_offset_norms = true,
    .scaled_embedding = true,
    .activation_key = "hidden_activation",
    .has_window = [](const WindowSettings&, const DecoderLayerConfig&,
                     size_t index) { return index % 2 == 0; },
    .layer_types = true,
    .read_json = ReadGemma2Json,
    .gguf = {.name = "gemma2", .window = 4096, .period = 2, .read = ReadGemma2Gguf},
};

extern constexpr DecoderFamily kGemma3 = {
    .name = "gemma3",
    .model_type = "gemma3_text",
    .type_with_images = "gemma3",
    .defaults = {.vocab_size = 262208,
                 .hidden_size = 2304,
                 .intermediate_size = 9216,
                 .layers = 26,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_size = 256,
                 .context = 131072,
                 .rope_theta = 1e6,
                 .local_rope_theta = 1e4,
                 .tied = true,
                 .bos = 2,
                 .eos = 1,
                 .pad = 0,
                 .window = 4096,
                 .activation = "gelu_pytorch_tanh"},
    .tensors = {.q_norm = "self_attn.q_norm",
                .k_norm = "self_attn.k_norm",
                .post_attention_norm = "post_attention_layernorm",
                .ff_norm = "pre_feedforward_layernorm",
                .post_ff_norm = "post_feedforward_layernorm"},
    .attention_bias = true,
    .unit_offset_norms = true,
    .scaled_embedding = true,
    .activation_key = "hidden_activation",
    .has_window = [](const WindowSettings& settings, const DecoderLayerConfig&,
                     size_t index) { return (index + 1) % settings.period != 0; },
    .layer_types = true,
    .halves_window = true,
    .read_json = ReadGemma3Json,
    .read_json_rope = ReadGemma3Rope,
    .gguf = {.name = "gemma3", .period = 6, .read = ReadGemma3Gguf},
};

}  // namespace penstock::families
