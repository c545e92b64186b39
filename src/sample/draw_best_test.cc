#include "sample/draw_best.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

namespace penstock::sample {
namespace {

TEST(DrawBest, ExpNegativeIsExp) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const double d = std::ldexp(static_cast<double>(random() >> 11), -53) * (i % 2 == 0 ? 2 : 708);
    const double want = std::exp(-d);
    ASSERT_NEAR(ExpNegative(d) / want, 1, 2e-15) << d;
  }
  EXPECT_EQ(ExpNegative(0), 1);
  EXPECT_EQ(ExpNegative(708), 0);
  EXPECT_EQ(ExpNegative(std::numeric_limits<double>::infinity()), 0);
}

// Shares of a draw with a temperature, top-p and min-p, worked out by hand.
TEST(DrawBest, FollowsItsRule) {
  const std::array<float, 4> logits = {std::log(8.0F), std::log(4.0F), std::log(2.0F), 0};
  std::array<double, 4> weights{};
  const auto at = [&](double uniform, float temperature, float top_p, float min_p) {
    const DrawRule rule = {uniform, temperature, top_p, min_p, 4};
    return DrawBest(rule, 4, weights.data(),
                    [&](int32_t i) { return logits[static_cast<size_t>(i)]; });
  };
  EXPECT_EQ(at(0.99, 0, 1, 0), 0);
  EXPECT_EQ(at(0.53, 1, 1, 0), 0);  // shares 8, 4, 2, 1 of 15
  EXPECT_EQ(at(0.54, 1, 1, 0), 1);
  EXPECT_EQ(at(0.94, 1, 1, 0), 3);
  EXPECT_EQ(at(0.99, 1, 0.6F, 0), 1);  // the first two reach 0.6
  EXPECT_EQ(at(0.99, 1, 1, 0.2F), 2);  // a quarter of the first's share, not an eighth
  EXPECT_EQ(at(0.75, 0.5F, 1, 0), 0);  // shares 64, 16, 4, 1 of 85
  EXPECT_EQ(at(0.76, 0.5F, 1, 0), 1);
}

}  // namespace
}  // namespace penstock::sample
