#include "lab/thread_scaling.h"

#include <gtest/gtest.h>

namespace penstock::lab {
namespace {

const StepCosts kCosts = {1e9, 2e10, 1e-7, 101};

TEST(ThreadScaling, OneThreadMeetsNobodyAndReadsAtItsRate) {
  EXPECT_EQ(FlatMeetingS({}, kCosts, 1), 0);
  EXPECT_EQ(TreeMeetingS({}, kCosts, 1), 0);
  EXPECT_DOUBLE_EQ(StepS({}, kCosts, 1, true), 0.05);
}

TEST(ThreadScaling, WithinAnL3CacheTheTreeIsTheFlatBarrier) {
  for (size_t threads = 2; threads <= 8; ++threads) {
    EXPECT_DOUBLE_EQ(TreeMeetingS({}, kCosts, threads), FlatMeetingS({}, kCosts, threads));
  }
  EXPECT_DOUBLE_EQ(TreeMeetingS({}, kCosts, 8), 14e-7);
}

TEST(ThreadScaling, OverSeveralTheTreeHasFewFarWays) {
  // 7 near ways and 7 far ones, there and back; the flat one has 63, of which 7 in 8 are far.
  EXPECT_DOUBLE_EQ(TreeMeetingS({}, kCosts, 64), 2 * (7 + 7 * kFarL3) * 1e-7);
  EXPECT_DOUBLE_EQ(FlatMeetingS({}, kCosts, 64), 2 * 63 * (0.125 + 0.875 * kFarL3) * 1e-7);
  EXPECT_DOUBLE_EQ(TreeMeetingS({}, kCosts, 128), 2 * (7 + 15 * kFarSocket) * 1e-7);
}

TEST(ThreadScaling, BandwidthEndsAtThatOfTheSocketsInUse) {
  const ImaginedMachine machine = {128, 8, 64, 3e11};
  const StepCosts no_meetings = {1e9, 2e10, 1e-7, 0};
  EXPECT_DOUBLE_EQ(StepS(machine, no_meetings, 8, true), 1e9 / 1.6e11);
  EXPECT_DOUBLE_EQ(StepS(machine, no_meetings, 64, true), 1e9 / 3e11);
  EXPECT_DOUBLE_EQ(StepS(machine, no_meetings, 128, true), 1e9 / 6e11);
}

}  // namespace
}  // namespace penstock::lab
