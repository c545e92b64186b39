// Ctrl-C for a command that has work to save: the first SIGINT or SIGTERM asks it to stop, the
// second ends it at once.
#pragma once

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

  // While one lives, the first signal calls `stop`, from a thread of its own. Afterwards a first
  // signal is only noted.
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
  // Readable once a signal came: for threads that wait for input.
  int fd() const { return came_; }

 private:
  void Watch();

  std::atomic<int> signal_{0};
  std::mutex mutex_;
  std::function<void()> stop_;  // guarded by mutex_
  int signals_ = -1;            // signalfd
  int came_ = -1;               // eventfd
  int end_ = -1;                // eventfd
  std::thread thread_;
};

}  // namespace penstock
