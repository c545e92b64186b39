// The pools of all groups of a decoder's cache, each with its kind's policy.
//
// The first group is full: a text holds all its blocks there, and the prefix cache knows texts by
// them (kv/prefix_cache.h). The blocks of the other groups lie beside those.
//
// Ownership and memory as BlockPool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/kv_block.h"
#include "kv/block_pool.h"
#include "kv/group_policy.h"

namespace penstock::kv {

class CachePools {
 public:
  // `blocks`: of each group. page_blocks: as BlockPool.
  CachePools(std::span<const CacheGroup> groups, std::span<const int32_t> blocks,
             int32_t page_blocks = 1);
  // Of one full group.
  explicit CachePools(int32_t blocks, int32_t page_blocks = 1)
      : CachePools({&kFullGroup, 1}, {&blocks, 1}, page_blocks) {}

  size_t size() const { return groups_.size(); }
  BlockPool& operator[](size_t group) { return groups_[group]->pool; }
  const BlockPool& operator[](size_t group) const { return groups_[group]->pool; }
  const CacheGroup& group(size_t group) const { return groups_[group]->group; }
  const GroupPolicy& policy(size_t group) const { return *groups_[group]->policy; }

  // The most blocks of each group that a text of `blocks` blocks holds at once, in steps of up to
  // `rows` tokens.
  GroupCounts MostHeld(int32_t blocks, int32_t rows) const;
  // Blocks that can be taken.
  GroupCounts available() const;
  // Whether a block that is not whole serves fewer tokens than were written to it, in all groups.
  bool can_shorten() const { return can_shorten_; }

 private:
  struct Group {
    CacheGroup group;
    std::unique_ptr<GroupPolicy> policy;
    BlockPool pool;
  };
  std::vector<std::unique_ptr<Group>> groups_;
  bool can_shorten_ = true;
};

// Of a cache that has one text of up to `tokens` tokens, in steps of up to `rows`: the blocks of
// each group, and its tables, where blocks that the text gave back come again.
std::vector<int32_t> BlocksOfOneText(std::span<const CacheGroup> groups, int32_t tokens,
                                     int32_t rows);
std::vector<BlockTable> TablesOfOneText(std::span<const CacheGroup> groups, int32_t tokens,
                                        int32_t rows);

// A block of each group for the same tokens; -1: it was given back, or there is no such group.
class GroupBlocks {
 public:
  GroupBlocks() { ids_.fill(-1); }
  int32_t& operator[](size_t group) { return ids_[group]; }
  int32_t operator[](size_t group) const { return ids_[group]; }

 private:
  std::array<int32_t, kCacheGroupsMax> ids_;
};

}  // namespace penstock::kv
