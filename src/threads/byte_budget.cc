#include "threads/byte_budget.h"

#include <chrono>
#include <string>

#include "os/memory.h"

namespace penstock {
namespace {

// A client that fills the budget is through within seconds, or its time-out ends it.
constexpr int kRetryAfterS = 1;
// Blocks that are freed together are trimmed together.
constexpr std::chrono::milliseconds kSettle{200};

}  // namespace

ByteBudget::ByteBudget(int64_t limit) : limit_(limit), trimmer_([this] { TrimMain(); }) {}

ByteBudget::~ByteBudget() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  trimmer_.join();
}

bool ByteBudget::TryTake(int64_t bytes, Priority priority) {
  const int64_t limit = ClassLimit(limit_, priority);
  int64_t before = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}

void ByteBudget::Give(int64_t bytes) {
  if (bytes <= 0) return;
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  const int64_t before = given_since_trim_.fetch_add(bytes, std::memory_order_relaxed);
  if (before >= kTrimBytes || before + bytes < kTrimBytes) return;
  {
    const std::lock_guard lock(mutex_);
    trim_ = true;
  }
  wake_.notify_one();
}

void ByteBudget::TrimMain() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return trim_ || stopping_; });
    if (!stopping_) wake_.wait_for(lock, kSettle, [this] { return stopping_; });
    if (stopping_) return;
    trim_ = false;
    lock.unlock();
    given_since_trim_.store(0, std::memory_order_relaxed);
    TrimHeap();
    trims_.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
  }
}

Status RequestMemory::Take(int64_t bytes) {
  if (bytes <= 0) return Status::Ok();
  if (budget_->TryTake(bytes, priority_)) {
    held_.fetch_add(bytes, std::memory_order_relaxed);
    return Status::Ok();
  }
  const int64_t limit = ClassLimit(budget_->limit(), priority_);
  const std::string what = priority_ == Priority::kBulk ? "a bulk request" : "a request";
  const int64_t needs = held() + bytes;
  if (needs > limit) {
    return {StatusCode::kPayloadTooLarge, "the request needs " + std::to_string(needs) +
                                              " bytes of memory; " + what + " may take " +
                                              std::to_string(limit) + " (--max-inflight-bytes)"};
  }
  return Status(StatusCode::kResourceExhausted,
                "requests hold " + std::to_string(budget_->used()) +
                    " bytes of memory and this one needs " + std::to_string(bytes) + " more; " +
                    "the limit for " + what + " is " + std::to_string(limit) +
                    " (--max-inflight-bytes)")
      .WithRetryAfter(kRetryAfterS);
}

void RequestMemory::Give(int64_t bytes) {
  if (bytes <= 0) return;
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  budget_->Give(bytes);
}

}  // namespace penstock
