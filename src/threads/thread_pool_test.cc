#include "threads/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/failing_new.h"
#include "threads/spin_barrier.h"
#include "threads/waiting_lock.h"
#include "threads/worker_pool.h"

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
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the workers go to sleep
    std::atomic<int> sum{0};
    pool.ParallelFor(10, [&](size_t i, size_t) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum.load(), 45);
  }
}

TEST(ThreadPool, AGangRunsOnEveryThreadAtOnce) {
  constexpr size_t kThreads = 3;
  ThreadPool pool(kThreads, /*pin=*/false);
  SpinBarrier barrier(kThreads);
  std::vector<int> values(kThreads, 0);
  for (int round = 0; round < 2000; ++round) {
    // Now and then the workers go to sleep.
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<int> seen(kThreads, -1);
    pool.Gang([&](size_t thread) {
      ++values[thread];
      barrier.Wait(thread);
      int sum = 0;
      for (const int value : values) sum += value;
      seen[thread] = sum;
      barrier.Wait(thread);
    });
    for (const int sum : seen) ASSERT_EQ(sum, static_cast<int>(kThreads) * (round + 1));
    // Loops and gangs in turns.
    std::atomic<int> hits{0};
    pool.ParallelFor(7, [&](size_t, size_t) { ++hits; });
    ASSERT_EQ(hits.load(), 7);
  }
}

TEST(ThreadPool, AGangWithoutBarriersRunsOnceOnEachThread) {
  ThreadPool pool(4, /*pin=*/false);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::atomic<int>> ran(4);
    pool.Gang([&](size_t thread) { ++ran[thread]; });
    for (const auto& count : ran) ASSERT_EQ(count.load(), 1);
  }
}

// Gangs of some of the threads, of all, and loops, in turns; the threads are more than most
// machines' processors, and of three L3 caches.
TEST(ThreadPool, GangsOfTheFirstThreadsMeetAtTheirBarrier) {
  constexpr size_t kThreads = 6;
  for (const bool spin : {true, false}) {
    ThreadPool pool(kThreads, /*pin=*/false, spin);
    SpinBarrier barrier(kThreads, spin, {0, 0, 1, 1, 1, 2});
    std::vector<int> values(kThreads, 0);
    int sum_wanted = 0;
    for (int round = 0; round < 300; ++round) {
      // Threads that are left out go to sleep now and then.
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const size_t count = 1 + static_cast<size_t>(round * 7) % kThreads;
      std::vector<int> seen(kThreads, -1);
      barrier.SetThreads(count);
      pool.Gang(count, [&](size_t thread) {
        ++values[thread];
        barrier.Wait(thread);
        int sum = 0;
        for (const int value : values) sum += value;
        seen[thread] = sum;
        barrier.Wait(thread);
      });
      sum_wanted += static_cast<int>(count);
      for (size_t thread = 0; thread < kThreads; ++thread) {
        ASSERT_EQ(seen[thread], thread < count ? sum_wanted : -1) << count << " threads";
      }
      if (round % 3 > 0) continue;
      std::atomic<int> hits{0};
      pool.ParallelFor(7, [&](size_t, size_t) { ++hits; });
      ASSERT_EQ(hits.load(), 7);
    }
  }
}

TEST(ThreadPool, ThreadsThatAGangLeavesOutTakeNoTime) {
  ThreadPool pool(3, /*pin=*/false);
  clockid_t clock{};
  pool.Gang([&](size_t thread) {
    if (thread == 2) pthread_getcpuclockid(pthread_self(), &clock);
  });
  const auto seconds = [&] {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  const double before = seconds();
  for (int round = 0; round < 2000; ++round) {
    // The work of the gang.
    pool.Gang(2, [](size_t) { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
  }
  EXPECT_LT(seconds() - before, 0.02);  // it would spin for 0.1 s
  std::atomic<int> ran{0};
  pool.Gang([&](size_t) { ++ran; });
  EXPECT_EQ(ran.load(), 3);
}

TEST(ThreadPool, AGangOfOneIsTheCaller) {
  ThreadPool pool(1);
  size_t calls = 0;
  pool.Gang([&](size_t thread) { calls += thread + 1; });
  EXPECT_EQ(calls, 1u);
}

std::set<int> Affinity(pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof(set), &set), 0);
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

TEST(ThreadPool, APlacedCallerStaysOffTheProcessorsOfPinnedWorkers) {
  const std::set<int> allowed = Affinity(pthread_self());
  if (allowed.size() < 2) GTEST_SKIP() << "needs two processors";
  const ThreadPool pool(allowed.size());
  std::thread([&] {
    const std::set<int> before = Affinity(pthread_self());
    {
      const KeptAffinity kept;
      pool.PlaceCaller();
      EXPECT_EQ(Affinity(pthread_self()), std::set<int>{*allowed.begin()});
    }
    EXPECT_EQ(Affinity(pthread_self()), before);
  }).join();
}

// Another process may have begun at the first processor too.
TEST(ThreadPool, FewerThreadsThanProcessorsAreNotPinned) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  for (size_t threads = 2; threads < static_cast<size_t>(CPU_COUNT(&all)); ++threads) {
    ThreadPool pool(threads);
    pool.Gang([&](size_t) {
      EXPECT_EQ(Affinity(pthread_self()).size(), static_cast<size_t>(CPU_COUNT(&all)));
    });
  }
  // The same with the fewest processors of all machines: a process that has two of three.
  std::thread([] {
    const std::set<int> before = Affinity(pthread_self());
    ThreadPool pool(before.size() + 1);
    pool.Gang([&](size_t) { EXPECT_EQ(Affinity(pthread_self()), before); });
  }).join();
}

// As under a quota of processor time.
TEST(ThreadPool, WithoutSpinningLoopsAndGangsDoTheSame) {
  constexpr size_t kThreads = 3;
  ThreadPool pool(kThreads, /*pin=*/false, /*spin=*/false);
  EXPECT_FALSE(pool.spins());
  SpinBarrier barrier(kThreads, /*spin=*/false);
  std::vector<int> values(kThreads, 0);
  for (int round = 0; round < 500; ++round) {
    std::vector<int> seen(kThreads, -1);
    pool.Gang([&](size_t thread) {
      ++values[thread];
      barrier.Wait(thread);
      int sum = 0;
      for (const int value : values) sum += value;
      seen[thread] = sum;
      barrier.Wait(thread);
    });
    for (const int sum : seen) ASSERT_EQ(sum, static_cast<int>(kThreads) * (round + 1));
    std::atomic<int> hits{0};
    pool.ParallelFor(7, [&](size_t, size_t) { ++hits; });
    ASSERT_EQ(hits.load(), 7);
  }
}

// Threads that wait for one that is late leave the processor to others.
TEST(ThreadPool, WithoutSpinningThoseWhoWaitTakeNoTime) {
  constexpr size_t kThreads = 4;
  ThreadPool pool(kThreads, /*pin=*/false, /*spin=*/false);
  SpinBarrier barrier(kThreads, /*spin=*/false);
  std::vector<double> used(kThreads, 0);
  const auto seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  pool.Gang([&](size_t thread) {
    const double before = seconds();
    // The others wait meanwhile.
    if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    barrier.Wait(thread);
    used[thread] = seconds() - before;
  });
  for (const double one : used) EXPECT_LT(one, 0.05);
}

TEST(ThreadPool, ACallerIsLeftAloneWhereNothingIsPinned) {
  // More threads than processors.
  const ThreadPool free(Affinity(pthread_self()).size() + 1);
  const ThreadPool asked(2, /*pin=*/false);
  const ThreadPool alone(1);
  for (const ThreadPool* pool : {&free, &asked, &alone}) {
    const std::set<int> before = Affinity(pthread_self());
    pool->PlaceCaller();
    EXPECT_EQ(Affinity(pthread_self()), before);
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

TEST(ThreadPool, AnExceptionOfAnyIndexComesToTheCallerAfterTheLoop) {
  for (const size_t threads : {size_t{1}, size_t{4}}) {
    ThreadPool pool(threads, /*pin=*/false);
    constexpr size_t kCount = 24;
    for (size_t bad = 0; bad < kCount; ++bad) {
      std::vector<std::atomic<int>> hits(kCount);
      std::string caught;
      try {
        pool.ParallelFor(kCount, [&](size_t i, size_t) {
          ++hits[i];
          if (i == bad) throw std::runtime_error("index " + std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
      EXPECT_EQ(caught, "index " + std::to_string(bad));
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
    // All throw: the caller gets one exception, and the next loop none.
    EXPECT_THROW(pool.ParallelFor(kCount, [](size_t, size_t) { throw std::bad_alloc(); }),
                 std::bad_alloc);
    std::atomic<int> sum{0};
    pool.ParallelFor(kCount, [&](size_t, size_t) { ++sum; });
    EXPECT_EQ(sum.load(), static_cast<int>(kCount));
  }
}

TEST(ThreadPool, WhatAConstructorStartedIsJoinedWhenItThrows) {
  bool failed = true;
  for (long nth = 1; failed; ++nth) {
    ASSERT_LT(nth, 100);
    FailingNew fail(nth);
    try {
      ThreadPool pool(4, /*pin=*/false);
      failed = fail.failed();
      EXPECT_FALSE(failed);
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(fail.failed());
    }
  }
}

TEST(ThreadPool, TellsHowLongACallerWaitedForOthers) {
  ThreadPool pool(2, /*pin=*/false);
  std::atomic<bool> begun{false};
  std::thread other([&] {
    pool.ParallelFor(1, [&](size_t, size_t) {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the caller below waits
    });
    EXPECT_EQ(WaitingLock::Waited().count(), 0);
  });
  while (!begun) std::this_thread::yield();
  const auto before = WaitingLock::Waited();
  const auto begin = std::chrono::steady_clock::now();
  // Work of its own, which does not count as waiting.
  const auto work = [](size_t, size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the work
  };
  pool.ParallelFor(1, work);
  const auto wall = std::chrono::steady_clock::now() - begin;
  const auto waited = WaitingLock::Waited() - before;
  EXPECT_GT(waited, std::chrono::milliseconds(10));
  EXPECT_LE(waited, wall - std::chrono::milliseconds(5));
  other.join();
}

// Here, as one file of the program has the failing operators.
TEST(WorkerPool, ATaskHasItsNextTurnWithoutMemoryForAPlaceInTheQueue) {
  constexpr int kTurns = 5000;
  std::atomic<bool> begin{false};
  std::atomic<int> turns{0};
  WorkerPool pool(1, 10);
  ASSERT_TRUE(pool.Submit([&] {
                    begin.wait(false);
                    return ++turns < kTurns ? WorkerPool::Turn::kAgain : WorkerPool::Turn::kDone;
                  })
                  .ok());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  {
    const FailingNewElsewhere fail(1, 1 << 30);
    begin = true;
    begin.notify_all();
    while (turns < kTurns && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
  EXPECT_EQ(turns, kTurns);
}

}  // namespace
}  // namespace penstock
