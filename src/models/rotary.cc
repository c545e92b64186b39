#include "models/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock::models {
namespace {

// YaRN: frequencies that rotate often within the original context are kept, those that rotate
// seldom are divided by the factor, those in between are mixed (arxiv.org/abs/2309.00071, 3.2).
void StretchYarn(const families::RopeScaling& scaling, double theta,
                 std::vector<double>* frequencies) {
  const double pairs = static_cast<double>(frequencies->size());
  // The pair that rotates `turns` times within the original context.
  const auto pair_of = [&](double turns) {
    const double context = scaling.original_context;
    return pairs * std::log(context / (turns * 2 * std::numbers::pi)) / std::log(theta);
  };
  double low = pair_of(static_cast<double>(scaling.beta_fast));
  double high = pair_of(static_cast<double>(scaling.beta_slow));
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, 2 * pairs - 1);
  if (low == high) high += 0.001;  // as the authors' code does
  for (size_t i = 0; i < frequencies->size(); ++i) {
    const double share = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& frequency = (*frequencies)[i];
    frequency *= 1 - share + share / static_cast<double>(scaling.factor);
  }
}

void Divide(const std::vector<float>& factors, std::vector<double>* frequencies) {
  for (size_t i = 0; i < frequencies->size(); ++i) {
    (*frequencies)[i] /= static_cast<double>(factors[i]);
  }
}

}  // namespace

int32_t RopeSwitchOf(const families::DecoderConfig& config, int32_t context) {
  const families::RopeScaling& scaling = config.rope_scaling;
  const bool switches = scaling.kind == families::RopeScalingKind::kLongrope &&
                        scaling.short_factors != scaling.long_factors &&
                        scaling.original_context < context;
  return switches ? scaling.original_context : 0;
}

RotaryAngles RotaryAnglesOf(const families::DecoderConfig& config,
                            const families::DecoderLayerConfig& layer, bool long_factors) {
  RotaryAngles angles;
  const auto pairs = static_cast<size_t>(config.rope_size / 2);
  const auto theta = static_cast<double>(layer.rope_theta);
  for (size_t i = 0; i < pairs; ++i) {
    angles.frequencies.push_back(
        std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
  }
  if (!layer.rope_scaled) return angles;
  const families::RopeScaling& scaling = config.rope_scaling;
  angles.factor = static_cast<double>(scaling.attention_factor);
  switch (scaling.kind) {
    case families::RopeScalingKind::kNone:
      break;
    case families::RopeScalingKind::kLinear:
      for (double& frequency : angles.frequencies) frequency /= static_cast<double>(scaling.factor);
      break;
    case families::RopeScalingKind::kYarn:
      StretchYarn(scaling, theta, &angles.frequencies);
      break;
    case families::RopeScalingKind::kLlama3:
      Divide(scaling.factors, &angles.frequencies);
      break;
    case families::RopeScalingKind::kLongrope:
      Divide(long_factors ? scaling.long_factors : scaling.short_factors, &angles.frequencies);
      break;
  }
  return angles;
}

}  // namespace penstock::models
