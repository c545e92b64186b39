// OpenCount: how many connections are open, over all io threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace penstock {

class OpenCount {
 public:
  // False, and nothing counted, if there are `max` already.
  bool TryAdd(int32_t max);
  void Remove();
  // Waits until none is open; false after `timeout`.
  bool WaitForZero(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int32_t open_ = 0;
};

}  // namespace penstock
