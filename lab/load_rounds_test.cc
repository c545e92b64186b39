#include "lab/load_rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::lab {
namespace {

TEST(RobustMedian, OfKnownValues) {
  EXPECT_EQ(RobustMedian({}).median, 0);
  EXPECT_EQ(RobustMedian({3}).median, 3);
  EXPECT_EQ(RobustMedian({3}).error, 0);
  EXPECT_EQ(RobustMedian({9, 1, 5}).median, 5);
  EXPECT_EQ(RobustMedian({1, 2, 3, 1000}).median, 2.5);
}

TEST(RobustMedian, ItsIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(10, 2);
  int held = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(60);
    for (double& value : values) value = normal(random);
    const MedianOf found = RobustMedian(values);
    held += std::abs(found.median - 10) <= found.error;
  }
  EXPECT_GT(held, 0.92 * kTrials);
  EXPECT_LT(held, 0.98 * kTrials);
}

TEST(PercentLower, IsTheMedianOfThePairs) {
  EXPECT_NEAR(PercentLower({90, 99, 50}, {100, 100, 100}).median, 10, 1e-9);
  EXPECT_NEAR(PercentHigher({110, 101, 500}, {100, 100, 100}).median, 10, 1e-9);
}

}  // namespace
}  // namespace penstock::lab
