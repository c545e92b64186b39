#include "models/calibration.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "gate/bulk_turn.h"
#include "models/encoder_program.h"

namespace penstock::models {
namespace {

constexpr size_t kTexts = 32;
constexpr int32_t kTextTokens = 64;
constexpr unsigned kSeed = 20221118;

bool Usable(float maximum) { return std::isfinite(maximum) && maximum > 0; }

}  // namespace

std::vector<float> ColumnFactors(std::span<const float> maxima,
                                 std::span<const program::LinearRows> weight) {
  const size_t in = maxima.size();
  std::vector<double> squares(in, 0);
  std::vector<float> row(in);
  int64_t rows = 0;
  for (const program::LinearRows& part : weight) {
    for (int64_t r = 0; r < part.weight.rows; ++r) {
      part.weight.CopyToF32(r, 1, row.data());
      for (size_t k = 0; k < in; ++k) {
        squares[k] += static_cast<double>(row[k]) * static_cast<double>(row[k]);
      }
    }
    rows += part.weight.rows;
  }
  const double elements = static_cast<double>(static_cast<size_t>(rows) * in);
  // Root mean squares.
  std::vector<float> sizes(in);
  for (size_t k = 0; k < in; ++k) {
    sizes[k] = static_cast<float>(std::sqrt(squares[k] * static_cast<double>(in) / elements));
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
    : weights_(weights), length_(std::min(max_tokens, kTextTokens)) {
  std::mt19937 random(kSeed);
  ids_.resize(kTexts * static_cast<size_t>(length_));
  for (int32_t& id : ids_) {
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(weights.words->rows()));
  }
  for (size_t text = 1; text <= kTexts; ++text) {
    offsets_.push_back(static_cast<int32_t>(text) * length_);
  }
}

Status Calibration::Start() { return Advance(EmbeddingProgram(weights_, length_)); }

Expected<std::vector<float>> Calibration::AttentionMaxima(const EncoderLayer& layer) {
  return Maxima(weights_.architecture->pre_norm ? layer.attention_norm : program::Norm());
}

Status Calibration::EndAttention(const EncoderLayer& layer) {
  return Advance(AttentionProgram(weights_, layer, length_));
}

Expected<std::vector<float>> Calibration::FeedForwardMaxima(const EncoderLayer& layer) {
  return Maxima(weights_.architecture->pre_norm ? layer.ff_norm : program::Norm());
}

Status Calibration::EndLayer(const EncoderLayer& layer) {
  return Advance(FeedForwardProgram(weights_, layer, length_));
}

Status Calibration::Run(const program::Program& program) {
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(program));
  const size_t width = static_cast<size_t>(weights_.hidden);
  result_.resize(ids_.size() * width);
  std::vector<float*> sinks;
  for (size_t text = 0; text < kTexts; ++text) {
    sinks.push_back(result_.data() + static_cast<size_t>(offsets_[text]) * width);
  }
  program::PackedBatch batch;
  batch.ids = ids_;
  batch.offsets = offsets_;
  batch.input = hidden_;  // none yet for the embeddings
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, weights_.backend->Prepare(program));
  const gate::BulkTurn turn(&weights_.backend->gate());
  return run->Run(0, batch, sinks);
}

Status Calibration::Advance(const program::Program& program) {
  PENSTOCK_RETURN_IF_ERROR(Run(program));
  std::swap(hidden_, result_);
  return Status::Ok();
}

Expected<std::vector<float>> Calibration::Maxima(const program::Norm& norm) {
  const std::vector<float>* x = &hidden_;
  if (norm.gamma != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(Run(NormProgram(weights_, norm, length_)));
    x = &result_;
  }
  const size_t width = static_cast<size_t>(weights_.hidden);
  std::vector<float> maxima(width, 0);
  for (size_t i = 0; i < x->size(); i += width) {
    for (size_t k = 0; k < width; ++k) maxima[k] = std::max(maxima[k], std::abs((*x)[i + k]));
  }
  return maxima;
}

}  // namespace penstock::models
