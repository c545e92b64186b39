// Granite: Llama with four multipliers.

#include "families/config_fields.h"
#include "families/decoder_family.h"
#include "families/decoder_gguf.h"
#include "families/decoder_json.h"

namespace penstock::families {
namespace {

constexpr std::string_view kGraniteKeys[] = {"attention.scale", "embedding_scale", "logit_scale",
                                             "residual_scale"};

Status ReadGraniteJson(const JsonSource& from, DecoderConfig* out) {
  const auto read = [&](std::string_view key, float* to) {
    return ReadFloat(from.model, {key}, 1, kMultiplierMin, kMultiplierMax, to);
  };
  PENSTOCK_RETURN_IF_ERROR(read("embedding_multiplier", &out->embedding_scale));
  PENSTOCK_RETURN_IF_ERROR(read("residual_multiplier", &out->residual_scale));
  PENSTOCK_RETURN_IF_ERROR(read("attention_multiplier", &out->attention_scale));
  float divisor = 1;
  PENSTOCK_RETURN_IF_ERROR(read("logits_scaling", &divisor));
  out->logit_scale = 1 / divisor;
  return Status::Ok();
}

Status ReadGraniteGguf(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
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
  // The switch of models without positions.
  PENSTOCK_ASSIGN_OR_RETURN(const bool rotated, keys.BoolOr("rope.scaling.finetuned", true));
  for (DecoderLayerConfig& layer : out->layers) layer.rope = rotated;
  return Status::Ok();
}

}  // namespace

extern constexpr DecoderFamily kGranite = {
    .name = "granite",
    .model_type = "granite",
    .defaults = {.vocab_size = 32000,
                 .hidden_size = 4096,
                 .intermediate_size = 11008,
                 .layers = 32,
                 .heads = 32,
                 .context = 2048,
                 .bos = 1,
                 .eos = 2},
    .attention_bias = true,
    .mlp_bias = true,
    .read_json = ReadGraniteJson,
    .gguf = {.name = "granite", .interleaved = true, .keys = kGraniteKeys, .read = ReadGraniteGguf},
};

}  // namespace penstock::families
