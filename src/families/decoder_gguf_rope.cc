// Rotary embeddings in GGUF files.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "families/decoder_gguf.h"
#include "families/decoder_rope.h"

namespace penstock::families {
namespace {

// A tensor of rope_size / 2 divisors of frequencies.
Status ReadFactors(const files::TensorStore& store, const std::string& name, int32_t rope_size,
                   std::vector<float>* out) {
  const files::TensorRecord* tensor = store.Find(name);
  if (tensor == nullptr) {
    return Status::InvalidArgument("the model has no tensor '" + name + "'", name);
  }
  if (tensor->shape.size() != 1 || tensor->shape[0] != rope_size / 2 ||
      tensor->dtype != numbers::DType::kF32) {
    return Status::InvalidArgument(
        "tensor '" + name + "' must have " + std::to_string(rope_size / 2) + " values of F32",
        name);
  }
  out->resize(static_cast<size_t>(rope_size / 2));
  PENSTOCK_RETURN_IF_ERROR(tensor->CopyToF32(*out));
  const bool good = std::all_of(out->begin(), out->end(), [](float factor) {
    return factor > 0 && factor <= static_cast<float>(kRopeFactorMax);
  });
  if (good) return Status::Ok();
  return Status::InvalidArgument("tensor '" + name + "' has values that are not factors", name);
}

// By the key, else by the tensors that only one kind has. "linear" is what llama.cpp takes.
Expected<RopeScalingKind> KindOf(const GgufSource& from, double factor) {
  const std::string name = from.keys.Name("rope.scaling.type");
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view type,
                            from.keys.all().GetStringOr(name, "linear"));
  RopeScalingKind kind = RopeScalingKind::kNone;
  if (type == "linear") {
    kind = factor == 1 ? RopeScalingKind::kNone : RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    kind = RopeScalingKind::kYarn;
  } else if (type != "none" && type != "longrope") {
    return UnsupportedKey(name, "is '" + std::string(type.substr(0, 64)) +
                                    "', which is not supported; supported are none, linear, yarn, "
                                    "longrope");
  }
  const bool divided = from.store.Find("rope_freqs.weight") != nullptr;
  const bool longrope = type == "longrope" ||
                        from.store.Find("rope_factors_long.weight") != nullptr ||
                        from.store.Find("rope_factors_short.weight") != nullptr;
  if ((kind != RopeScalingKind::kNone) + divided + longrope > 1) {
    return UnsupportedKey(name, "together with tensors of factors is not supported");
  }
  if (divided) return RopeScalingKind::kLlama3;
  return longrope ? RopeScalingKind::kLongrope : kind;
}

Status ReadScaling(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
  RopeScaling& scaling = out->rope_scaling;
  const char* const factor_key =
      keys.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  float factor = 1;
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr(factor_key, 1, 0, kRopeFactorMax, &factor));
  if (factor == 0) factor = 1;  // as llama.cpp
  if (factor < 1) return InvalidKey(keys.Name(factor_key), "must be at least 1");
  PENSTOCK_ASSIGN_OR_RETURN(scaling.kind, KindOf(from, factor));
  PENSTOCK_RETURN_IF_ERROR(keys.IntOr("rope.scaling.original_context_length", out->context, 1,
                                      kDecoderContextMax, &scaling.original_context));
  float attention = 1;
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("rope.scaling.attn_factor", 1, 1e-3, 1e3, &attention));
  switch (scaling.kind) {
    case RopeScalingKind::kNone:
      scaling = RopeScaling();
      return Status::Ok();
    case RopeScalingKind::kLinear:
      scaling.factor = factor;
      scaling.original_context = 0;
      return Status::Ok();
    case RopeScalingKind::kLlama3:
      scaling.factor = 0;
      scaling.original_context = 0;
      return ReadFactors(from.store, "rope_freqs.weight", out->rope_size, &scaling.factors);
    case RopeScalingKind::kLongrope: {
      const double ratio = static_cast<double>(out->context) / scaling.original_context;
      scaling.factor = static_cast<float>(std::max(ratio, 1.0));
      scaling.attention_factor =
          keys.Has("rope.scaling.attn_factor")
              ? attention
              : static_cast<float>(LongropeAttentionFactor(ratio, scaling.original_context));
      PENSTOCK_RETURN_IF_ERROR(ReadFactors(from.store, "rope_factors_short.weight", out->rope_size,
                                           &scaling.short_factors));
      return ReadFactors(from.store, "rope_factors_long.weight", out->rope_size,
                         &scaling.long_factors);
    }
    case RopeScalingKind::kYarn:
      break;
  }
  scaling.factor = factor;
  PENSTOCK_RETURN_IF_ERROR(
      keys.FloatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6, &scaling.beta_fast));
  PENSTOCK_RETURN_IF_ERROR(
      keys.FloatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6, &scaling.beta_slow));
  float log_multiplier = 0;
  PENSTOCK_RETURN_IF_ERROR(
      keys.FloatOr("rope.scaling.yarn_log_multiplier", 0, 0, 1e3, &log_multiplier));
  const double yarn = YarnAttentionFactor(factor, 1) / YarnAttentionFactor(factor, log_multiplier);
  scaling.attention_factor = static_cast<float>(attention * yarn);
  out->context = ContextWithYarn(scaling, out->context);
  return Status::Ok();
}

}  // namespace

Status ReadGgufRope(const GgufSource& from, DecoderConfig* out) {
  const ArchitectureKeys& keys = from.keys;
  PENSTOCK_RETURN_IF_ERROR(
      keys.IntOr("rope.dimension_count", out->head_size, 2, out->head_size, &out->rope_size));
  if (out->rope_size % 2 != 0) return InvalidKey(keys.Name("rope.dimension_count"), "must be even");
  out->rope_interleaved = from.family.gguf.interleaved;
  const double own_theta = from.family.defaults.local_rope_theta;  // of layers with a window
  float theta = 0, local_theta = 0;
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("rope.freq_base", 1e4, 1.001, kRopeThetaMax, &theta));
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("rope.freq_base_swa", own_theta > 0 ? own_theta : theta,
                                        1.001, kRopeThetaMax, &local_theta));
  for (DecoderLayerConfig& layer : out->layers) {
    const bool local = from.family.gguf.period > 0 && layer.window > 0;
    layer.rope_theta = local ? local_theta : theta;
    layer.rope_scaled = !(local && own_theta > 0);
  }
  return ReadScaling(from, out);
}

}  // namespace penstock::families
