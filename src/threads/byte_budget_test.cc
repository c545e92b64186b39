#include "threads/byte_budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/eventually_test_util.h"

namespace penstock {
namespace {

TEST(ByteBudget, BulkFillsThreeQuartersAndInteractiveTheRest) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  RequestMemory bulk(budget, Priority::kBulk), person(budget, Priority::kInteractive);
  EXPECT_TRUE(bulk.Take(750).ok());
  const Status full = bulk.Take(1);
  EXPECT_EQ(full.code(), StatusCode::kPayloadTooLarge);  // alone it is over what bulk may take
  EXPECT_NE(full.message().find("751"), std::string::npos) << full.message();
  EXPECT_TRUE(person.Take(250).ok());
  EXPECT_EQ(budget->used(), 1000);
  RequestMemory other(budget, Priority::kInteractive);
  const Status wait = other.Take(10);
  EXPECT_EQ(wait.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(wait.retry_after_s(), 1);
  EXPECT_NE(wait.message().find("--max-inflight-bytes"), std::string::npos);
}

TEST(ByteBudget, WhatARequestHeldComesBackWithIt) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  {
    RequestMemory memory(budget, Priority::kInteractive);
    ASSERT_TRUE(memory.Take(600).ok());
    {
      ScopedMemory scoped(&memory);
      ASSERT_TRUE(scoped.Take(300).ok());
      EXPECT_EQ(budget->used(), 900);
      EXPECT_FALSE(scoped.Take(300).ok());
    }
    EXPECT_EQ(budget->used(), 600);
    memory.Give(100);
    EXPECT_EQ(memory.held(), 500);
  }
  EXPECT_EQ(budget->used(), 0);
}

TEST(ByteBudget, NeverOverItsLimitFromManyThreads) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        RequestMemory memory(budget, i % 2 == 0 ? Priority::kBulk : Priority::kInteractive);
        if (memory.Take(1 + i % 700).ok()) {
          EXPECT_LE(budget->used(), 1000);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->used(), 0);
}

TEST(ByteBudget, TheHeapIsTrimmedAfterLargeFrees) {
  ByteBudget budget(ByteBudget::kTrimBytes * 4);
  ASSERT_TRUE(budget.TryTake(ByteBudget::kTrimBytes - 1, Priority::kInteractive));
  budget.Give(ByteBudget::kTrimBytes - 1);
  EXPECT_EQ(budget.trims(), 0u);
  ASSERT_TRUE(budget.TryTake(1, Priority::kInteractive));
  budget.Give(1);
  Eventually([&] { return budget.trims() > 0; });
  EXPECT_EQ(budget.trims(), 1u);
}

}  // namespace
}  // namespace penstock
