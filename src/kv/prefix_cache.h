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
// The owner of the pool calls. Memory is taken at construction, about 180 bytes a block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/kv_block.h"
#include "kv/block_pool.h"

namespace penstock {

class PrefixCache final : private EvictionListener {
 public:
  // Of the hash so far and ids.
  using HashFn = uint64_t (*)(uint64_t before, std::span<const int32_t> ids);

  // `pool` must outlive the cache; it has one cache at most. `hash`: null for XXH3; for tests.
  explicit PrefixCache(BlockPool* pool, HashFn hash = nullptr);
  ~PrefixCache() override;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The blocks that hold the first ids of `ids`, after block `parent` (-1: a text begins), into
  // `blocks` as far as they fit; how many. At least one id is left over. They get no reference:
  // the caller adds one to each before anything else.
  size_t Lookup(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                std::span<int32_t> blocks) const;
  // Tokens of the text that whole blocks hold, as Lookup; changes nothing.
  size_t CachedTokens(uint64_t salt, std::span<const int32_t> ids) const;

  // `block`, which the caller alone holds, holds kKvBlockTokens ids after `parent`, which is -1 or
  // known. Returns the block to use from here on: another one if these ids were known already. Then
  // the caller's reference has passed to that one, and `block` is free.
  int32_t Insert(int32_t parent, uint64_t salt, std::span<const int32_t> ids, int32_t block);

  // The unfinished last block of a text, with fewer than kKvBlockTokens ids after `parent`, a known
  // block. Each block has one at most after it, the newest. The caller alone holds it, and releases
  // it next.
  void InsertTail(int32_t parent, std::span<const int32_t> ids, int32_t block);
  // Takes the unfinished block after `parent` out of the cache, if `ids` begins with all its ids
  // and has more: the caller alone holds it and may write on in it. -1: there is none.
  int32_t TakeTail(int32_t parent, std::span<const int32_t> ids, size_t* tokens);

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
  void OnEvict(int32_t block) override;
  uint64_t HashOf(int32_t parent, uint64_t salt, std::span<const int32_t> ids) const;
  int32_t Find(uint64_t hash, int32_t parent, uint64_t salt, std::span<const int32_t> ids) const;
  size_t Bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  BlockPool* const pool_;
  const HashFn hash_;
  const uint64_t seed_;
  std::vector<Node> nodes_;         // by block
  std::unique_ptr<int32_t[]> ids_;  // [blocks][kKvBlockTokens]
  std::vector<int32_t> buckets_;    // a power of two of them
};

}  // namespace penstock
