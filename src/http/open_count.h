// OpenCount: how many connections are open, over all io threads of a listener, or of several.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace penstock::http {

class OpenCount {
 public:
  // `all`: counts these connections with those of others; null: there are none.
  explicit OpenCount(std::shared_ptr<OpenCount> all = nullptr) : all_(std::move(all)) {}

  // False, and nothing counted, if there are `max` already, or `all_max` with those of others.
  bool TryAdd(int32_t max, int32_t all_max);
  void Remove();
  // Waits until none is open; false after `timeout`.
  bool WaitForZero(std::chrono::milliseconds timeout);

 private:
  const std::shared_ptr<OpenCount> all_;
  std::mutex mutex_;
  std::condition_variable zero_;
  int32_t open_ = 0;
};

}  // namespace penstock::http
