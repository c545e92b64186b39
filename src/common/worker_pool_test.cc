#include "common/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace penstock {
namespace {

TEST(WorkerPool, RunsEveryAcceptedTaskBeforeStopReturns) {
  std::atomic<int> ran{0};
  WorkerPool pool(3, 1000);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(pool.Submit([&] { return ++ran, false; }).ok());
  }
  pool.Stop();
  EXPECT_EQ(ran, 500);
  EXPECT_EQ(pool.Submit([] { return false; }).code(), StatusCode::kUnavailable);
}

TEST(WorkerPool, QueueIsBounded) {
  std::promise<void> gate;
  std::promise<void> started;
  WorkerPool pool(1, 2);
  ASSERT_TRUE(pool.Submit([&] {
                    started.set_value();
                    gate.get_future().wait();
                    return false;
                  })
                  .ok());
  started.get_future().wait();
  EXPECT_TRUE(pool.Submit([] { return false; }).ok());
  EXPECT_TRUE(pool.Submit([] { return false; }).ok());
  const Status full = pool.Submit([] { return false; });
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(full.retry_after_s(), 1);
  gate.set_value();
}

TEST(WorkerPool, KnowsWhetherAThreadIsIdle) {
  std::promise<bool> one_runs, two_run;  // outlive the pool, whose tasks use them
  std::promise<void> gate;
  std::shared_future<void> open(gate.get_future());
  WorkerPool pool(2, 10);
  EXPECT_TRUE(pool.HasIdleThread());
  ASSERT_TRUE(
      pool.Submit([&] { return one_runs.set_value(pool.HasIdleThread()), open.wait(), false; })
          .ok());
  EXPECT_TRUE(one_runs.get_future().get());
  ASSERT_TRUE(
      pool.Submit([&] { return two_run.set_value(pool.HasIdleThread()), open.wait(), false; })
          .ok());
  EXPECT_FALSE(two_run.get_future().get());
  gate.set_value();
}

TEST(WorkerPool, ARepeatingTaskTakesTurns) {
  std::string order;  // one thread: no race
  std::promise<void> gate;
  WorkerPool pool(1, 10);
  ASSERT_TRUE(pool.Submit([&] { return gate.get_future().wait(), false; }).ok());
  ASSERT_TRUE(pool.Submit([&, n = 0]() mutable { return order += 'a', ++n < 3; }).ok());
  ASSERT_TRUE(pool.Submit([&] { return order += 'b', false; }).ok());
  gate.set_value();
  pool.Stop();
  EXPECT_EQ(order, "abaa");
}

}  // namespace
}  // namespace penstock
