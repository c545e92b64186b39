// InferCounts: calls of Service::Infer, begun, ended and succeeded.
//
// A thread counts in a line of memory of its own (metrics/thread_slot.h), so that two of them that
// submit and answer a million calls a second do not meet. A call may end on another thread than it
// began on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "metrics/thread_slot.h"

namespace penstock::api {

class InferCounts {
 public:
  void Begin() { slots_[metrics::ThreadSlot()].begun.fetch_add(1, std::memory_order_seq_cst); }
  // The last thing that is done for a call: whoever waits for AllEnded may go on at once.
  void End(bool succeeded) {
    Slot& slot = slots_[metrics::ThreadSlot()];
    if (succeeded) slot.succeeded.fetch_add(1, std::memory_order_relaxed);
    slot.ended.fetch_add(1, std::memory_order_seq_cst);
  }

  // Whether all calls have ended that began before. A false answer may be outdated at once; a true
  // one is not, where calls that begin from now on do nothing.
  //
  // Calls end after they began, and counts only grow. So if the number that had ended, when the
  // first sum was taken, equals the number that have begun, now that the second is taken, none was
  // under way in between.
  bool AllEnded() const {
    const uint64_t ended = Sum(&Slot::ended);
    return ended == Sum(&Slot::begun);
  }
  uint64_t succeeded() const { return Sum(&Slot::succeeded); }

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> begun{0};
    std::atomic<uint64_t> ended{0};
    std::atomic<uint64_t> succeeded{0};
  };
  uint64_t Sum(std::atomic<uint64_t> Slot::*count) const {
    uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += (slot.*count).load(std::memory_order_seq_cst);
    return sum;
  }

  std::array<Slot, metrics::kThreadSlots + 1> slots_;
};

}  // namespace penstock::api
