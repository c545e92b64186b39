#include "cpu/step_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::cpu {
namespace {

std::vector<uint32_t> BoundsOf(const StepShares& shares, size_t active, bool many_rows = false) {
  std::vector<uint32_t> bounds;
  shares.Fill(many_rows, active, &bounds);
  return bounds;
}

// Steps of workers with these speeds.
void DoSteps(StepShares* shares, int steps, const std::vector<double>& speeds,
             bool many_rows = false) {
  for (int step = 0; step < steps; ++step) {
    const std::vector<uint32_t> bounds = BoundsOf(*shares, speeds.size(), many_rows);
    std::vector<double> seconds;
    for (size_t i = 0; i < speeds.size(); ++i) {
      seconds.push_back((bounds[i + 1] - bounds[i]) / speeds[i]);
    }
    shares->Took(many_rows, bounds, seconds);
  }
}

TEST(StepShares, AreEvenAtFirst) {
  const StepShares shares(4);
  EXPECT_EQ(BoundsOf(shares, 4), (std::vector<uint32_t>{0, 16384, 32768, 49152, 65536}));
  EXPECT_EQ(BoundsOf(shares, 2), (std::vector<uint32_t>{0, 32768, 65536}));
  EXPECT_EQ(BoundsOf(shares, 1), (std::vector<uint32_t>{0, 65536}));
}

TEST(StepShares, FollowTheSpeeds) {
  StepShares shares(4);
  DoSteps(&shares, 100, {2, 2, 1, 1});  // two fast cores, two slow ones
  const std::vector<uint32_t> bounds = BoundsOf(shares, 4);
  EXPECT_NEAR(bounds[1], StepShares::kWhole / 3, 50);
  EXPECT_NEAR(bounds[2], StepShares::kWhole * 2 / 3, 50);
  // Other speeds are kept for many rows.
  EXPECT_EQ(BoundsOf(shares, 4, true)[1], 16384u);
  DoSteps(&shares, 100, {1, 1, 1, 1});
  EXPECT_NEAR(BoundsOf(shares, 4)[1], 16384, 50);
}

TEST(StepShares, SpeedsThatAreAlikeGiveEvenShares) {
  StepShares shares(4);
  DoSteps(&shares, 100, {1, 1.02, 0.995, 1});
  EXPECT_EQ(BoundsOf(shares, 4), (std::vector<uint32_t>{0, 16384, 32768, 49152, 65536}));
}

// Two fast cores and two slow ones: steps of the fast ones alone do not make them seem slower.
TEST(StepShares, SpeedsStayComparableWhereSomeWorkersHaveNoPart) {
  StepShares shares(4);
  DoSteps(&shares, 100, {2, 2, 1, 1});
  const std::vector<uint32_t> before = BoundsOf(shares, 4);
  DoSteps(&shares, 500, {2, 2});
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(BoundsOf(shares, 4)[i], before[i], 20);
}

TEST(StepShares, OneSlowStepChangesLittle) {
  StepShares shares(2);
  const std::vector<uint32_t> bounds = BoundsOf(shares, 2);
  shares.Took(false, bounds, std::vector<double>{1, 100});
  EXPECT_LT(BoundsOf(shares, 2)[1], StepShares::kWhole * 0.55);
}

TEST(StepShares, NoWorkerIsLeftWithoutAShare) {
  StepShares shares(2);
  DoSteps(&shares, 1000, {1000, 1});
  EXPECT_GT(BoundsOf(shares, 2)[1], BoundsOf(shares, 2)[0]);
  EXPECT_LT(BoundsOf(shares, 2)[1], StepShares::kWhole * 0.95);
  // Times that a clock without progress gives are left out.
  const std::vector<uint32_t> before = BoundsOf(shares, 2);
  shares.Took(false, before, std::vector<double>{0, 0});
  EXPECT_EQ(BoundsOf(shares, 2), before);
}

TEST(StepShares, EveryEighthStepOfFewRowsIsTimed) {
  StepShares shares(2);
  int timed = 0;
  for (int step = 0; step < 80; ++step) timed += shares.TimeNext(false) ? 1 : 0;
  EXPECT_EQ(timed, 10);
  EXPECT_TRUE(shares.TimeNext(true));
}

}  // namespace
}  // namespace penstock::cpu
