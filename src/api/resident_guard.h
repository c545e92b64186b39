// ResidentGuard: refuses new work while the process has more memory than it may have, whatever was
// counted of it. First bulk work, then all.
//
//   bytes     bytes_max: bulk work is refused, until they are below 31/32 of it
//             25/24 of bytes_max: all work is refused, until they are below 31/32 of that
//
// Memory is looked at by the requests that ask, a few times a second. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "metrics/metrics.h"
#include "threads/request_context.h"

namespace penstock::api {

class ResidentGuard {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{250};
  // While memory is short the heap is trimmed as often: what is free in it counts, too.
  static constexpr std::chrono::seconds kTrimEvery{5};
  // Share of the memory that there is; the limit unless another is given.
  static constexpr double kShare = 0.92;

  // `bytes_max` 0: nothing is ever refused. `read` gives the bytes that the process has.
  ResidentGuard(uint64_t bytes_max, std::function<uint64_t()> read, metrics::Metrics* metrics);

  // kUnavailable, with retry_after_s: new work of this class is refused, and counted.
  Status Check(Priority priority, Clock::time_point now = Clock::now());
  // The same, not counted.
  bool Refuses(Priority priority, Clock::time_point now = Clock::now());
  // Whether the heap should be trimmed now. True once every kTrimEvery, while work is refused.
  bool TrimDue(Clock::time_point now = Clock::now());

 private:
  struct Class {
    uint64_t limit = 0;
    // Shared with the metric, which may be printed after this object is gone.
    std::shared_ptr<std::atomic<bool>> refused = std::make_shared<std::atomic<bool>>(false);
    metrics::Counter* count = nullptr;
  };
  void Look(Clock::time_point now);
  void Judge(Class* of, const char* what, uint64_t bytes);
  static bool IsDue(std::atomic<int64_t>* next, Clock::duration every, Clock::time_point now);

  const std::function<uint64_t()> read_;
  const uint64_t bytes_max_;
  std::atomic<uint64_t> bytes_{0};                    // when they were looked at last
  std::atomic<int64_t> next_look_{0}, next_trim_{0};  // on Clock
  Class classes_[kPriorities];
};

}  // namespace penstock::api
