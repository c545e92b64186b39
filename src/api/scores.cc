#include "api/scores.h"

#include <algorithm>
#include <cmath>

#include "models/encoder.h"

namespace penstock::api {

float Sigmoid(float x) { return static_cast<float>(1.0 / (1.0 + std::exp(-double{x}))); }

void Softmax(std::span<float> row) {
  if (row.empty()) return;
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - max);
  for (float& x : row) x = static_cast<float>(std::exp(x - max) / sum);
}

void FinishEmbeddings(int32_t width, int32_t dimensions, bool normalize,
                      std::vector<float>* values) {
  // Rows move to the front as they get shorter, so a row never overwrites one still to come.
  size_t to = 0;
  for (size_t from = 0; from < values->size(); from += static_cast<size_t>(width)) {
    const auto row = models::FinishEmbedding(
        std::span(*values).subspan(from, static_cast<size_t>(width)), dimensions, normalize);
    std::copy(row.begin(), row.end(), values->begin() + static_cast<ptrdiff_t>(to));
    to += row.size();
  }
  values->resize(to);
}

ScoreFunction ClassifyFunction(const families::EncoderConfig& config, int32_t num_labels) {
  if (config.problem_type == "regression") return ScoreFunction::kIdentity;
  if (config.problem_type == "multi_label_classification" || num_labels == 1) {
    return ScoreFunction::kSigmoid;
  }
  return ScoreFunction::kSoftmax;
}

ScoreFunction RerankFunction(const families::EncoderConfig& config) {
  return config.cross_encoder_activation == "identity" ? ScoreFunction::kIdentity
                                                       : ScoreFunction::kSigmoid;
}

void ApplyScoreFunction(ScoreFunction function, std::span<float> row) {
  if (function == ScoreFunction::kSoftmax) return Softmax(row);
  if (function == ScoreFunction::kSigmoid) {
    for (float& x : row) x = Sigmoid(x);
  }
}

std::vector<ClassifyResponse::Label> SortedLabels(std::span<const float> row) {
  std::vector<ClassifyResponse::Label> labels(row.size());
  for (size_t i = 0; i < row.size(); ++i) labels[i] = {static_cast<int32_t>(i), row[i]};
  std::stable_sort(labels.begin(), labels.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return labels;
}

std::vector<RerankResponse::Item> RankedItems(std::span<const float> logits, ScoreFunction function,
                                              size_t top_n) {
  std::vector<RerankResponse::Item> items(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) items[i] = {static_cast<int32_t>(i), logits[i]};
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  items.resize(std::min(items.size(), top_n));
  for (auto& item : items) ApplyScoreFunction(function, {&item.score, 1});
  return items;
}

float SimilarityOf(const std::string& function, std::span<const float> a,
                   std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0, squares = 0, absolutes = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    squares += (x - y) * (x - y);
    absolutes += std::abs(x - y);
  }
  if (function == "dot") return static_cast<float>(dot);
  if (function == "euclidean") return static_cast<float>(-std::sqrt(squares));
  if (function == "manhattan") return static_cast<float>(-absolutes);
  return aa == 0 || bb == 0 ? 0.0f : static_cast<float>(dot / std::sqrt(aa * bb));
}

}  // namespace penstock::api
