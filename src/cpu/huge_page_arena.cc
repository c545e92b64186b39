#include "cpu/huge_page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace penstock::cpu {
namespace {

size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

std::shared_ptr<void> NewChunk(size_t bytes) {
  constexpr std::align_val_t kAlign{HugePageArena::kPageBytes};
  void* data = ::operator new(bytes, kAlign);
  // Advice: where there are no huge pages, small ones do.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, [](void* p) { ::operator delete(p, kAlign); }};
}

}  // namespace

HugePageArena::Block HugePageArena::Alloc(size_t bytes) {
  bytes = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  if (bytes >= kChunkBytes) {
    const std::shared_ptr<void> own = NewChunk(RoundUp(bytes, kPageBytes));
    return {own, own.get()};
  }
  const std::lock_guard lock(mutex_);
  if (chunk_ == nullptr || used_ + bytes > size_) {
    chunk_ = NewChunk(kChunkBytes);
    used_ = 0;
    size_ = kChunkBytes;
  }
  void* data = static_cast<char*>(chunk_.get()) + used_;
  used_ += bytes;
  return {chunk_, data};
}

}  // namespace penstock::cpu
