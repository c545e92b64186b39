// A barrier for a few threads that meet again within microseconds: a decode step has some hundred.
// Waiting threads spin, then yield, so that more threads than processors go on too. Nothing sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/event_count.h"

namespace penstock {

class SpinBarrier {
 public:
  explicit SpinBarrier(uint32_t threads) : threads_(threads) {}
  SpinBarrier(const SpinBarrier&) = delete;
  SpinBarrier& operator=(const SpinBarrier&) = delete;

  // Returns once all threads have called it. What a thread wrote before is seen by all after.
  void Wait() {
    // It cannot change before this thread has arrived.
    const uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (uint32_t spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      SystemSync::Pause();
      if (spins > kSpins) SystemSync::Yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 4096;

  const uint32_t threads_;
  // Apart by 128 bytes: two lines are fetched at a time.
  alignas(128) std::atomic<uint32_t> arrived_{0};
  alignas(128) std::atomic<uint32_t> round_{0};
};

}  // namespace penstock
