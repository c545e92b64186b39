#include "library/call.h"

#include <chrono>
#include <utility>

#include "log/exception_status.h"

namespace penstock::library {
namespace {

constexpr int64_t kForEverMs = int64_t{1000} * 3600 * 24 * 365;  // no clock takes much more

}  // namespace

int Call::Wait(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto is_there = [this] { return state_ != PENSTOCK_RUNNING; };
  if (timeout_ms < 0 || timeout_ms > kForEverMs) {
    changed_.wait(lock, is_there);
  } else {
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_there);
  }
  return state_;
}

int Call::Result(penstock_view* view) {
  const int now = state();
  if (now == PENSTOCK_RUNNING || now == PENSTOCK_FAILED) return now;
  try {
    return Take(view);
  } catch (...) {
    SetFailed(ExceptionStatus());
    return PENSTOCK_FAILED;
  }
}

void Call::Cancel(const Status& why) {
  if (Change(PENSTOCK_FAILED, why)) Stop();
}

const penstock_error* Call::error() const {
  const std::lock_guard lock(mutex_);
  return state_ == PENSTOCK_FAILED ? &error_ : nullptr;
}

void Call::SetHandle(penstock_call* handle) {
  const std::lock_guard lock(mutex_);
  handle_ = handle;
  if (state_ != PENSTOCK_RUNNING) calls_->Queue(handle_);
}

void Call::DropHandle() {
  const std::lock_guard lock(mutex_);
  if (handle_ != nullptr) calls_->Unqueue(handle_);
  handle_ = nullptr;
}

void Call::SetState(int state) { Change(state, Status::Ok()); }

void Call::SetTaken() { Change(PENSTOCK_ENDED, Status::Ok(), /*tells=*/false); }

void Call::SetFailed(const Status& why) {
  {
    // An answer that could not be printed has failed after it came.
    const std::lock_guard lock(mutex_);
    if (state_ == PENSTOCK_ENDED) state_ = PENSTOCK_RUNNING;
  }
  if (Change(PENSTOCK_FAILED, why)) Stop();
}

int Call::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Call::Change(int state, const Status& why, bool tells) {
  const std::lock_guard lock(mutex_);
  if (state_ == PENSTOCK_ENDED || state_ == PENSTOCK_FAILED) return false;
  state_ = state;
  error_.status = why;
  if (state == PENSTOCK_RUNNING) return true;
  changed_.notify_all();
  if (tells && handle_ != nullptr) calls_->Queue(handle_);
  return true;
}

}  // namespace penstock::library
