// MemoryWatch: the most resident memory of a process over a time. One thread, beside its own.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "load/process_stat.h"

namespace penstock::lab {

// Looks ten times a second from the constructor on.
class MemoryWatch {
 public:
  explicit MemoryWatch(pid_t pid) : thread_([this, pid] { Watch(pid); }) {}
  ~MemoryWatch() { Stop(); }
  // Bytes.
  double Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return bytes_max_;
  }

 private:
  void Watch(pid_t pid) {
    while (!stopping_) {
      bytes_max_ = std::max(bytes_max_, load::ProcessResidentBytes(pid));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  std::atomic<bool> stopping_{false};
  double bytes_max_ = 0;  // of the thread, until it is joined
  std::thread thread_;
};

}  // namespace penstock::lab
