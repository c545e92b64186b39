#include "load/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace penstock::load {
namespace {

TEST(LatencyHistogramTest, PercentilesAreWithinHalfAPercent) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(1, 2);
  LatencyHistogram histogram;
  LatencyHistogram halves[2];
  std::vector<double> exact;
  for (int i = 0; i < 100'000; ++i) {
    const double ms = times(random);
    exact.push_back(ms);
    histogram.Add(ms);
    halves[i % 2].Add(ms);
  }
  halves[0].Merge(halves[1]);
  std::sort(exact.begin(), exact.end());
  for (const double share : {0.01, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    const double expected = exact[static_cast<size_t>(std::ceil(share * 100'000)) - 1];
    EXPECT_NEAR(histogram.PercentileMs(share), expected, 0.0051 * expected) << share;
    EXPECT_EQ(halves[0].PercentileMs(share), histogram.PercentileMs(share));
  }
  EXPECT_EQ(histogram.PercentileMs(1), exact.back());
  EXPECT_EQ(histogram.max_ms(), exact.back());
  EXPECT_EQ(histogram.count(), 100'000u);
}

TEST(LatencyHistogramTest, TakesAnyTime) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.PercentileMs(0.99), 0);
  EXPECT_EQ(histogram.mean_ms(), 0);
  histogram.Add(0);
  EXPECT_EQ(histogram.PercentileMs(0.5), 0);
  histogram.Add(1e12);
  EXPECT_EQ(histogram.PercentileMs(1), 1e12);
}

}  // namespace
}  // namespace penstock::load
