#include "generate/context_bytes.h"

#include <algorithm>

namespace penstock::generate {
namespace {

// Rows of a prompt in a step.
constexpr int32_t kStepRows = 512;

int64_t ValueBytes(numbers::DType type) {
  if (type == numbers::DType::kF32) return 4;
  return type == numbers::DType::kI8 ? 1 : 2;
}

}  // namespace

int64_t KvBytesPerLayer(const families::DecoderConfig& config, numbers::DType cache_type) {
  return families::KvBytesPerToken(config, ValueBytes(cache_type)) /
         static_cast<int64_t>(config.layers.size());
}

ContextBytes::ContextBytes(const families::DecoderConfig& config, numbers::DType cache_type) {
  const auto layer = static_cast<double>(KvBytesPerLayer(config, cache_type));
  token_ = 2.0 * sizeof(float) * config.rope_size / 2;
  // Tables of short factors and of long ones.
  if (config.rope_scaling.kind == families::RopeScalingKind::kLongrope) token_ *= 2;
  for (const families::DecoderLayerConfig& one : config.layers) {
    if (one.window == 0 || !config.causal) {
      token_ += layer;
      continue;
    }
    windowed_token_ += layer;
    kept_ = std::max(kept_, static_cast<double>(one.window) + kStepRows);
  }
}

double ContextBytes::Of(int64_t tokens) const {
  const auto count = static_cast<double>(tokens);
  return count * token_ + std::min(count, kept_) * windowed_token_;
}

int64_t ContextBytes::Fit(double room, int64_t most) const {
  if (Of(most) <= room) return most;
  // `most` does not fit, so that what is divided by is not 0.
  const double kept_bytes = kept_ * windowed_token_;
  const double tokens = kept_ * token_ + kept_bytes < room ? (room - kept_bytes) / token_
                                                           : room / (token_ + windowed_token_);
  return static_cast<int64_t>(std::max(tokens, 0.0));
}

}  // namespace penstock::generate
