#include "library/calls.h"

#include <sys/eventfd.h>
#include <unistd.h>

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
    if (call == nullptr) continue;  // it is being freed
    call->Cancel(why);
    call->Settle();
  }
}

int Calls::Descriptor() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return descriptor_;
}

void Calls::Queue(penstock_call* call) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0 || !queued_.insert(call).second) return;
  queue_.push_back(call);
  const uint64_t one = 1;
  if (queued_.size() == 1) (void)!write(descriptor_, &one, sizeof one);
}

penstock_call* Calls::Next() {
  const std::lock_guard lock(mutex_);
  penstock_call* next = nullptr;
  while (next == nullptr && !queue_.empty()) {
    if (queued_.erase(queue_.front()) > 0) next = queue_.front();
    queue_.pop_front();
  }
  ClearDescriptor();
  return next;
}

void Calls::Unqueue(penstock_call* call) {
  const std::lock_guard lock(mutex_);
  queued_.erase(call);
  ClearDescriptor();
}

void Calls::ClearDescriptor() {
  uint64_t count = 0;
  if (!queued_.empty()) return;
  queue_.clear();
  if (descriptor_ >= 0) (void)!read(descriptor_, &count, sizeof count);
}

}  // namespace penstock::library
