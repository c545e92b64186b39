// ByteBudget: a bound on the bytes that all requests hold together; RequestMemory: the bytes that
// one of them holds. Memory is taken from the budget before it is allocated: bodies as they arrive,
// ids, results and printed answers before they are made.
//
// Any thread may call. Bulk work may fill three quarters of the budget, so that there is room for
// interactive work at any time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock {

// The share of a bound that work of this priority class may fill; at least 1 where `bound` is.
constexpr int64_t ClassLimit(int64_t bound, Priority priority) {
  return priority == Priority::kInteractive ? bound : bound - bound / 4;
}

class ByteBudget {
 public:
  // The heap is trimmed each time this many bytes have been released.
  static constexpr int64_t kTrimBytes = 32 << 20;

  explicit ByteBudget(int64_t limit);
  ~ByteBudget();
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // False, and nothing taken, if more than ClassLimit(limit, priority) would be in use.
  bool TryTake(int64_t bytes, Priority priority);
  void Give(int64_t bytes);

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t trims() const { return trims_.load(std::memory_order_relaxed); }

 private:
  void TrimMain();

  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> given_since_trim_{0};
  std::atomic<uint64_t> trims_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool trim_ = false;      // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread trimmer_;    // trimming takes milliseconds, too long for a request's thread
};

class RequestMemory {
 public:
  RequestMemory(std::shared_ptr<ByteBudget> budget, Priority priority)
      : budget_(std::move(budget)), priority_(priority) {}
  ~RequestMemory() { Give(held_.load(std::memory_order_relaxed)); }
  RequestMemory(const RequestMemory&) = delete;
  RequestMemory& operator=(const RequestMemory&) = delete;

  // Counts `bytes` as held until Give or the end of this object. On an error nothing is taken:
  //   kPayloadTooLarge    this request alone is over the bound of its class
  //   kResourceExhausted  with the bytes of other requests it is; retry_after_s is set
  Status Take(int64_t bytes);
  // `bytes`: at most held().
  void Give(int64_t bytes);
  int64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<ByteBudget> budget_;
  const Priority priority_;
  std::atomic<int64_t> held_{0};
};

// Bytes that are taken for the time of a scope. Null memory: nothing is counted.
class ScopedMemory {
 public:
  explicit ScopedMemory(RequestMemory* memory) : memory_(memory) {}
  ~ScopedMemory() {
    if (memory_ != nullptr) memory_->Give(taken_);
  }
  ScopedMemory(const ScopedMemory&) = delete;
  ScopedMemory& operator=(const ScopedMemory&) = delete;
  Status Take(int64_t bytes) {
    if (memory_ == nullptr) return Status::Ok();
    Status status = memory_->Take(bytes);
    if (status.ok()) taken_ += bytes;
    return status;
  }

 private:
  RequestMemory* const memory_;
  int64_t taken_ = 0;
};

}  // namespace penstock
