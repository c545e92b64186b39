// RunnerSet: which of a model's runners (replicas) are free; a thread that takes one may run
// batches.
//
// Two kinds of thread do. An executor thread sleeps until there is work. A leader is a thread that
// just published rows and finds a runner free: it runs the batch itself, so a lone request pays for
// no hand-off; rows that others publish meanwhile follow in the next batch. A leader stops when its
// own rows are done and leaves the rest to an executor thread.
//
//   leader                                executor thread
//   ------                                ---------------
//   Publish(rows, notify = false)         PrepareWait
//   TryAcquire, or another runs          if HasWork and AnyFree: CancelWait, go on
//   Claim, run, Complete, Release         else Wait
//   if HasWork: again, or NotifyOne       TryAcquire; Claim, run, Complete until none; Release
//
// Why no work is left behind: a thread that finds no runner free changed the ring's word before it
// read the set; one that releases a runner changes the set before it reads the word; so one of them
// sees the other. An executor thread counts itself in as a sleeper before it reads either. All are
// seq_cst. tests/spin/batch_ring.pml and batch_ring_steps_test.cc check this with the ring.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/status.h"
#include "batch/batch_ring.h"

namespace penstock::batch {

template <typename Sync>
class BasicRunnerSet {
 public:
  static constexpr uint32_t kRunnersMax = 64;

  // All of them free. 1 to kRunnersMax.
  explicit BasicRunnerSet(uint32_t runners) : free_(~uint64_t{0} >> (kRunnersMax - runners)) {
    PENSTOCK_CHECK(runners >= 1 && runners <= kRunnersMax);
  }

  // The number of a runner that is this thread's until Release; -1: none is free.
  int TryAcquire() {
    uint64_t free = free_.load(std::memory_order_seq_cst);
    while (free != 0) {
      if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_seq_cst)) {
        return std::countr_zero(free);
      }
    }
    return -1;
  }
  void Release(int runner) { free_.fetch_or(uint64_t{1} << runner, std::memory_order_seq_cst); }
  bool AnyFree() const { return free_.load(std::memory_order_seq_cst) != 0; }

 private:
  alignas(64) typename Sync::template Atomic<uint64_t> free_;  // a bit a runner
};

using RunnerSet = BasicRunnerSet<SystemSync>;

// Leads: runs batches on this thread as long as a runner is free, there is work, and `enough()` is
// false. run(runner, claimed) must Complete the batch. Call it after Publish(..., notify = false).
template <typename Sync, typename Run, typename Enough>
void LeadBatches(BasicBatchRing<Sync>* ring, BasicRunnerSet<Sync>* runners,
                 BasicEventCount<Sync>* work_ready, Run run, Enough enough) {
  typename BasicBatchRing<Sync>::Claimed claimed;
  while (true) {
    const int runner = runners->TryAcquire();
    if (runner < 0) return;  // the thread that releases it sees to our rows
    while (!enough() && ring->Claim(&claimed)) run(runner, claimed);
    runners->Release(runner);
    if (!ring->HasWork()) return;
    if (enough()) return work_ready->NotifyOne();
  }
}

// An executor thread: runs batches until stop() is true; the thread that makes it true calls
// NotifyAll.
template <typename Sync, typename Run, typename Stop>
void ExecuteBatches(BasicBatchRing<Sync>* ring, BasicRunnerSet<Sync>* runners,
                    BasicEventCount<Sync>* work_ready, Run run, Stop stop) {
  typename BasicBatchRing<Sync>::Claimed claimed;
  while (!stop()) {
    if (const int runner = runners->TryAcquire(); runner >= 0) {
      while (ring->Claim(&claimed)) run(runner, claimed);
      runners->Release(runner);
    }
    // A wake-up costs 15 to 20 µs: it pays to spin as long before sleeping.
    int looks = 0;
    while (looks < Sync::kYieldsBeforeSleep && !ring->HasWork()) {
      ++looks;
      Sync::Yield();
    }
    if (looks < Sync::kYieldsBeforeSleep && runners->AnyFree()) continue;
    const auto key = work_ready->PrepareWait();
    if (stop() || (ring->HasWork() && runners->AnyFree())) {
      work_ready->CancelWait();
    } else {
      work_ready->Wait(key);
    }
  }
}

}  // namespace penstock::batch
