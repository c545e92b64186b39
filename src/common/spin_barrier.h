// A barrier for a few threads that meet again within microseconds: a decode step has some hundred.
// Waiting threads spin, then yield, so that more threads than processors go on too. Under a quota
// of processor time (`spin` is false) they sleep after a moment instead: what they spend in waiting
// is taken from the threads they wait for.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/event_count.h"

namespace penstock {

class SpinBarrier {
 public:
  explicit SpinBarrier(uint32_t threads, bool spin = true) : threads_(threads), spin_(spin) {}
  SpinBarrier(const SpinBarrier&) = delete;
  SpinBarrier& operator=(const SpinBarrier&) = delete;

  // Returns once all threads have called it. What a thread wrote before is seen by all after.
  void Wait() {
    // It cannot change before this thread has arrived.
    const uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      // seq_cst here and below: this thread sees the sleeper, or the sleeper the new round.
      round_.store(round + 1, spin_ ? std::memory_order_release : std::memory_order_seq_cst);
      if (!spin_ && sleepers_.load(std::memory_order_seq_cst) > 0) FutexWake(&round_, INT32_MAX);
      return;
    }
    if (!spin_) return SleepUntilAfter(round);
    for (uint32_t spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      SystemSync::Pause();
      if (spins > kSpins) SystemSync::Yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 4096;
  static constexpr uint32_t kSpinsBeforeSleep = 256;  // about 10 us: shares are nearly even

  void SleepUntilAfter(uint32_t round) {
    for (uint32_t spins = 0; spins < kSpinsBeforeSleep; ++spins) {
      if (round_.load(std::memory_order_acquire) != round) return;
      SystemSync::Pause();
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (round_.load(std::memory_order_seq_cst) == round) FutexWait(&round_, round);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

  const uint32_t threads_;
  const bool spin_;
  // Apart by 128 bytes: two lines are fetched at a time.
  alignas(128) std::atomic<uint32_t> arrived_{0};
  alignas(128) std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace penstock
