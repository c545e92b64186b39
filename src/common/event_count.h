// EventCount: sleep until a condition on atomics may have become true, without a lock.
//
//   waiter                                  notifier
//   ------                                  --------
//   key = PrepareWait()                     make the condition true   (seq_cst)
//   if (condition) CancelWait()             Notify()
//   else Wait(key); look again
//
// Why no wake-up is lost: PrepareWait counts the waiter in before it reads the condition; the
// notifier changes the condition before it reads the count. All four are seq_cst, so at least one
// of the two sees the other. A notifier that finds nobody pays one load of a line that is only
// written when somebody goes to sleep. While a wake-up is on its way (`waking_`) NotifyOne does
// not send another: the thread that wakes clears the flag before it looks at the condition, so it
// sees what those said. Hence a rule: who wakes and finds more to do than it can take calls
// NotifyOne for the next. (Source: the Dekker argument of folly's and Eigen's event counts; the
// sleeping itself is a futex.)
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

class EventCount {
 public:
  using Key = uint32_t;

  Key PrepareWait() {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    waking_.store(false, std::memory_order_seq_cst);
    return epoch_.load(std::memory_order_seq_cst);
  }
  void CancelWait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
  // Sleeps unless there was a notification since PrepareWait. `timeout_ns` < 0: for ever. Returns
  // early at times: look at the condition again.
  void Wait(Key key, int64_t timeout_ns = -1);

  void NotifyOne() {
    if (waiters_.load(std::memory_order_seq_cst) != 0) WakeOne();
  }
  void NotifyAll() {
    if (waiters_.load(std::memory_order_seq_cst) != 0) Wake(INT32_MAX);
  }

 private:
  void Wake(int32_t count);
  void WakeOne();

  std::atomic<uint32_t> epoch_{0};    // the futex word; changes with each notification
  std::atomic<uint32_t> waiters_{0};  // threads between PrepareWait and the end of Wait
  std::atomic<bool> waking_{false};   // one is being woken and has not looked yet
};

// Low-level futex calls on a 32-bit word, private to this process.
void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns = -1);
void FutexWake(const std::atomic<uint32_t>* word, int32_t count);

// One turn of a loop that waits for another thread to do a few instructions: pauses at first, then
// gives the processor away, then sleeps, should that thread have lost its own.
class SpinWait {
 public:
  void Once();

 private:
  uint32_t turns_ = 0;
};

}  // namespace penstock
