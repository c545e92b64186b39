#include "http/open_count.h"

namespace penstock::http {

bool OpenCount::TryAdd(int32_t max, int32_t all_max) {
  const std::lock_guard lock(mutex_);
  if (open_ >= max) return false;
  if (all_ != nullptr && !all_->TryAdd(all_max, all_max)) return false;
  ++open_;
  return true;
}

void OpenCount::Remove() {
  if (all_ != nullptr) all_->Remove();
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) zero_.notify_all();
}

bool OpenCount::WaitForZero(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return zero_.wait_for(lock, timeout, [this] { return open_ == 0; });
}

}  // namespace penstock::http
