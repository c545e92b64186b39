// The memory of a decoder's cache: address space for all blocks, pages of the system only for those
// that were written, until they are given back. In huge pages, for attention reads it from front to
// back.
//
// Blocks with neighbouring ids lie side by side for each layer and kv head, kKvGroup of them, so
// that a chunk of keys is one piece of memory where a sequence got its blocks in order:
//
//   blocks 0 to 7: layer 0: kv head 0: block 0 | 1 | ... | 7 || kv head 1: ... || layer 1: ...
//   blocks 8 to 15: ...
//
// So pages are given back for whole groups. One thread at a time; any thread may ask for
// CommittedBytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace penstock::cpu {

inline constexpr int32_t kKvGroup = 8;

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
  // Of the groups with a block that was written since its pages were given back. Huge pages may
  // reach over their ends.
  uint64_t CommittedBytes() const {
    return static_cast<uint64_t>(committed_groups_.load(std::memory_order_relaxed)) * group_bytes();
  }

  // Before a block is written.
  void WillWrite(int32_t id) {
    uint8_t& committed = committed_[static_cast<size_t>(id / kKvGroup)];
    if (committed == 0) AddCommitted(committed = 1);
  }
  // Gives the pages of those groups back whose blocks are all in `blocks`, in any order; what was
  // in them is lost. Returns by how much CommittedBytes fell.
  uint64_t Release(std::span<const int32_t> blocks);

  // A block of a head lies at HeadData(head) + PlaceOf(id) * head_bytes.
  uint8_t* HeadData(size_t head) const {
    return data_ + head * static_cast<size_t>(kKvGroup) * head_bytes_;
  }
  int32_t PlaceOf(int32_t id) const {
    return static_cast<int32_t>(id / kKvGroup * kKvGroup * heads_ + id % kKvGroup);
  }

 private:
  KvPages(uint64_t head_bytes, int64_t heads, int64_t blocks);
  uint64_t group_bytes() const { return block_bytes() * uint64_t{kKvGroup}; }
  uint64_t bytes() const { return committed_.size() * group_bytes(); }
  void AddCommitted(int64_t groups) {
    committed_groups_.store(committed_groups_.load(std::memory_order_relaxed) + groups,
                            std::memory_order_relaxed);
  }
  uint8_t WholeGroup(size_t group) const;
  void GiveBack(size_t first, size_t end);

  uint8_t* data_ = nullptr;
  uint64_t head_bytes_ = 0;
  int64_t heads_ = 0;
  int64_t blocks_ = 0;
  std::vector<uint8_t> committed_;  // of each group: 1 if it may have pages
  std::vector<uint8_t> named_;      // of each group: a bit for each block; 0 but in Release
  std::atomic<int64_t> committed_groups_{0};
};

}  // namespace penstock::cpu
