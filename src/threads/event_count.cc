#include "threads/event_count.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace penstock {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  // Whatever the result (woken, changed already, timed out, interrupted), the caller looks again.
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? nullptr : &timeout,
          nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>* word, int32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void FutexWaitAs(const std::atomic<uint32_t>* word, uint32_t expected, uint32_t bit) {
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr, nullptr, bit);
}

void FutexWakeOf(const std::atomic<uint32_t>* word, uint32_t bits) {
  syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, nullptr, nullptr, bits);
}

void SystemSync::Yield() { sched_yield(); }

void SpinWait::Once() {
  constexpr uint32_t kPauses = 256;  // about 10 µs
  constexpr uint32_t kYields = 64;
  ++turns_;
  if (turns_ <= kPauses) {
    SystemSync::Pause();
  } else if (turns_ <= kPauses + kYields) {
    sched_yield();
  } else {
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace penstock
