// WaitingLock: holds a mutex, and counts how long this thread has waited for mutexes so locked.
//
// Callers of one processor take turns by such mutexes; wall time less waiting time is the time of
// the caller's own work. A mutex that is free costs what std::mutex does.
#pragma once

#include <chrono>
#include <mutex>

namespace penstock {

class WaitingLock {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit WaitingLock(std::mutex* mutex) : mutex_(mutex) {
    if (!mutex_->try_lock()) Wait();
  }
  ~WaitingLock() { mutex_->unlock(); }
  WaitingLock(const WaitingLock&) = delete;
  WaitingLock& operator=(const WaitingLock&) = delete;

  // Time the calling thread has waited since it began.
  static Duration Waited() { return waited_; }

 private:
  [[gnu::noinline]] void Wait() {
    const auto begin = std::chrono::steady_clock::now();
    mutex_->lock();
    waited_ += std::chrono::steady_clock::now() - begin;
  }

  inline static thread_local Duration waited_{};
  std::mutex* const mutex_;
};

}  // namespace penstock
