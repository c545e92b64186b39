#include "doctor_threads.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::cli {
namespace {

using Counts = std::vector<int>;

Topology Machine(int cores, int threads) {
  Topology topology;
  for (int core = 0; core < cores; ++core) {
    topology.cores.push_back({std::vector<int>(static_cast<size_t>(threads), core), 0, 0});
  }
  return topology;
}

TEST(ThreadsToTry, PowersOfTwoTheCoresAndTheProcessors) {
  EXPECT_EQ(ThreadsToTry(1, {1, 1, 0, nullptr}, Machine(1, 1)), Counts{1});
  EXPECT_EQ(ThreadsToTry(6, {12, 12, 0, nullptr}, Machine(6, 2)), (Counts{1, 2, 4, 6, 12}));
  EXPECT_EQ(ThreadsToTry(3, {8, 8, 0, nullptr}, Machine(8, 1)), (Counts{1, 2, 3, 4, 8}));
  // Under a quota of 2 processors; 8 were asked for.
  EXPECT_EQ(ThreadsToTry(8, {8, 8, 2, "cpu.max"}, Machine(8, 1)), (Counts{1, 2, 8}));
}

TEST(BestThreads, IsTheFewestThatAreNearlyAsFast) {
  EXPECT_EQ(BestThreads({{1, 100, 9}, {2, 196, 9}, {4, 200, 1}}).threads, 2);
  EXPECT_EQ(BestThreads({{1, 100, 9}, {2, 190, 9}, {4, 200, 1}}).threads, 4);
  EXPECT_EQ(BestThreads({{1, 100, 9}, {2, 60, 9}}).threads, 1);
}

}  // namespace
}  // namespace penstock::cli
