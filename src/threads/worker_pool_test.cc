#include "threads/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace penstock {
namespace {

using Turn = WorkerPool::Turn;
using Length = WorkerPool::Length;

TEST(WorkerPool, RunsEveryAcceptedTaskBeforeStopReturns) {
  std::atomic<int> ran{0};
  WorkerPool pool(3, 1000);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(pool.Submit([&] { return ++ran, Turn::kDone; }).ok());
  }
  pool.Stop();
  EXPECT_EQ(ran, 500);
  EXPECT_EQ(pool.Submit([] { return Turn::kDone; }).code(), StatusCode::kUnavailable);
}

TEST(WorkerPool, QueueIsBounded) {
  std::promise<void> gate;
  std::promise<void> started;
  WorkerPool pool(1, 2);
  ASSERT_TRUE(pool.Submit([&] {
                    started.set_value();
                    gate.get_future().wait();
                    return Turn::kDone;
                  })
                  .ok());
  started.get_future().wait();
  EXPECT_TRUE(pool.Submit([] { return Turn::kDone; }).ok());
  EXPECT_TRUE(pool.Submit([] { return Turn::kDone; }).ok());
  const Status full = pool.Submit([] { return Turn::kDone; });
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
  ASSERT_TRUE(pool.Submit([&] {
                    return one_runs.set_value(pool.HasIdleThread()), open.wait(), Turn::kDone;
                  })
                  .ok());
  EXPECT_TRUE(one_runs.get_future().get());
  ASSERT_TRUE(
      pool.Submit([&] { return two_run.set_value(pool.HasIdleThread()), open.wait(), Turn::kDone; })
          .ok());
  EXPECT_FALSE(two_run.get_future().get());
  gate.set_value();
}

TEST(WorkerPool, ARepeatingTaskTakesTurns) {
  std::string order;  // one thread: no race
  std::promise<void> gate;
  WorkerPool pool(1, 10);
  ASSERT_TRUE(pool.Submit([&] { return gate.get_future().wait(), Turn::kDone; }).ok());
  ASSERT_TRUE(pool.Submit([&, n = 0]() mutable {
                    return order += 'a', ++n < 3 ? Turn::kAgain : Turn::kDone;
                  })
                  .ok());
  ASSERT_TRUE(pool.Submit([&] { return order += 'b', Turn::kDone; }).ok());
  gate.set_value();
  pool.Stop();
  EXPECT_EQ(order, "abaa");
}

// Blocks a thread of the pool until it is opened.
struct Gate {
  std::promise<void> opened, entered;
  Turn Pass() {
    entered.set_value();
    opened.get_future().wait();
    return Turn::kDone;
  }
};

TEST(WorkerPool, InteractiveGoesFirstAndBulkGetsOneTurnInEight) {
  std::string order;  // one thread: no race
  Gate gate;
  WorkerPool pool(1, 100);
  ASSERT_TRUE(pool.Submit([&] { return gate.Pass(); }).ok());
  gate.entered.get_future().wait();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.Submit([&] { return order += 'b', Turn::kDone; }, Priority::kBulk).ok());
  }
  ASSERT_TRUE(pool.Submit([&, n = 0]() mutable {
                    return order += 'i', ++n < 18 ? Turn::kAgain : Turn::kDone;
                  })
                  .ok());
  gate.opened.set_value();
  pool.Stop();
  EXPECT_EQ(order, "iiiiiiibiiiiiiibiiiib");
}

TEST(WorkerPool, LongTurnsRunOnThreadsOfTheirOwn) {
  Gate first;
  std::atomic<bool> second_ran{false};
  std::promise<void> short_ran;
  WorkerPool pool(2, 100);
  ASSERT_TRUE(
      pool.Submit([&] { return first.Pass(); }, Priority::kInteractive, Length::kLong).ok());
  first.entered.get_future().wait();
  ASSERT_TRUE(pool.Submit([&] { return second_ran = true, Turn::kDone; }, Priority::kInteractive,
                          Length::kLong)
                  .ok());
  ASSERT_TRUE(
      pool.Submit([&] { return short_ran.set_value(), Turn::kDone; }, Priority::kBulk).ok());
  short_ran.get_future().wait();
  EXPECT_FALSE(second_ran);
  first.opened.set_value();
  pool.Stop();
  EXPECT_TRUE(second_ran);
}

TEST(WorkerPool, AnExceptionEndsItsTaskOnly) {
  std::atomic<int> ran{0};
  WorkerPool pool(2, 100);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pool.Submit([&, i]() -> Turn {
                      if (i % 2 == 0) throw std::bad_alloc();
                      return ++ran, Turn::kDone;
                    })
                    .ok());
  }
  pool.Stop();
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(pool.load()->running_tasks, 0);
}

TEST(WorkerPool, AFurtherStepIsNotRefusedByAFullQueue) {
  std::atomic<bool> ran{false};
  Gate gate;
  WorkerPool pool(1, 0);
  EXPECT_EQ(pool.Submit([] { return Turn::kDone; }).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(pool.SubmitAdmitted([&] { return gate.Pass(); }, Priority::kBulk, Length::kShort));
  gate.entered.get_future().wait();
  ASSERT_TRUE(
      pool.SubmitAdmitted([&] { return ran = true, Turn::kDone; }, Priority::kBulk, Length::kLong));
  gate.opened.set_value();
  pool.Stop();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(pool.SubmitAdmitted([] { return Turn::kDone; }, Priority::kBulk, Length::kShort));
}

}  // namespace
}  // namespace penstock
