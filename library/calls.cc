#include "library/calls.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "library/call.h"

namespace penstock::library {

Calls::~Calls() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status Calls::Enter(Call* call) {
  const std::lock_guard lock(mutex_);
  if (closed_) return {StatusCode::kUnavailable, "the models were closed"};
  open_.insert(call);
  return Status::Ok();
}

void Calls::Leave(Call* call) {
  const std::lock_guard lock(mutex_);
  open_.erase(call);
}

void Calls::CancelAll(const Status& why) {
  std::vector<std::shared_ptr<Call>> open;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (Call* const call : open_) open.push_back(call->weak_from_this().lock());
  }
  for (const std::shared_ptr<Call>& call : open) {
    if (call != nullptr) call->Cancel(why);  // null: it is being freed
  }
}

int Calls::Descriptor() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return descriptor_;
}

void Calls::Queue(penstock_call* call) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return;
  if (std::find(queue_.begin(), queue_.end(), call) != queue_.end()) return;
  queue_.push_back(call);
  const uint64_t one = 1;
  if (queue_.size() == 1) (void)!write(descriptor_, &one, sizeof one);
}

penstock_call* Calls::Next() {
  const std::lock_guard lock(mutex_);
  penstock_call* call = nullptr;
  if (!queue_.empty()) {
    call = queue_.front();
    queue_.pop_front();
  }
  ClearDescriptor();
  return call;
}

void Calls::Unqueue(penstock_call* call) {
  const std::lock_guard lock(mutex_);
  std::erase(queue_, call);
  ClearDescriptor();
}

void Calls::ClearDescriptor() {
  uint64_t count = 0;
  if (queue_.empty() && descriptor_ >= 0) (void)!read(descriptor_, &count, sizeof count);
}

}  // namespace penstock::library
