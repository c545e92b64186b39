// The prefix cache: which block of a pool holds which 32 tokens of a text that begins so.
//
//   system prompt        turn 1               turn 2
//   [block 4]-[block 5]-[block 9]-[block 2]-[block 7]      a block knows the one before it
//                     \-[block 6]-...                      another text after the same beginning
//
// A block is found by its salt, the block before it and its ids: a chain of hashes finds
// candidates, ids are compared whole, and the block before it is compared by its id, which stands
// for all tokens before (it cannot be evicted while a block after it is known). So a hash that
// collides costs a comparison and never gives a wrong prefix. Hashes are seeded anew in each
// process: clients cannot prepare ids that collide.
//
// A sequence that holds a block holds those before it, and releases them from the last to the
// first. So the least recently used idle block of the pool never has another after it: ends of
// chains are evicted first.
//
// The chains are of blocks of the first group, which is full. With more groups, a block of each of
// them with the same tokens may be attached to each:
//
//   full     [4]-[5]-[9]-[2]-[7]
//   window            8   3   1      the blocks of tokens that are long past were evicted
//   state     6   0       5          so were snapshots of the state
//
// A text can go on after a block if those that the next token reads have theirs
// (GroupPolicy::FirstNeeded): here, with a window of two blocks, after 2 and after 7, and with
// states after 2 alone. The least recently used blocks of each group go first: one of a later group
// is detached, one of the first group takes the attached ones with it. A sequence that holds a
// block of a later group holds the one of the first.
//
// The owner of the pools calls. Memory is taken at construction, about 180 bytes a block of the
// first group.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/kv_block.h"
#include "kv/cache_pools.h"

namespace penstock::kv {

class PrefixCache final : private EvictionListener {
 public:
  // Of the hash so far and ids.
  using HashFn = uint64_t (*)(uint64_t before, std::span<const int32_t> ids);

  // The pools must outlive the cache; they have one cache at most. `hash`: null for XXH3; for
  // tests.
  explicit PrefixCache(CachePools* pools, HashFn hash = nullptr);
  ~PrefixCache() override;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The blocks of the first group that hold the first ids of `ids`, after `held` blocks of which
  // `parent` is the last
  // (-1: a text begins), into `blocks` as far as they fit; how many. At least one id is left over,
  // and the text can go on after them: its next token reads no block of another group that is
  // missing, where the caller has those that it would read after the `held` ones. They get no
  // reference: the caller adds one to each before anything else.
  size_t Lookup(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                std::span<int32_t> blocks, size_t held = 0) const;
  // Tokens of the text that whole blocks hold, as Lookup; changes nothing.
  size_t CachedTokens(uint64_t salt, std::span<const int32_t> ids) const;
  // The block of a later group that is attached to a known one of the first; -1: none.
  int32_t Attached(size_t group, int32_t block) const {
    return attached_[group].to[static_cast<size_t>(block)];
  }

  // `own`, which the caller alone holds, holds kKvBlockTokens ids after `parent`, which is -1 or
  // known. Returns the blocks to use from here on: others if these ids were known already. Then the
  // caller's reference has passed to those, and its own are free.
  GroupBlocks Insert(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                     const GroupBlocks& own);

  // The unfinished last block of a text, with fewer than kKvBlockTokens ids after `parent`, a known
  // block. Each block has one at most after it, the newest. The caller alone holds it, and releases
  // it next.
  void InsertTail(int32_t parent, std::span<const int32_t> ids, const GroupBlocks& own);
  // Takes the unfinished block after `parent` out of the cache, if `ids` begins with all its ids
  // and has more: the caller alone holds it and may write on in it. -1 in the first group: there is
  // none.
  GroupBlocks TakeTail(int32_t parent, std::span<const int32_t> ids, size_t* tokens);

 private:
  struct Node {
    uint64_t hash = 0;
    uint64_t salt = 0;
    int32_t parent = -1;
    int32_t chain = -1;     // next of its bucket
    int32_t tokens = 0;     // fewer than kKvBlockTokens: a tail
    int32_t tail = -1;      // the unfinished block after it
    int32_t followers = 0;  // known whole blocks after it
  };
  Node& At(int32_t block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& At(int32_t block) const { return nodes_[static_cast<size_t>(block)]; }
  std::span<int32_t> IdsOf(int32_t block) const {
    return {ids_.get() + static_cast<size_t>(block) * kKvBlockTokens,
            static_cast<size_t>(At(block).tokens)};
  }
  void OnEvict(size_t group, int32_t block) override;
  // Gives the known blocks of `ids` to `take`, with their number, at most `most`; after how many of
  // them the text can go on. The first comes after `held` others.
  template <typename Take>
  size_t Walk(int32_t parent, uint64_t salt, std::span<const int32_t> ids, size_t held, size_t most,
              const Take& take) const;
  // Of the blocks of a later group: what lies beside the first group's.
  struct Attachments {
    std::vector<int32_t> to;  // by block of the first group: the one attached to it, or -1
    std::vector<int32_t> of;  // by block of this group: the one it is attached to, or -1
  };
  using ThereFrom = std::array<size_t, kCacheGroupsMax>;
  void Attach(size_t group, int32_t block, int32_t beside);
  void Detach(size_t group, int32_t beside);
  bool CanGoOnAfter(size_t blocks, const ThereFrom& there_from) const;
  uint64_t HashOf(int32_t parent, uint64_t salt, std::span<const int32_t> ids) const;
  int32_t Find(uint64_t hash, int32_t parent, uint64_t salt, std::span<const int32_t> ids) const;
  size_t Bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  CachePools* const pools_;
  BlockPool* const pool_;  // of the first group
  const HashFn hash_;
  const uint64_t seed_;
  std::vector<Node> nodes_;            // by block
  std::unique_ptr<int32_t[]> ids_;     // [blocks][kKvBlockTokens]
  std::vector<int32_t> buckets_;       // a power of two of them
  std::vector<Attachments> attached_;  // by group; the first has none
};

}  // namespace penstock::kv
