#include "cpu/step_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>

namespace penstock::cpu {
namespace {

using Cost = std::function<double(size_t threads)>;

// Does `steps` steps of `rows` rows; returns the time of all of them.
double DoSteps(StepThreads* threads, size_t steps, const Cost& cost, size_t rows = 1) {
  double whole = 0;
  for (size_t step = 0; step < steps; ++step) {
    const double seconds = cost(threads->Next(rows));
    whole += seconds;
    threads->Took(rows, seconds);
  }
  return whole;
}

// Bandwidth is used up by `enough` threads; each thread makes the meetings longer.
Cost BoundBy(size_t enough) {
  return [enough](size_t threads) {
    return 1.0 / static_cast<double>(std::min(threads, enough)) +
           0.001 * static_cast<double>(threads);
  };
}

TEST(StepThreads, FewThreadsAreAllUsed) {
  for (size_t most = 1; most <= 4; ++most) {
    StepThreads threads(most);
    std::set<size_t> used;
    DoSteps(&threads, 500, [&](size_t count) {
      used.insert(count);
      return 1.0 / static_cast<double>(count);
    });
    EXPECT_EQ(used, std::set<size_t>{most});
  }
}

TEST(StepThreads, FindsTheCountThatUsesUpTheBandwidth) {
  StepThreads threads(64);
  DoSteps(&threads, 1000, BoundBy(12));
  EXPECT_EQ(threads.InUse(1), 12u);
  StepThreads all(64);
  DoSteps(&all, 1000, [](size_t count) { return 1.0 / static_cast<double>(count); });
  EXPECT_EQ(all.InUse(1), 64u);
}

TEST(StepThreads, TrialsCostLittleWhereAllThreadsAreBest) {
  StepThreads threads(16);
  const Cost cost = [](size_t count) { return 1.0 / static_cast<double>(count); };
  EXPECT_LT(DoSteps(&threads, 1000, cost), 1.03 * 1000 * cost(16));
  // Later they are rarer.
  EXPECT_LT(DoSteps(&threads, 4000, cost), 1.005 * 4000 * cost(16));
}

TEST(StepThreads, ComesBackWhenTheMachineDoes) {
  StepThreads threads(32);
  DoSteps(&threads, 600, BoundBy(8));
  EXPECT_LE(threads.InUse(1), 16u);
  DoSteps(&threads, 3000, BoundBy(32));
  EXPECT_EQ(threads.InUse(1), 32u);
}

TEST(StepThreads, NoiseAloneChangesNothing) {
  StepThreads threads(8);
  uint32_t random = 1;
  DoSteps(&threads, 5000, [&](size_t count) {
    random = random * 1664525 + 1013904223;
    // Now and then a step takes up to three times as long.
    const double noise = random >> 29 == 0 ? 1 + (random >> 8 & 0xff) / 128.0 : 1;
    return noise / static_cast<double>(count);
  });
  EXPECT_EQ(threads.InUse(1), 8u);
}

TEST(StepThreads, EachNumberOfRowsHasItsOwnAndManyRowsUseAll) {
  StepThreads threads(16);
  const Cost slower = [](size_t count) { return 10.0 + static_cast<double>(count); };
  DoSteps(&threads, 1000, slower, 2);
  EXPECT_LT(threads.InUse(2), 16u);
  EXPECT_EQ(threads.InUse(1), 16u);
  DoSteps(&threads, 1000, slower, 200);
  EXPECT_EQ(threads.Next(200), 16u);
}

}  // namespace
}  // namespace penstock::cpu
