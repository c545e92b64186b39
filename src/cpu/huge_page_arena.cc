#include "cpu/huge_page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace penstock::cpu {
namespace {

size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Whole pages straight from the system, so that they go back to it when they are not used; the heap
// would keep them. Pages that are never touched take no memory.
std::shared_ptr<void> NewChunk(size_t bytes) {
  constexpr size_t kAlign = HugePageArena::kPageBytes;
  // One page more than needed: what lies before and behind the aligned piece goes back at once.
  void* mapped =
      mmap(nullptr, bytes + kAlign, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* begin = static_cast<char*>(mapped);
  char* data = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(begin), kAlign));
  const size_t before = static_cast<size_t>(data - begin);
  if (before > 0) munmap(begin, before);
  if (before < kAlign) munmap(data + bytes, kAlign - before);
  // Advice: where there are no huge pages, small ones do.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, [bytes](void* p) { munmap(p, bytes); }};
}

}  // namespace

HugePageArena::Block HugePageArena::Alloc(size_t bytes) {
  bytes = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  if (bytes >= kChunkBytes) {
    const std::shared_ptr<void> own = NewChunk(RoundUp(bytes, kPageBytes));
    return {own, own.get()};
  }
  const std::lock_guard lock(mutex_);
  if (chunk_ == nullptr || used_ + bytes > kChunkBytes) {
    chunk_.reset();
    chunk_ = NewChunk(kChunkBytes);
    used_ = 0;
  }
  void* data = static_cast<char*>(chunk_.get()) + used_;
  used_ += bytes;
  return {chunk_, data};
}

void HugePageArena::Trim() {
  const std::lock_guard lock(mutex_);
  if (chunk_.use_count() == 1) chunk_.reset();
}

}  // namespace penstock::cpu
