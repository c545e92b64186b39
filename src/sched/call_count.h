// CallCount: how many threads are inside an object, so that its end can wait for them.
//
// A thread counts in a line of memory of its own: two uncontended additions a call. A call that
// begins while the object is destroyed is not protected; an earlier one is, up to its last
// instruction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "metrics/thread_slot.h"
#include "threads/event_count.h"

namespace penstock::sched {

class CallCount {
 public:
  // Counted while it lives.
  class Call {
   public:
    explicit Call(CallCount* count) : calls_(&count->slots_[metrics::ThreadSlot()].calls) {
      calls_->fetch_add(1, std::memory_order_seq_cst);
    }
    ~Call() { calls_->fetch_sub(1, std::memory_order_release); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<uint32_t>* const calls_;
  };

  // Waits until all calls that began before have ended. Not from within one.
  void AwaitNone() const {
    for (const Slot& slot : slots_) {
      for (SpinWait wait; slot.calls.load(std::memory_order_seq_cst) != 0;) wait.Once();
    }
  }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> calls{0};
  };
  std::array<Slot, metrics::kThreadSlots + 1> slots_;
};

}  // namespace penstock::sched
