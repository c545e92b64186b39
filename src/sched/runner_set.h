// RunnerSet: which of a model's runners nobody uses. Lock-free; at most kMax of them.
//
// Taking one is an acquire, giving it back a release: who takes a runner sees what its last user
// did to it. Both are seq_cst, because an executor that finds none goes to sleep on an EventCount
// (PrepareWait, look again, Wait) and whoever gives one back notifies after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock {

class RunnerSet {
 public:
  static constexpr size_t kMax = 64;

  explicit RunnerSet(size_t count)
      : all_(count == kMax ? ~uint64_t{0} : (uint64_t{1} << count) - 1), free_(all_) {}

  // Index of one that is now the caller's; -1: all are in use.
  int Take() {
    uint64_t free = free_.load(std::memory_order_seq_cst);
    while (free != 0) {
      if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_seq_cst)) {
        return __builtin_ctzll(free);
      }
    }
    return -1;
  }
  void GiveBack(int index) {
    free_.fetch_or(uint64_t{1} << static_cast<unsigned>(index), std::memory_order_seq_cst);
  }
  bool AnyFree() const { return free_.load(std::memory_order_seq_cst) != 0; }
  bool AllFree() const { return free_.load(std::memory_order_seq_cst) == all_; }

 private:
  const uint64_t all_;
  std::atomic<uint64_t> free_;
};

}  // namespace penstock
