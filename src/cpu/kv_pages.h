// The memory of a decoder's cache: address space for all blocks, pages of the system only for those
// that were written. In huge pages, for attention reads it from front to back.
//
// Blocks with neighbouring ids lie side by side for each layer and kv head, kKvGroup of them, so
// that a chunk of keys is one piece of memory where a sequence got its blocks in order:
//
//   blocks 0 to 7: layer 0: kv head 0: block 0 | 1 | ... | 7 || kv head 1: ... || layer 1: ...
//   blocks 8 to 15: ...
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"

namespace penstock::cpu {

inline constexpr int64_t kKvGroup = 8;

class KvPages {
 public:
  // `heads`: kv heads of all layers; head_bytes: of one's block. kResourceExhausted: no address
  // space.
  static Expected<KvPages> Reserve(uint64_t head_bytes, int64_t heads, int64_t blocks);
  KvPages() = default;
  KvPages(KvPages&& other) noexcept;
  KvPages& operator=(KvPages&& other) noexcept;
  ~KvPages();

  uint64_t block_bytes() const { return head_bytes_ * static_cast<uint64_t>(heads_); }
  int64_t blocks() const { return blocks_; }

  // A block of a head lies at HeadData(head) + PlaceOf(id) * head_bytes.
  uint8_t* HeadData(size_t head) const {
    return data_ + head * static_cast<size_t>(kKvGroup) * head_bytes_;
  }
  int32_t PlaceOf(int32_t id) const {
    return static_cast<int32_t>(id / kKvGroup * kKvGroup * heads_ + id % kKvGroup);
  }

 private:
  KvPages(uint8_t* data, uint64_t head_bytes, int64_t heads, int64_t blocks)
      : data_(data), head_bytes_(head_bytes), heads_(heads), blocks_(blocks) {}
  uint64_t bytes() const;

  uint8_t* data_ = nullptr;
  uint64_t head_bytes_ = 0;
  int64_t heads_ = 0;
  int64_t blocks_ = 0;
};

}  // namespace penstock::cpu
