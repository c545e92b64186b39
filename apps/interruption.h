// Ctrl-C for a command that has work to save: the first SIGINT or SIGTERM asks it to stop, the
// second ends it at once.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock {

class Interruption {
 public:
  // To be made before any other thread: theirs do not get the signals then. Until a Stop is made a
  // signal ends the program, as it does without this.
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // While one lives, the first signal calls `stop`, from a thread of its own, and makes reads of
  // the thread that made it return (EINTR). Afterwards a first signal is only noted.
  class Stop {
   public:
    Stop(Interruption* interruption, std::function<void()> stop);
    ~Stop();
    Stop(const Stop&) = delete;
    Stop& operator=(const Stop&) = delete;

   private:
    Interruption* const interruption_;
  };
  // The signal that came, 0: none.
  int signal() const { return signal_.load(std::memory_order_acquire); }

 private:
  void Watch();

  std::atomic<int> signal_{0};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::function<void()> stop_;
  pthread_t reader_{};
  bool reads_ = false;  // reader_ is to be woken
  int signals_ = -1;    // signalfd
  int end_ = -1;        // eventfd
  std::thread thread_;
};

}  // namespace penstock
