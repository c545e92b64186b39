#include "cpu/kv_pages.h"

#include <sys/mman.h>

#include <utility>

namespace penstock::cpu {

Expected<KvPages> KvPages::Reserve(uint64_t block_bytes, int64_t blocks) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(block_bytes, static_cast<uint64_t>(blocks), &bytes) || bytes == 0 ||
      bytes > SIZE_MAX / 2) {
    return Status(StatusCode::kResourceExhausted, "a cache of " + std::to_string(blocks) +
                                                      " blocks of " + std::to_string(block_bytes) +
                                                      " bytes");
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "no address space for a cache of " + std::to_string(bytes) + " bytes");
  }
  madvise(data, bytes, MADV_HUGEPAGE);
  return KvPages(static_cast<uint8_t*>(data), block_bytes, blocks);
}

KvPages::KvPages(KvPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      block_bytes_(other.block_bytes_),
      blocks_(other.blocks_) {}

KvPages& KvPages::operator=(KvPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(blocks_, other.blocks_);
  return *this;
}

KvPages::~KvPages() {
  if (data_ != nullptr) munmap(data_, block_bytes_ * static_cast<uint64_t>(blocks_));
}

}  // namespace penstock::cpu
