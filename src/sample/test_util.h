// For tests of this module: a chi-square test, and sampling written plainly, in
// double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "sample/sampling_options.h"
#include "sample/test_logits.h"

namespace penstock::sample {

// Pearson's chi-square test at a level of 1e-4. Outcomes expected less than 5 times are joined;
// one of probability 0 may not occur at all.
inline ::testing::AssertionResult FollowsDistribution(std::span<const uint64_t> counts,
                                                      std::span<const double> probabilities) {
  const auto draws =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  double statistic = 0, rest_expected = 0, rest_count = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected == 0 && counts[i] > 0) {
      return ::testing::AssertionFailure() << "outcome " << i << " is impossible";
    }
    if (expected >= 5) {
      add(static_cast<double>(counts[i]), expected);
    } else {
      rest_expected += expected;
      rest_count += static_cast<double>(counts[i]);
    }
  }
  if (rest_expected > 0) add(rest_count, std::max(rest_expected, 1.0));
  if (cells < 2) return ::testing::AssertionSuccess();
  // The quantile by Wilson and Hilferty's approximation.
  const double freedom = cells - 1, spread = 2 / (9 * freedom);
  const double limit = freedom * std::pow(1 - spread + 3.719 * std::sqrt(spread), 3);
  if (statistic <= limit) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "chi-square " << statistic << " over the limit " << limit
                                       << " of " << freedom << " degrees of freedom";
}

struct PlainTokens {
  std::vector<int32_t> prompt, generated;
};

struct PlainDistribution {
  std::vector<double> probabilities;  // of each id; 0: not kept
  std::vector<int32_t> order;         // kept ids, most probable first
  bool close = false;  // a cut was so close that a float may see it on the other side
};

// Steps 1 and 2.
inline std::vector<double> PlainLogits(std::span<const float> logits, const SamplingOptions& o,
                                       const PlainTokens& tokens) {
  std::vector<double> x(logits.begin(), logits.end());
  std::vector<int32_t> all = tokens.prompt;
  all.insert(all.end(), tokens.generated.begin(), tokens.generated.end());
  if (o.repetition_window >= 0 && all.size() > static_cast<size_t>(o.repetition_window)) {
    all.erase(all.begin(), all.end() - o.repetition_window);
  }
  for (const int32_t id : std::set<int32_t>(all.begin(), all.end())) {
    double& v = x[static_cast<size_t>(id)];
    const auto penalty = static_cast<double>(o.repetition_penalty);
    v = v > 0 ? v / penalty : v * penalty;
  }
  for (const int32_t id : tokens.generated) {
    x[static_cast<size_t>(id)] -= static_cast<double>(o.frequency_penalty);
  }
  for (const int32_t id : std::set<int32_t>(tokens.generated.begin(), tokens.generated.end())) {
    x[static_cast<size_t>(id)] -= static_cast<double>(o.presence_penalty);
  }
  for (const LogitBias& entry : o.logit_bias) {
    x[static_cast<size_t>(entry.id)] += static_cast<double>(entry.bias);
  }
  return x;
}

// Steps 1 to 6.
inline PlainDistribution Plain(std::span<const float> logits, const SamplingOptions& o,
                               const PlainTokens& tokens = {}) {
  constexpr double kClose = 1e-5;
  const std::vector<double> x = PlainLogits(logits, o, tokens);
  PlainDistribution out;
  std::vector<int32_t>& order = out.order;
  order.resize(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int32_t id) { return x[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(a) > at(b); });
  size_t kept = order.size();
  if (o.greedy()) kept = 1;
  if (o.top_k > 0) kept = std::min(kept, static_cast<size_t>(o.top_k));
  if (kept < order.size()) {
    const double gap = at(order[kept - 1]) - at(order[kept]);
    out.close |= gap > 0 && gap < kClose;
  }
  std::vector<double> weights(kept);
  for (size_t i = 0; i < kept; ++i) {
    const double scale = o.greedy() ? 1 : static_cast<double>(o.temperature);
    weights[i] = std::exp((at(order[i]) - at(order[0])) / scale);
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (o.top_p < 1) {
    double sum = 0;
    size_t n = 0;
    while (n < kept && (n == 0 || sum < static_cast<double>(o.top_p) * total)) {
      sum += weights[n++];
      out.close |= std::abs(sum / total - static_cast<double>(o.top_p)) < kClose;
    }
    kept = n;
  }
  for (size_t i = 1; i < kept; ++i) {
    out.close |= o.min_p > 0 && weights[i] != 1 &&
                 std::abs(weights[i] / static_cast<double>(o.min_p) - 1) < kClose;
  }
  while (kept > 1 && weights[kept - 1] < static_cast<double>(o.min_p)) --kept;
  const double sum =
      std::accumulate(weights.begin(), weights.begin() + static_cast<ptrdiff_t>(kept), 0.0);
  out.probabilities.assign(x.size(), 0);
  for (size_t i = 0; i < kept; ++i) {
    out.probabilities[static_cast<size_t>(order[i])] = weights[i] / sum;
  }
  order.resize(kept);
  return out;
}

// Whether `uniform` draws `id` where tokens are laid end to end: the most probable first, or by id.
inline ::testing::AssertionResult Draws(const PlainDistribution& plain, bool by_id, double uniform,
                                        int32_t id) {
  constexpr double kTolerance = 2e-6;
  std::vector<int32_t> order = plain.order;
  if (by_id) std::sort(order.begin(), order.end());
  double before = 0;
  for (const int32_t candidate : order) {
    const double p = plain.probabilities[static_cast<size_t>(candidate)];
    if (candidate == id) {
      if (uniform >= before - kTolerance && uniform <= before + p + kTolerance) {
        return ::testing::AssertionSuccess();
      }
      return ::testing::AssertionFailure()
             << "token " << id << " has [" << before << ", " << before + p << "), not " << uniform;
    }
    before += p;
  }
  return ::testing::AssertionFailure() << "token " << id << " is not kept";
}

}  // namespace penstock::sample
