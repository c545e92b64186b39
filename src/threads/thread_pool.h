// A pool of threads for data-parallel loops of microseconds: what the CPU backend runs on.
//
// The calling thread works too. Workers spin for a short while after a loop, because the next
// operation of a forward pass follows within microseconds, then sleep on a futex. Nothing is
// allocated by ParallelFor.
//
// How a loop is handed out: one 64-bit word, {epoch:24 | count:20 | next:20}. Publishing a loop
// stores a new epoch with next = 0; a thread that wants work adds 1 and owns index `next` of
// exactly the loop whose epoch it got back, if next < count. A loop is over when `done_` reached
// its count, so its function stays valid for every thread that claimed an index, and no thread
// waits for a worker that is asleep or late: a late one finds next >= count.
//   publish (release)  ->  claim (acquire): the claimer sees fn_ and context_
//   done_ add (release) ->  caller's load (acquire): the caller sees the results
//
// A function that throws ends no thread: the loop runs to its end, and the caller gets the first
// exception.
//
// A gang is a function that each of the first `count` threads calls once, at the same time, so that
// they may wait for each other. It has a word of its own, {id:48 | count:16}; a thread whose last
// gang was another runs this one if it is among the first `count`. A gang cannot end without its
// members, so none meets an id too late. Threads beyond `count` are not woken, and do not spin.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "os/processors.h"

namespace penstock {

// Lets the calling thread run on these processors alone. A failure is ignored: it runs on others.
void RunOnlyOn(std::span<const int> processors);

// Restores what the calling thread may run on when it goes: for one that is placed for a while.
class KeptAffinity {
 public:
  KeptAffinity();
  ~KeptAffinity();
  KeptAffinity(const KeptAffinity&) = delete;
  KeptAffinity& operator=(const KeptAffinity&) = delete;

 private:
  cpu_set_t set_;
  bool known_;
};

class ThreadPool {
 public:
  static constexpr size_t kThreadsMax = 256;

  // The plan's threads count the caller: threads - 1 workers are started. With places, worker i runs
  // on the processors of the i-th, the first being left to the caller. An exception of std::thread
  // passes on once the workers started are joined.
  explicit ThreadPool(const ThreadPlan& plan);
  // As planned for this number of threads on this machine, whose quotas are not asked. `pin`: where each
  // core or processor gets one. Without `spin` threads that wait sleep at once.
  explicit ThreadPool(size_t threads, bool pin = true, bool spin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const { return workers_.size() + 1; }
  // Whether threads that wait spin.
  bool spins() const { return spin_; }

  // Keeps the calling thread off the workers' pinned processors, until it ends or KeptAffinity gives
  // back what it had: for a thread that calls ParallelFor all the time. On a worker's processor the two would wait for each
  // other until the system moves the caller away.
  void PlaceCaller() const;

  // Calls fn(index, thread) for every index below count, begun in order, on any thread; `thread`
  // < threads() names the one that runs it. Returns when all are done; if fn threw, throws the
  // first exception then. Several threads may call; their loops run one after the other.
  template <typename Fn>
  void ParallelFor(size_t count, Fn&& fn) {
    using Function = std::remove_reference_t<Fn>;
    Run(
        count,
        [](void* context, size_t index, size_t thread) {
          (*static_cast<Function*>(context))(index, thread);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // Calls fn(thread) once on each of the first `count` threads (1 <= count <= threads()), at the
  // same time, so that they may meet at barriers. Returns when all are done. fn must not throw: the
  // others would wait for ever.
  template <typename Fn>
  void Gang(size_t count, Fn&& fn) {
    using Function = std::remove_reference_t<Fn>;
    RunGang(
        count,
        [](void* context, size_t, size_t thread) noexcept {
          (*static_cast<Function*>(context))(thread);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }
  // On every thread.
  template <typename Fn>
  void Gang(Fn&& fn) {
    Gang(threads(), std::forward<Fn>(fn));
  }

 private:
  // The range of 20 bits, less room for every thread to ask once too often.
  static constexpr size_t kCountMax = (size_t{1} << 20) - 2 * kThreadsMax;

  using LoopFn = void (*)(void* context, size_t index, size_t thread);

  void Run(size_t count, LoopFn fn, void* context);
  void RunGang(size_t count, LoopFn fn, void* context);
  // Indices [first, first + count), count <= kCountMax. The caller holds caller_mutex_.
  void RunPart(size_t first, size_t count, LoopFn fn, void* context);
  // One index; keeps the first exception of a loop in error_.
  void Call(LoopFn fn, void* context, size_t index, size_t thread);
  void WorkerMain(size_t thread, std::span<const int> place);
  void StopWorkers();
  // Wakes the first `count` threads, as far as they sleep.
  void Wake(size_t count);
  // Works on the loop of `epoch` until it has no index left.
  void Work(uint64_t epoch, size_t thread);
  // Counts one of `count` done, and wakes the caller after the last.
  void CountDone(size_t count);
  // The caller waits until all of `count` are done.
  void WaitUntilDone(size_t count);

  const bool spin_;
  std::mutex caller_mutex_;
  LoopFn fn_ = nullptr;
  void* context_ = nullptr;
  size_t first_ = 0;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // set by the thread that raised failed_; read after the loop

  // Apart by 128 bytes: two lines are fetched at a time.
  alignas(128) std::atomic<uint64_t> ticket_{0};
  alignas(128) std::atomic<uint64_t> gang_{0};
  alignas(128) std::atomic<uint32_t> done_{0};  // a futex word where threads do not spin
  alignas(128) std::atomic<uint32_t> wake_{0};  // futex word: changes with every loop
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<int> caller_place_;  // processors; empty: nothing is pinned
  std::vector<std::thread> workers_;
};

}  // namespace penstock
