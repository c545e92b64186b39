// HeldMemory: what one thing holds of a request's memory, given back when it ends; and how many
// bytes the heap takes for a block. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "threads/byte_budget.h"

namespace penstock {

// Bytes that a block of `bytes` takes in glibc's heap: with a word for its size, in whole 16 bytes,
// 32 at least.
constexpr size_t HeapBytes(size_t bytes) {
  return bytes == 0 ? 0 : std::max<size_t>(32, (bytes + 8 + 15) & ~size_t{15});
}

// Bytes that the text of a std::string takes in the heap; short texts lie inside of the string.
constexpr size_t HeapTextBytes(size_t bytes) { return bytes < 16 ? 0 : HeapBytes(bytes + 1); }

class HeldMemory {
 public:
  // Taken from the request's memory at once, so that small things do not take turns at one counter.
  static constexpr size_t kSliceBytes = 4 << 10;

  // Null memory: nothing is counted.
  explicit HeldMemory(std::shared_ptr<RequestMemory> memory) : memory_(std::move(memory)) {}
  ~HeldMemory() {
    if (memory_ != nullptr) memory_->Give(static_cast<int64_t>(taken_));
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  // Before `bytes` are allocated. Errors as RequestMemory::Take.
  Status Take(size_t bytes) {
    if (memory_ == nullptr || bytes <= taken_ - used_) {
      used_ += memory_ == nullptr ? 0 : bytes;
      return Status::Ok();
    }
    const size_t missing = bytes - (taken_ - used_);
    const size_t slice = (missing + kSliceBytes - 1) / kSliceBytes * kSliceBytes;
    PENSTOCK_RETURN_IF_ERROR(memory_->Take(static_cast<int64_t>(slice)));
    taken_ += slice;
    used_ += bytes;
    return Status::Ok();
  }
  RequestMemory* memory() const { return memory_.get(); }

 private:
  const std::shared_ptr<RequestMemory> memory_;
  size_t taken_ = 0;  // of memory_
  size_t used_ = 0;   // of these
};

}  // namespace penstock
