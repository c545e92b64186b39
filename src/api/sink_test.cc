#include "api/sink.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace penstock::api {
namespace {

TEST(Sink, GivesEventsInOrderAndRefusesWhatDoesNotFit) {
  int woken = 0;
  Sink<std::unique_ptr<int>> sink(2, [&] { ++woken; });
  EXPECT_EQ(sink.Pop(), std::nullopt);
  EXPECT_TRUE(sink.Push(std::make_unique<int>(1)));
  EXPECT_TRUE(sink.Push(std::make_unique<int>(2)));
  EXPECT_EQ(sink.size(), 2u);
  EXPECT_FALSE(sink.Push(std::make_unique<int>(3)));
  EXPECT_EQ(**sink.Pop(), 1);
  EXPECT_TRUE(sink.Push(std::make_unique<int>(4)));
  EXPECT_EQ(**sink.Pop(), 2);
  EXPECT_EQ(**sink.Pop(), 4);
  EXPECT_EQ(sink.Pop(), std::nullopt);
  EXPECT_EQ(sink.size(), 0u);
}

TEST(Sink, WakesOnlyWhenItWasEmpty) {
  int woken = 0;
  Sink<int> sink(8, [&] { ++woken; });
  for (int i = 0; i < 5; ++i) sink.Push(i);
  EXPECT_EQ(woken, 1);
  sink.Pop();
  sink.Push(5);
  EXPECT_EQ(woken, 1);
  while (sink.Pop()) {
  }
  sink.Push(6);
  EXPECT_EQ(woken, 2);
}

TEST(Sink, NoEventIsLeftBehindByAConsumerThatSleepsUntilItIsWoken) {
  constexpr int kEvents = 200'000;
  std::mutex mutex;
  std::condition_variable wake;
  bool woken = false;
  Sink<int> sink(4, [&] {
    const std::lock_guard lock(mutex);
    woken = true;
    wake.notify_one();
  });
  std::thread producer([&] {
    for (int i = 0; i < kEvents; ++i) {
      while (!sink.Push(i)) std::this_thread::yield();
    }
  });
  int next = 0;
  while (next < kEvents) {
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(wake.wait_for(lock, std::chrono::seconds(20), [&] { return woken; })) << next;
      woken = false;
    }
    while (const auto event = sink.Pop()) ASSERT_EQ(*event, next++);
  }
  producer.join();
}

}  // namespace
}  // namespace penstock::api
