#include "families/decoder_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/printable.h"
#include "families/config_fields.h"

namespace penstock::families {
namespace {

constexpr std::string_view kDynamic = "dynamic";

Status ReadFactors(const JsonObject& rope, std::string_view key, int32_t rope_size,
                   std::vector<float>* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray values, rope.GetArray(key));
  if (values.size() != static_cast<size_t>(rope_size / 2)) {
    return Status::InvalidArgument("'" + rope.PathOf(key) + "' has " +
                                       std::to_string(values.size()) + " factors for " +
                                       std::to_string(rope_size / 2) + " frequencies",
                                   rope.PathOf(key));
  }
  for (const JsonElement value : values) {
    double factor = 0;
    if (!value.Get(&factor) || !(factor > 0 && factor <= kRopeFactorMax)) {
      return Status::InvalidArgument("'" + rope.PathOf(key) +
                                         "' must have numbers above 0, at most " +
                                         std::to_string(static_cast<int64_t>(kRopeFactorMax)),
                                     rope.PathOf(key));
    }
    out->push_back(static_cast<float>(factor));
  }
  return Status::Ok();
}

Status ReadYarn(const JsonObject& rope, RopeScaling* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(rope, {"beta_fast"}, 32, 1e-3, 1e6, &out->beta_fast));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(rope, {"beta_slow"}, 1, 1e-3, 1e6, &out->beta_slow));
  PENSTOCK_ASSIGN_OR_RETURN(out->truncate, rope.GetBoolOr("truncate", true));
  PENSTOCK_ASSIGN_OR_RETURN(const double mscale, rope.GetNumberOr("mscale", 0, 0, 1e3));
  PENSTOCK_ASSIGN_OR_RETURN(const double all_dim, rope.GetNumberOr("mscale_all_dim", 0, 0, 1e3));
  double attention = YarnAttentionFactor(out->factor, 1);
  if (mscale > 0 && all_dim > 0) {
    attention =
        YarnAttentionFactor(out->factor, mscale) / YarnAttentionFactor(out->factor, all_dim);
  }
  return ReadFloat(rope, {"attention_factor"}, attention, 1e-3, 1e3, &out->attention_factor);
}

Status ReadLlama3(const JsonObject& rope, const RopeSurroundings& around, RopeScaling* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const double low, rope.GetNumber("low_freq_factor", 1e-3, 1e6));
  PENSTOCK_ASSIGN_OR_RETURN(const double high, rope.GetNumber("high_freq_factor", 1e-3, 1e6));
  if (high <= low) {
    return Status::InvalidArgument(
        "'" + rope.PathOf("high_freq_factor") + "' must be above low_freq_factor",
        rope.PathOf("high_freq_factor"));
  }
  out->factors =
      Llama3Factors(around.theta, around.rope_size, out->factor, low, high, out->original_context);
  return Status::Ok();
}

Status ReadLongrope(const JsonObject& rope, const RopeSurroundings& around, RopeScaling* out) {
  PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(rope, {"short_mscale", "long_mscale"}));
  PENSTOCK_RETURN_IF_ERROR(
      ReadFactors(rope, "short_factor", around.rope_size, &out->short_factors));
  PENSTOCK_RETURN_IF_ERROR(ReadFactors(rope, "long_factor", around.rope_size, &out->long_factors));
  const double attention = LongropeAttentionFactor(out->factor, out->original_context);
  return ReadFloat(rope, {"attention_factor"}, attention, 1e-3, 1e3, &out->attention_factor);
}

// "dynamic" stretches frequencies from max_position_embeddings on, which is the longest context
// here: up to there it changes nothing.
Status CheckDynamic(const JsonObject& rope) {
  const std::string_view key = PresentField(rope, {"rope_type", "type"});
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, rope.GetStringOr(key, ""));
  if (name != kDynamic) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(rope, {"alpha"}));
  return rope.GetNumber("factor", 1, kRopeFactorMax).status();
}

Expected<RopeScalingKind> KindNamed(const JsonObject& rope, bool yarn_is_longrope) {
  const std::string_view key = PresentField(rope, {"rope_type", "type"});
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, rope.GetStringOr(key, "default"));
  if (name == "default" || name == kDynamic) return RopeScalingKind::kNone;
  if (name == "linear") return RopeScalingKind::kLinear;
  if (name == "llama3") return RopeScalingKind::kLlama3;
  if (name == "longrope" || name == "su") return RopeScalingKind::kLongrope;
  if (name == "yarn") {
    return yarn_is_longrope ? RopeScalingKind::kLongrope : RopeScalingKind::kYarn;
  }
  return Status::Unsupported("'" + rope.PathOf(key) + "': rotary scaling '" + Shown(name) +
                                 "' is not supported; supported are default, linear, dynamic, "
                                 "yarn, llama3, longrope",
                             rope.PathOf(key));
}

}  // namespace

Expected<RopeScaling> ReadRopeScaling(const JsonObject& rope, const RopeSurroundings& around) {
  RopeScaling out;
  PENSTOCK_ASSIGN_OR_RETURN(out.kind, KindNamed(rope, around.yarn_is_longrope));
  if (out.kind == RopeScalingKind::kNone) {
    PENSTOCK_RETURN_IF_ERROR(CheckDynamic(rope));
    return out;
  }
  if (out.kind == RopeScalingKind::kLinear) {
    PENSTOCK_ASSIGN_OR_RETURN(const double factor, rope.GetNumber("factor", 1, kRopeFactorMax));
    out.factor = static_cast<float>(factor);
    return out;
  }
  // One beside rope_scaling goes before one inside.
  out.original_context = around.original_positions;
  if (out.original_context == 0) {
    PENSTOCK_RETURN_IF_ERROR(ReadInt(rope, {"original_max_position_embeddings"}, around.positions,
                                     1, kDecoderContextMax, &out.original_context));
  }
  const double ratio = static_cast<double>(around.positions) / out.original_context;
  if (out.kind == RopeScalingKind::kLlama3 && !rope.Has("factor"))
    return rope.GetNumber("factor").status();
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(rope, {"factor"}, std::max(ratio, 1.0), 1, kRopeFactorMax, &out.factor));
  Status read;
  if (out.kind == RopeScalingKind::kYarn) read = ReadYarn(rope, &out);
  if (out.kind == RopeScalingKind::kLlama3) read = ReadLlama3(rope, around, &out);
  if (out.kind == RopeScalingKind::kLongrope) read = ReadLongrope(rope, around, &out);
  PENSTOCK_RETURN_IF_ERROR(read);
  return out;
}

std::vector<float> Llama3Factors(double theta, int32_t rope_size, double factor, double low,
                                 double high, double original) {
  std::vector<float> factors;
  for (int32_t i = 0; i < rope_size / 2; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, 2.0 * i / rope_size);
    double divisor = 1;
    if (wavelength > original / low) {
      divisor = factor;
    } else if (wavelength >= original / high) {
      const double kept = (original / wavelength - low) / (high - low);
      divisor = 1 / ((1 - kept) / factor + kept);
    }
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

double YarnAttentionFactor(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double LongropeAttentionFactor(double factor, double original) {
  return factor <= 1 || original <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

int32_t ContextWithYarn(const RopeScaling& scaling, int32_t context) {
  if (scaling.kind != RopeScalingKind::kYarn) return context;
  const double extended = static_cast<double>(scaling.factor) * scaling.original_context;
  return std::max(
      context, static_cast<int32_t>(std::min(extended, static_cast<double>(kDecoderContextMax))));
}

}  // namespace penstock::families
