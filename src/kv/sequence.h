// A sequence's blocks: where the keys and values of a text's tokens lie, as CachedSequence wants.
//
//   sequence.TakeCached(ids);                  // what other texts that began so have left
//   for each step:
//     sequence.Reserve(rows)                   // room; shortage: someone must release
//     run->Run: {rows, past = sequence.length(), sequence.tables()}
//     sequence.Append(ids of these rows)       // they are written: whole blocks become known
//   sequence.Release();                        // text over, preempted or cancelled
//
// Blocks that hold tokens before length() are never written again, so sequences share them; what is
// written belongs to one sequence alone. Where Append completes a block whose tokens are known from
// another sequence, that one's block is used and the own one given back: tokens have the same bits
// wherever they were computed. So tables() may change in Append, between steps.
//
// In groups that are not full, a sequence gives its blocks back when no token to come reads them
// (kv/group_policy.h), so that it holds those of about its window, or its state, and the rows of a
// step. It keeps those that a text reads which goes on after its last whole block, for forks and
// for the next turn.
//
// The owner of the pools calls. Memory is taken at construction; a sequence can be used for one
// text after another.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/kv_block.h"
#include "base/status.h"
#include "kv/cache_pools.h"
#include "kv/prefix_cache.h"

namespace penstock::kv {

class Sequence {
 public:
  // `cache` may be null: nothing is reused; else it is of the same pools. All must outlive the
  // sequence. context: the most tokens. Texts with another salt share no blocks.
  Sequence(CachePools* pools, PrefixCache* cache, int32_t context, uint64_t salt = 0);
  ~Sequence() { Release(); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Tokens whose keys, values and states are there.
  int32_t length() const { return length_; }
  // A table for each group, of at least the blocks that the length and Reserve need; -1 for those
  // given back.
  BlockTables tables() const { return tables_; }
  const BlockTable& blocks(size_t group = 0) const { return tables_[group]; }
  void SetSalt(uint64_t salt);  // of a sequence without tokens

  // `ids`: the whole text, as far as it is known. Continues by the longest known run of blocks
  // after length(), which must be at the end of a block, else nothing is gained; at least one id is
  // left to compute. Returns the tokens gained. Before the first step, and before later chunks of a
  // prompt, as another sequence may have been quicker. Room that was reserved is given back.
  int32_t TakeCached(std::span<const int32_t> ids);

  // Room for `tokens` more. kInvalidArgument, field context: more than the context holds.
  // kResourceExhausted: more blocks than are available; nothing has changed then.
  Status Reserve(int32_t tokens);
  // Blocks that Reserve would take from each pool.
  int32_t MissingBlocks(int32_t tokens) const;
  // Whether the pools have room for `tokens` more, which are reserved and appended at most
  // `step_tokens` at a time, and for `spare` blocks of each group besides.
  bool Fits(int32_t tokens, int32_t step_tokens, const GroupCounts& spare) const;

  // All tokens that a step wrote, within what was reserved.
  void Append(std::span<const int32_t> ids);

  // An empty sequence becomes the beginning of `other`, `tokens` of it at most: whole blocks are
  // shared, what is after them is left to compute. Nothing is shared where what the next token
  // reads of another group is gone.
  void Fork(const Sequence& other, int32_t tokens);

  // Drops tokens from `length` on, and reserved room. A last block that others may read is dropped
  // too, as is one that cannot be shortened; returns the length that is left, at most 31 below. But
  // all tokens are dropped where what the next one would read of another group is gone.
  int32_t Truncate(int32_t length);

  // Gives all blocks back, the last first; what the cache knows stays there until it is evicted.
  void Release();

 private:
  int32_t Whole() const { return length_ / kKvBlockTokens; }
  int32_t BlockBefore(int32_t index) const {
    return index == 0 ? -1 : tables_[0][static_cast<size_t>(index) - 1];
  }
  GroupBlocks BlocksAt(size_t index) const;
  void Push(const GroupBlocks& blocks);
  void ReleasePassed();
  bool HoldNeeded();
  void TakeAttached();
  void TakeTail(std::span<const int32_t> ids);
  void DropBlocks(size_t keep);

  CachePools* const pools_;
  PrefixCache* const cache_;
  const int32_t context_;
  uint64_t salt_;
  int32_t length_ = 0;
  // By group; all are as long. Those before held_from_ are -1; it is at most
  // FirstNeeded(Whole()), so 0 for the first group.
  std::vector<BlockTable> tables_;
  std::array<size_t, kCacheGroupsMax> held_from_{};
  std::array<int32_t, kKvBlockTokens> last_ids_;  // of the last block, where it is not whole
};

}  // namespace penstock::kv
