#include "checks/next_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "checks/decoder_text.h"

namespace penstock::checks {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenDistribution Of(const std::vector<float>& logits) {
  TokenDistribution distribution;
  distribution.Set(logits);
  return distribution;
}
// From probabilities, up to the rounding of their logarithms to float.
TokenDistribution OfProbabilities(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return Of(logits);
}

TEST(TokenDistribution, AddsUpToOneWhateverTheSizeOfItsLogits) {
  for (const float shift : {0.0f, 3000.0f, -3000.0f}) {
    const TokenDistribution one = Of({shift, shift + 1, shift + 3, shift - 2});
    double sum = 0;
    for (const double x : one.logprobs()) sum += std::exp(x);
    EXPECT_NEAR(sum, 1, 1e-12) << shift;
    EXPECT_NEAR(one.logprobs()[2] - one.logprobs()[3], 5, 1e-9) << shift;
    EXPECT_EQ(one.best(), 2u);
  }
  EXPECT_EQ(Of({1, 7, 7}).best(), 1u);
  EXPECT_NEAR(Of(std::vector<float>(100'000, 5)).logprobs()[7], -std::log(1e5), 1e-9);
}

TEST(TokenDistribution, AnExcludedIdHasNoProbabilityAndNanSpoilsAll) {
  const TokenDistribution excluded = Of({0, -kInfinity, 0});
  EXPECT_NEAR(excluded.logprobs()[0], -std::log(2), 1e-12);
  EXPECT_EQ(excluded.logprobs()[1], -kInfinity);
  for (const std::vector<float>& logits :
       {std::vector<float>{NAN, 1, 2}, {1, 2, NAN}, {1, kInfinity, 2}, {-kInfinity, -kInfinity}}) {
    const TokenDistribution spoilt = Of(logits);
    for (const double x : spoilt.logprobs()) EXPECT_TRUE(std::isnan(x)) << x;
  }
}

TEST(KlDivergence, ByHand) {
  const TokenDistribution half = OfProbabilities({0.5, 0.5});
  const TokenDistribution quarter = OfProbabilities({0.25, 0.75});
  EXPECT_NEAR(KlDivergence(half, quarter), 0.5 * std::log(2) + 0.5 * std::log(2.0 / 3), 1e-7);
  EXPECT_NEAR(KlDivergence(quarter, half), 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  EXPECT_EQ(KlDivergence(half, half), 0);
  // A shift of all logits makes no difference, nor does what neither side can choose.
  EXPECT_NEAR(KlDivergence(Of({1, 2, 3}), Of({101, 102, 103})), 0, 1e-12);
  EXPECT_NEAR(KlDivergence(Of({1, 2, -kInfinity}), Of({1, 2, -kInfinity})), 0, 1e-12);
  // Half of the other's probability is on what `wanted` excludes: ln 2.
  EXPECT_NEAR(KlDivergence(Of({0, -kInfinity}), Of({0, 0})), std::log(2), 1e-12);
  EXPECT_EQ(KlDivergence(Of({0, 0}), Of({0, -kInfinity})), double{kInfinity});
}

TEST(KlDivergence, NanOnEitherSideIsNan) {
  const TokenDistribution good = Of({1, 2, 3}), bad = Of({1, NAN, 3});
  EXPECT_TRUE(std::isnan(KlDivergence(good, bad)));
  EXPECT_TRUE(std::isnan(KlDivergence(bad, good)));
  EXPECT_TRUE(std::isnan(KlDivergence(Of({-kInfinity, 1, -kInfinity}), bad)));
}

// Small differences must not drown in rounding: KL is about half the variance of the difference.
TEST(KlDivergence, OfSmallDifferencesOverALargeVocabulary) {
  std::vector<float> logits(50'000), moved(50'000);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i % 2);
    moved[i] = logits[i] + (i % 4 < 2 ? 0.0078125f : -0.0078125f);
  }
  EXPECT_NEAR(KlDivergence(Of(logits), Of(moved)) / (0.0078125 * 0.0078125 / 2), 1, 1e-3);
}

TEST(NextTokenComparison, ByHand) {
  const TokenDistribution a = OfProbabilities({0.5, 0.25, 0.25});
  const TokenDistribution b = OfProbabilities({0.25, 0.5, 0.25});
  NextTokenComparison comparison;
  comparison.Add(a, a, 0);  // the same: probability 1/2 on both sides
  comparison.Add(a, b, 0);  // 1/2, and 1/4
  const NextTokenAccuracy accuracy = comparison.Result();
  EXPECT_EQ(accuracy.tokens, 2u);
  const double kl = 0.25 * std::log(2);
  EXPECT_NEAR(accuracy.kl_mean, kl / 2, 1e-7);
  EXPECT_NEAR(accuracy.kl_max, kl, 1e-7);
  EXPECT_DOUBLE_EQ(accuracy.agreement_percent, 50);
  EXPECT_NEAR(accuracy.perplexity_f32, 2, 1e-6);
  EXPECT_NEAR(accuracy.perplexity, std::sqrt(8), 1e-6);
  EXPECT_NEAR(accuracy.perplexity_difference_percent(), 100 * (std::sqrt(2) - 1), 1e-4);
  EXPECT_TRUE(accuracy.finite());
  EXPECT_EQ(accuracy.Beyond(0.1), "");
  EXPECT_EQ(accuracy.Beyond(kKlMeanMax), "mean KL 0.086643 (limit 0.002)");
}

TEST(NextTokenComparison, OneNanIsBeyondEveryLimit) {
  const TokenDistribution good = Of({1, 2, 3});
  NextTokenComparison comparison;
  comparison.Add(good, Of({NAN, 2, 3}), 1);
  comparison.Add(good, good, 2);
  const NextTokenAccuracy accuracy = comparison.Result();
  EXPECT_FALSE(accuracy.finite());
  EXPECT_TRUE(std::isnan(accuracy.kl_max));
  EXPECT_THAT(accuracy.Beyond(1e9), testing::HasSubstr("mean KL nan"));
}

TEST(NextTokenComparison, ExcludingWhatFollowsIsNotFinite) {
  NextTokenComparison comparison;
  comparison.Add(Of({1, 2}), Of({1, -kInfinity}), 1);
  EXPECT_FALSE(comparison.Result().finite());
  EXPECT_NE(comparison.Result().Beyond(1e9), "");
}

// English has 3.5 to 4.5 bytes a token.
TEST(DecoderText, IsLongAndVaried) {
  const std::string_view text = DecoderText();
  EXPECT_GT(text.size(), 2300u);
  EXPECT_LT(text.size(), 3200u);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << int{c};
  for (const char* part : {"\n- ", "\n1. ", "def ", "    return", "3.14", "\"", "?", "2024"}) {
    EXPECT_THAT(std::string(text), testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace penstock::checks
