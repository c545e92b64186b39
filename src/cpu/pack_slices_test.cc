#include "cpu/pack_slices.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock::cpu {
namespace {

using std::chrono::nanoseconds;

struct Cut {
  std::vector<size_t> items;
  nanoseconds longest{0};
  nanoseconds total{0};
};

// Items that take `each_ns(index)`, on a clock of the test's own.
template <typename Each>
Cut CutUp(size_t count, size_t first, Each each_ns) {
  Cut cut;
  size_t next = 0;
  RunInSlices(count, first, [&](size_t begin, size_t end) {
    EXPECT_EQ(begin, next);
    next = end;
    nanoseconds took{0};
    for (size_t i = begin; i < end; ++i) took += nanoseconds(each_ns(i));
    cut.items.push_back(end - begin);
    cut.longest = std::max(cut.longest, took);
    cut.total += took;
    return took;
  });
  EXPECT_EQ(next, count);
  return cut;
}

TEST(PackSlices, NoSliceIsLongerThanTheLimit) {
  for (const int64_t each : {20, 2'000, 200'000, 4'000'000}) {
    const Cut steady = CutUp(20'000, 1, [&](size_t) { return each; });
    EXPECT_LE(steady.longest, SliceRule::kLimit) << each;
    // Half as fast at times, as beside another process.
    std::mt19937 random(7);
    const Cut noisy = CutUp(20'000, 1, [&](size_t) { return each * (random() % 8 == 0 ? 2 : 1); });
    EXPECT_LE(noisy.longest, SliceRule::kLimit) << each;
    const Cut slower = CutUp(20'000, 1, [&](size_t i) { return i < 10'000 ? each : 2 * each; });
    EXPECT_LE(slower.longest, SliceRule::kLimit) << each;
  }
}

TEST(PackSlices, SlicesAreNotMuchShorterEither) {
  const Cut cut = CutUp(100'000, 1, [](size_t) { return 10'000; });
  EXPECT_GE(cut.total / cut.items.size(), SliceRule::kAim / 2);
}

TEST(PackSlices, WhatTakesLongerThanTheLimitByItselfGoesAlone) {
  const Cut cut = CutUp(10, 4, [](size_t) { return 50'000'000; });
  EXPECT_EQ(cut.items, (std::vector<size_t>{4, 1, 1, 1, 1, 1, 1}));
}

TEST(PackSlices, NothingIsNoSlice) {
  EXPECT_TRUE(CutUp(0, 1, [](size_t) { return 1; }).items.empty());
}

}  // namespace
}  // namespace penstock::cpu
