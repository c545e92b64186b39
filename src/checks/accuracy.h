// How far the results of a model in a smaller type are from its results in f32. Plain arithmetic
// in double precision; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace penstock::checks {

// Rows of `width` floats, end to end.
struct ResultRows {
  std::vector<float> values;
  size_t width = 0;
  size_t count() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const float> row(size_t i) const { return {values.data() + i * width, width}; }
};

// Spearman's rank correlation: Pearson's of the ranks, ties having the mean of theirs. 1 where
// neither side varies, 0 where one does not; NaN where there is a NaN. The sizes are equal.
double Spearman(std::span<const float> a, std::span<const float> b);

// How many of the `k` best of `a` are among those of `b`; of equal scores the first come first.
// k <= size.
size_t TopOverlap(std::span<const float> a, std::span<const float> b, size_t k);

// Whether an accuracy is good enough: all limits hold, and NaN holds none.
struct AccuracyLimits {
  double cosine_mean = 0;
  double cosine_min = 0;
  double spearman_difference = 1;
  double top10_overlap_percent = 0;
};
inline constexpr AccuracyLimits kBf16Limits = {0.9999, 0.9995, 0.002, 97};
inline constexpr AccuracyLimits kInt8Limits = {0.999, 0.995, 0.002, 97};

struct EmbeddingAccuracy {
  double cosine_mean = 0;  // of a text's two vectors
  double cosine_min = 0;
  size_t worst = 0;                  // the text of cosine_min
  double spearman_difference = 0;    // 1 - Spearman of the cosines of pairs of texts
  double top10_overlap_percent = 0;  // of each text's 10 nearest neighbours among the others

  // The values beyond the limits, "cosine mean 0.9981 (limit 0.999), ..."; "" = nothing.
  std::string Beyond(const AccuracyLimits& limits) const;
};

// Pairs of at most this many texts, evenly spread, are ranked for Spearman.
inline constexpr size_t kPairTextsMax = 1000;

// Rows of the same texts in the same order, two at least. O(n^2 width) for the neighbours.
EmbeddingAccuracy CompareEmbeddings(const ResultRows& f32, const ResultRows& other);

// Scores in lists that are each ranked: of a query's passages, or a label's texts.
struct ScoreAccuracy {
  double difference_mean = 0;  // of a score, absolute
  double difference_max = 0;
  double spearman_difference = 0;    // 1 - Spearman in a list, mean over the lists
  double top10_overlap_percent = 0;  // of a list's 10 best

  std::string Beyond(const AccuracyLimits& limits) const;  // the two of ranks
};

// Lists are rows. Top lists are at most half a list long.
ScoreAccuracy CompareScores(const ResultRows& f32, const ResultRows& other);

}  // namespace penstock::checks
