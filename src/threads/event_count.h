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
// of the two sees the other. A notification without waiters costs one load of a line that is only
// written when a thread goes to sleep.
//
// While a wake-up is on its way (`waking_`) NotifyOne does not send another: the thread that wakes
// clears the flag before it looks at the condition, so it sees all changes announced meanwhile.
// Hence a rule: a thread that wakes and finds more work than it can take calls NotifyOne for the
// next. A thread about to sleep reads its key before it clears the flag. So a notifier that raises
// the flag after that moves the epoch after the key was read, and this thread does not sleep on it;
// in the other order a thread could sleep with the flag up, its wake-up spent on one that did not
// sleep, and no thread would be woken until a third came by. tests/spin/batch_ring.pml checks both
// orders.
//
// (Source: the Dekker argument of folly's and Eigen's event counts; the sleeping is a futex.)
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

// Low-level futex calls on a 32-bit word, private to this process.
void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns = -1);
void FutexWake(const std::atomic<uint32_t>* word, int32_t count);
// The same by bits: a sleeper has one, and those whose bit is in `bits` are woken.
void FutexWaitAs(const std::atomic<uint32_t>* word, uint32_t expected, uint32_t bit);
void FutexWakeOf(const std::atomic<uint32_t>* word, uint32_t bits);

// One turn of a loop that waits for another thread to do a few instructions: pauses at first, then
// yields the processor, then sleeps, in case the other thread has lost its own.
class SpinWait {
 public:
  void Once();

 private:
  uint32_t turns_ = 0;
};

// The primitives of lock-free code: this, or in tests a stand-in that lets a seeded scheduler
// choose which thread takes the next step (src/batch/step_sync.h).
struct SystemSync {
  template <typename T>
  using Atomic = std::atomic<T>;
  using Spin = SpinWait;
  // Looks before a thread sleeps: a wake-up costs 15 to 20 µs; spinning for about as long costs at
  // most twice the best.
  static constexpr int kWaitSpins = 400;
  static constexpr int kYieldsBeforeSleep = 40;
  static void Wait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
    FutexWait(word, expected, timeout_ns);
  }
  static void Wake(const std::atomic<uint32_t>* word, int32_t count) { FutexWake(word, count); }
  static void Yield();
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
  }
};

template <typename Sync>
class alignas(64) BasicEventCount {
 public:
  using Key = uint32_t;

  Key PrepareWait() {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    const Key key = epoch_.load(std::memory_order_seq_cst);
    waking_.store(false, std::memory_order_seq_cst);
    return key;
  }
  void CancelWait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
  // Sleeps unless there was a notification since PrepareWait. `timeout_ns` < 0: for ever. Returns
  // early at times: look at the condition again.
  void Wait(Key key, int64_t timeout_ns = -1) {
    if (epoch_.load(std::memory_order_seq_cst) == key) Sync::Wait(&epoch_, key, timeout_ns);
    waking_.store(false, std::memory_order_seq_cst);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Whether there are waiters.
  bool HasWaiters() const { return waiters_.load(std::memory_order_seq_cst) != 0; }
  void NotifyOne() {
    if (HasWaiters()) WakeOne();
  }
  void NotifyAll() {
    if (HasWaiters()) Wake(INT32_MAX);
  }

 private:
  [[gnu::noinline]] void WakeOne() {
    if (!waking_.load(std::memory_order_seq_cst) &&
        !waking_.exchange(true, std::memory_order_seq_cst)) {
      Wake(1);
    }
  }
  void Wake(int32_t count) {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    Sync::Wake(&epoch_, count);
  }

  typename Sync::template Atomic<uint32_t> epoch_{0};    // the futex word; changes at each wake-up
  typename Sync::template Atomic<uint32_t> waiters_{0};  // between PrepareWait and the end of Wait
  typename Sync::template Atomic<bool> waking_{false};   // one is being woken, has not looked yet
};

using EventCount = BasicEventCount<SystemSync>;

}  // namespace penstock
