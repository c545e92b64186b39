// The memory of a decoder's cache: address space for all blocks, pages of the system only for those
// that were written. In huge pages, for attention reads it from front to back.
//
//   block 0: layer 0: kv head 0 | kv head 1 | ... | layer 1: ... || block 1: ...
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"

namespace penstock::cpu {

class KvPages {
 public:
  // kResourceExhausted: no address space.
  static Expected<KvPages> Reserve(uint64_t block_bytes, int64_t blocks);
  KvPages() = default;
  KvPages(KvPages&& other) noexcept;
  KvPages& operator=(KvPages&& other) noexcept;
  ~KvPages();

  uint8_t* data() const { return data_; }
  uint64_t block_bytes() const { return block_bytes_; }
  int64_t blocks() const { return blocks_; }

 private:
  KvPages(uint8_t* data, uint64_t block_bytes, int64_t blocks)
      : data_(data), block_bytes_(block_bytes), blocks_(blocks) {}

  uint8_t* data_ = nullptr;
  uint64_t block_bytes_ = 0;
  int64_t blocks_ = 0;
};

}  // namespace penstock::cpu
