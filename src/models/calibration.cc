#include "models/calibration.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace penstock {
namespace {

constexpr size_t kTexts = 32;
constexpr int32_t kTextTokens = 64;
constexpr unsigned kSeed = 20221118;

bool Usable(float maximum) { return std::isfinite(maximum) && maximum > 0; }

}  // namespace

std::vector<float> ColumnFactors(std::span<const float> maxima, std::span<const float> weight) {
  const size_t in = maxima.size();
  std::vector<double> squares(in, 0);
  for (size_t i = 0; i < weight.size(); i += in) {
    for (size_t k = 0; k < in; ++k) {
      squares[k] += static_cast<double>(weight[i + k]) * static_cast<double>(weight[i + k]);
    }
  }
  // Root mean squares.
  std::vector<float> sizes(in);
  for (size_t k = 0; k < in; ++k) {
    sizes[k] = static_cast<float>(
        std::sqrt(squares[k] * static_cast<double>(in) / static_cast<double>(weight.size())));
  }
  std::vector<float> logs(in, 0);
  double sum = 0;
  size_t count = 0;
  for (size_t k = 0; k < in; ++k) {
    if (!Usable(maxima[k]) || !Usable(sizes[k])) continue;
    logs[k] = 0.5f * (std::log(maxima[k]) - std::log(sizes[k]));
    sum += static_cast<double>(logs[k]);
    ++count;
  }
  std::vector<float> factors(in, 1);
  for (size_t k = 0; k < in; ++k) {
    if (!Usable(maxima[k]) || !Usable(sizes[k])) continue;
    factors[k] =
        std::clamp(std::exp(logs[k] - static_cast<float>(sum / static_cast<double>(count))),
                   kColumnFactorMin, kColumnFactorMax);
  }
  return factors;
}

Calibration::Calibration(const EncoderWeights& weights, int32_t max_tokens)
    : weights_(weights), workspace_(weights) {
  std::mt19937 random(kSeed);
  const size_t length = static_cast<size_t>(std::min(max_tokens, kTextTokens));
  ids_.resize(kTexts * length);
  for (int32_t& id : ids_) {
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(weights.vocab));
  }
  types_.resize(ids_.size(), 0);
  for (size_t text = 1; text <= kTexts; ++text) {
    offsets_.push_back(static_cast<int32_t>(text * length));
  }
  batch_ = {ids_, types_, offsets_, {}};
  workspace_.Reserve(weights.backend, ids_.size());
  workspace_.Begin(batch_);
}

std::vector<float> Calibration::AttentionMaxima(const EncoderLayer& layer) {
  attention_input_ = workspace_.AttentionInput(layer, batch_.tokens());
  return Maxima(attention_input_);
}

std::vector<float> Calibration::FeedForwardMaxima(const EncoderLayer& layer) {
  return Maxima(workspace_.FeedForwardInput(layer, attention_input_, batch_));
}

void Calibration::EndLayer(const EncoderLayer& layer) {
  workspace_.EndLayer(layer, batch_.tokens());
}

std::vector<float> Calibration::Maxima(const float* x) const {
  const size_t width = static_cast<size_t>(weights_.hidden);
  std::vector<float> host(batch_.tokens() * width);
  weights_.backend->CopyOut(x, host.data(), host.size());
  std::vector<float> maxima(width, 0);
  for (size_t i = 0; i < host.size(); i += width) {
    for (size_t k = 0; k < width; ++k) maxima[k] = std::max(maxima[k], std::abs(host[i + k]));
  }
  return maxima;
}

}  // namespace penstock
