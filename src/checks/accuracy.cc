#include "checks/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace penstock::checks {
namespace {

constexpr size_t kTop = 10;
// Rows whose cosines with all texts are worked out at once: each value of the matrix is read once
// for all of them.
constexpr size_t kBlockRows = 8;

bool HasNan(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

std::vector<double> Ranks(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

// Indices of the k best, in order of index.
std::vector<size_t> Top(std::span<const float> scores, size_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto middle = order.begin() + static_cast<ptrdiff_t>(k);
  std::partial_sort(order.begin(), middle, order.end(), [&](size_t i, size_t j) {
    return scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

// Vectors of length 1 as columns: [width][count], so that cosines of a row with all texts are sums
// of whole columns.
class UnitColumns {
 public:
  explicit UnitColumns(const ResultRows& rows)
      : count_(rows.count()), width_(rows.width), values_(rows.values.size()) {
    for (size_t i = 0; i < count_; ++i) {
      double squares = 0;
      for (const float v : rows.row(i)) squares += double{v} * v;
      const double inverse = squares > 0 ? 1 / std::sqrt(squares) : 0;
      for (size_t d = 0; d < width_; ++d) {
        values_[d * count_ + i] = static_cast<float>(rows.row(i)[d] * inverse);
      }
    }
  }
  // Cosines of rows [first, first + rows) with all: out[rows][count].
  void Cosines(size_t first, size_t rows, float* out) const {
    std::fill(out, out + rows * count_, 0.0f);
    for (size_t d = 0; d < width_; ++d) {
      const float* column = values_.data() + d * count_;
      for (size_t r = 0; r < rows; ++r) {
        const float factor = column[first + r];
        float* to = out + r * count_;
        for (size_t j = 0; j < count_; ++j) to[j] += factor * column[j];
      }
    }
  }

 private:
  size_t count_;
  size_t width_;
  std::vector<float> values_;
};

void CompareVectors(const ResultRows& f32, const ResultRows& other, EmbeddingAccuracy* out) {
  out->cosine_min = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < f32.count(); ++i) {
    double dot = 0, a = 0, b = 0;
    for (size_t d = 0; d < f32.width; ++d) {
      const double x = f32.row(i)[d], y = other.row(i)[d];
      dot += x * y;
      a += x * x;
      b += y * y;
    }
    // Two vectors of length 0 are the same; NaN is below everything.
    const double cosine = a == 0 && b == 0 ? 1 : (a == 0 || b == 0 ? 0 : dot / std::sqrt(a * b));
    sum += cosine;
    if (cosine < out->cosine_min || (std::isnan(cosine) && !std::isnan(out->cosine_min))) {
      out->cosine_min = cosine;
      out->worst = i;
    }
  }
  out->cosine_mean = sum / static_cast<double>(f32.count());
}

void AddBeyond(const char* what, double value, double limit, bool holds, std::string* text) {
  if (holds) return;
  *text += fmt::format("{}{} {:.6g} (limit {:g})", text->empty() ? "" : ", ", what, value, limit);
}

void AddRanksBeyond(double spearman, double overlap, const AccuracyLimits& limits,
                    std::string* text) {
  AddBeyond("Spearman difference", spearman, limits.spearman_difference,
            spearman <= limits.spearman_difference, text);
  AddBeyond("top-10 overlap %", overlap, limits.top10_overlap_percent,
            overlap >= limits.top10_overlap_percent, text);
}

}  // namespace

double Spearman(std::span<const float> a, std::span<const float> b) {
  if (HasNan(a) || HasNan(b)) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = Ranks(a), y = Ranks(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 && yy == 0) return 1;
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

size_t TopOverlap(std::span<const float> a, std::span<const float> b, size_t k) {
  const std::vector<size_t> x = Top(a, k), y = Top(b, k);
  std::vector<size_t> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return both.size();
}

EmbeddingAccuracy CompareEmbeddings(const ResultRows& f32, const ResultRows& other) {
  EmbeddingAccuracy out;
  CompareVectors(f32, other, &out);
  const size_t n = f32.count();
  if (std::isnan(out.cosine_mean)) {  // ranks of NaN mean nothing
    out.spearman_difference = out.top10_overlap_percent = out.cosine_mean;
    return out;
  }
  const UnitColumns a(f32), b(other);
  const size_t k = std::min(kTop, n - 1);
  const size_t stride = (n + kPairTextsMax - 1) / kPairTextsMax;
  std::vector<float> pairs_a, pairs_b;
  std::vector<float> block_a(kBlockRows * n), block_b(kBlockRows * n);
  size_t shared = 0;
  for (size_t first = 0; first < n; first += kBlockRows) {
    const size_t rows = std::min(kBlockRows, n - first);
    a.Cosines(first, rows, block_a.data());
    b.Cosines(first, rows, block_b.data());
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = first + r;
      float* x = block_a.data() + r * n;
      float* y = block_b.data() + r * n;
      for (size_t j = 0; i % stride == 0 && j < i; j += stride) {
        pairs_a.push_back(x[j]);
        pairs_b.push_back(y[j]);
      }
      x[i] = y[i] = -std::numeric_limits<float>::infinity();  // not its own neighbour
      shared += TopOverlap({x, n}, {y, n}, k);
    }
  }
  out.spearman_difference = 1 - Spearman(pairs_a, pairs_b);
  out.top10_overlap_percent = 100 * static_cast<double>(shared) / static_cast<double>(n * k);
  return out;
}

ScoreAccuracy CompareScores(const ResultRows& f32, const ResultRows& other) {
  ScoreAccuracy out;
  const size_t lists = f32.count();
  const size_t k = std::max<size_t>(1, std::min(kTop, f32.width / 2));
  size_t shared = 0;
  for (size_t i = 0; i < lists; ++i) {
    for (size_t j = 0; j < f32.width; ++j) {
      const double difference = std::abs(double{f32.row(i)[j]} - other.row(i)[j]);
      out.difference_mean += difference;
      // The first NaN stays.
      if (!std::isnan(out.difference_max) && !(difference <= out.difference_max)) {
        out.difference_max = difference;
      }
    }
    out.spearman_difference += 1 - Spearman(f32.row(i), other.row(i));
    if (!HasNan(other.row(i))) shared += TopOverlap(f32.row(i), other.row(i), k);
  }
  out.difference_mean /= static_cast<double>(lists * f32.width);
  out.spearman_difference /= static_cast<double>(lists);
  out.top10_overlap_percent = 100 * static_cast<double>(shared) / static_cast<double>(lists * k);
  return out;
}

std::string EmbeddingAccuracy::Beyond(const AccuracyLimits& limits) const {
  std::string text;
  AddBeyond("cosine mean", cosine_mean, limits.cosine_mean, cosine_mean >= limits.cosine_mean,
            &text);
  AddBeyond("cosine min", cosine_min, limits.cosine_min, cosine_min >= limits.cosine_min, &text);
  AddRanksBeyond(spearman_difference, top10_overlap_percent, limits, &text);
  return text;
}

std::string ScoreAccuracy::Beyond(const AccuracyLimits& limits) const {
  std::string text;
  AddRanksBeyond(spearman_difference, top10_overlap_percent, limits, &text);
  return text;
}

}  // namespace penstock::checks
