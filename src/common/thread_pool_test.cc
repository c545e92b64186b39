#include "common/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace penstock {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  ThreadPool pool(4, /*pin=*/false);
  for (size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{100}, size_t{5000},
                       (size_t{2} << 20) + 3}) {
    std::vector<std::atomic<uint8_t>> hits(count);
    pool.ParallelFor(count, [&](size_t i, size_t thread) {
      ASSERT_LT(thread, pool.threads());
      hits[i].fetch_add(1);
    });
    for (auto& hit : hits) ASSERT_EQ(hit.load(), 1);
  }
}

TEST(ThreadPool, ManyLoopsInARowSeeEachOthersWrites) {
  ThreadPool pool(3, /*pin=*/false);
  std::vector<int> values(64, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.ParallelFor(values.size(), [&](size_t i, size_t) { values[i] += 1; });
  }
  for (int value : values) EXPECT_EQ(value, 5000);
}

TEST(ThreadPool, WakesAfterSleep) {
  ThreadPool pool(2, /*pin=*/false);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    pool.ParallelFor(10, [&](size_t i, size_t) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum.load(), 45);
  }
}

TEST(ThreadPool, SeveralCallers) {
  ThreadPool pool(3, /*pin=*/false);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        pool.ParallelFor(7, [&](size_t, size_t) { total += 1; });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 500 * 7);
}

}  // namespace
}  // namespace penstock
