// From model outputs to response values: score functions, labels, similarities. Plain arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "families/model_folder.h"

namespace penstock::api {

float Sigmoid(float x);
// In place, in double precision; the largest value is taken off first.
void Softmax(std::span<float> row);

// FinishEmbedding of each row of `width` values; rows are cut to `dimensions` and moved together.
void FinishEmbeddings(int32_t width, int32_t dimensions, bool normalize,
                      std::vector<float>* values);

enum class ScoreFunction { kIdentity, kSigmoid, kSoftmax };

// The default of transformers' text-classification pipeline: none for regression, sigmoid for
// multi-label or a single label, else softmax.
ScoreFunction ClassifyFunction(const families::EncoderConfig& config, int32_t num_labels);
// The score function of a cross-encoder: as the model folder says, else sigmoid
// (sentence-transformers' default for one label).
ScoreFunction RerankFunction(const families::EncoderConfig& config);
void ApplyScoreFunction(ScoreFunction function, std::span<float> row);

// Every label of a row, best first; ties by id.
std::vector<ClassifyResponse::Label> SortedLabels(std::span<const float> row);

// Indices and scores of `logits`, best first, ties in order; `top_n` at most. Sorted by logit:
// a sigmoid in single precision makes neighbours near 1 equal.
std::vector<RerankResponse::Item> RankedItems(std::span<const float> logits, ScoreFunction function,
                                              size_t top_n);

// "cosine", "dot", "euclidean", "manhattan" (distances are negated, so that larger is more
// similar), "" = cosine; as sentence-transformers' similarity functions. Sums in double precision.
// A vector of length 0 has cosine 0 with everything.
float SimilarityOf(const std::string& function, std::span<const float> a, std::span<const float> b);

}  // namespace penstock::api
