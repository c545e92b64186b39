// The blocks of a group of a decoder's cache (CacheGroup) as ids [0, blocks): who holds which. The
// bytes of a block are the backend's (program/program_run.h).
//
//   free     its contents are of no use
//   in use   one or more sequences hold it (references)
//   idle     no sequence holds it, but the prefix cache knows what is in it; when no block is free
//            the least recently used idle one is evicted
//
// The backend takes memory of the system for a block when it is written, for a page of neighbouring
// ids at once (ProgramRun::page_blocks). So a free block whose page was used before is taken first,
// then the lowest id; and pages that are free altogether can be given back (Uncommit).
//
// One thread owns a pool and the prefix cache and sequences over it: the one that runs the steps of
// an engine. Any thread may call counts(). Nothing is allocated after construction; Take, Release
// and the others are O(1) but where said.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/id_set.h"

namespace penstock::kv {

struct BlockCounts {
  int32_t blocks = 0;
  int32_t in_use = 0;
  int32_t idle = 0;
  int32_t free = 0;
  int32_t committed = 0;   // blocks of pages that may have memory of the system
  uint64_t evictions = 0;  // idle blocks that were freed, ever
};

// Is told of each block that is evicted. Must not call that pool.
class EvictionListener {
 public:
  virtual ~EvictionListener() = default;
  // `group`: the pool's, as in SetListener.
  virtual void OnEvict(size_t group, int32_t block) = 0;
};

class BlockPool {
 public:
  // page_blocks: how many neighbours the backend commits together (ProgramRun::page_blocks).
  explicit BlockPool(int32_t blocks, int32_t page_blocks = 1);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int32_t blocks() const { return static_cast<int32_t>(blocks_.size()); }
  // Blocks that Take would give: free or idle.
  int32_t available() const { return blocks() - Read(in_use_); }
  int32_t references(int32_t block) const { return At(block).references; }
  bool known(int32_t block) const { return At(block).known; }
  BlockCounts counts() const;  // any thread; each number for itself is right

  // A block with one reference; -1: all are in use. `after`: the block before it in its sequence,
  // or -1; its neighbour is preferred.
  int32_t Take(int32_t after = -1);
  void AddReference(int32_t block);  // in use or idle
  // The last reference makes the block idle if it is known, else free.
  void Release(int32_t block);

  // For the prefix cache. Known: it has the block, which is in use at the time of the call.
  void SetKnown(int32_t block, bool known);
  void SetListener(EvictionListener* listener, size_t group = 0) {
    listener_ = listener;
    listener_group_ = group;
  }
  // An idle block, whatever its age.
  void Evict(int32_t block);

  // The caller's clock, in its unit: blocks that become idle are stamped with it.
  void SetTime(int64_t now) { now_ = now; }
  // Evicts up to `most` idle blocks that became idle before `time`, oldest first; how many.
  int32_t EvictIdleSince(int64_t time, int32_t most);
  // The ids of whole pages that are free and may have memory, into `to` as far as they fit, highest
  // page first; at least `keep` free blocks with memory are left. The caller gives them to
  // ProgramRun::ReleaseBlocks before it takes a block. Returns how many; O(1) a block.
  size_t Uncommit(int32_t keep, std::span<int32_t> to);

 private:
  struct Block {
    int32_t references = 0;
    int32_t newer = -1, older = -1;  // of the idle ones
    bool known = false;
    int64_t idle_since = 0;
  };
  struct Page {
    int32_t free = 0;
    bool committed = false;
  };
  template <typename T>
  static T Read(const std::atomic<T>& count) {
    return count.load(std::memory_order_relaxed);
  }
  // Only the owner writes, so this needs no locked instruction.
  template <typename T>
  static void Add(std::atomic<T>* count, T n) {
    count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  Block& At(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  const Block& At(int32_t block) const { return blocks_[static_cast<size_t>(block)]; }
  Page& PageOf(int32_t block) { return pages_[static_cast<size_t>(block / page_blocks_)]; }
  int32_t PageEnd(int32_t page) const;  // the id after its last
  int32_t FindFree(int32_t after) const;
  void Commit(int32_t page);
  void TakeFree(int32_t block);
  void MakeFree(int32_t block);
  void LinkNewest(int32_t block);
  void Unlink(int32_t block);

  std::vector<Block> blocks_;
  const int32_t page_blocks_;
  std::vector<Page> pages_;
  IdSet free_committed_;  // free blocks of pages that may have memory
  IdSet free_untouched_;  // and of the others
  IdSet free_pages_;      // committed pages whose blocks are all free
  int32_t newest_ = -1, oldest_ = -1;
  int64_t now_ = 0;
  EvictionListener* listener_ = nullptr;
  size_t listener_group_ = 0;
  std::atomic<int32_t> in_use_{0}, idle_{0}, committed_{0};
  std::atomic<uint64_t> evictions_{0};
};

}  // namespace penstock::kv
