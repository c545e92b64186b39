// A sequence's blocks: where the keys and values of a text's tokens lie, as StepSequence wants it.
//
//   sequence.TakeCached(ids);                  // what other texts that began so have left
//   for each step:
//     sequence.Reserve(rows)                   // room; shortage: someone must release
//     run->Run: {rows, past = sequence.length(), sequence.blocks()}
//     sequence.Append(ids of these rows)       // they are written: whole blocks become known
//   sequence.Release();                        // text over, preempted or cancelled
//
// Blocks that hold tokens before length() are never written again, so sequences share them; what is
// written belongs to one sequence alone. Where Append completes a block whose tokens are known from
// another sequence, that one's block is used and the own one given back: tokens have the same bits
// wherever they were computed. So blocks() may change in Append, between steps.
//
// The owner of the pool calls. Memory is taken at construction; a sequence can be used for one text
// after another.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/kv_block.h"
#include "common/status.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"

namespace penstock {

class Sequence {
 public:
  // `cache` may be null: nothing is reused. Both must outlive the sequence. context: the most
  // tokens. Texts with another salt share no blocks.
  Sequence(BlockPool* pool, PrefixCache* cache, int32_t context, uint64_t salt = 0);
  ~Sequence() { Release(); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Tokens whose keys and values are there.
  int32_t length() const { return length_; }
  // Holds at least what the length and Reserve need.
  std::span<const int32_t> blocks() const { return blocks_; }
  void SetSalt(uint64_t salt);  // of a sequence without tokens

  // `ids`: the whole text, as far as it is known. Continues by the longest known run of blocks
  // after length(), which must be at the end of a block, else nothing is gained; at least one id is
  // left to compute. Returns the tokens gained. Before the first step, and before later chunks of a
  // prompt, as another sequence may have been quicker. Room that was reserved is given back.
  int32_t TakeCached(std::span<const int32_t> ids);

  // Room for `tokens` more. kInvalidArgument, field context: more than the context holds.
  // kResourceExhausted: more blocks than are available; nothing has changed then.
  Status Reserve(int32_t tokens);
  // Blocks that Reserve would take from the pool.
  int32_t MissingBlocks(int32_t tokens) const;

  // Tokens that a step wrote, within what was reserved.
  void Append(std::span<const int32_t> ids);

  // An empty sequence becomes the beginning of `other`: its whole blocks are shared; up to 31
  // tokens after them are left to compute.
  void Fork(const Sequence& other);

  // Drops tokens from `length` on, and reserved room. A last block that others may read is dropped
  // too; returns the length that is left, at most 31 below.
  int32_t Truncate(int32_t length);

  // Gives all blocks back, the last first; what the cache knows stays there until it is evicted.
  void Release();

 private:
  int32_t Whole() const { return length_ / kKvBlockTokens; }
  int32_t BlockBefore(int32_t index) const {
    return index == 0 ? -1 : blocks_[static_cast<size_t>(index) - 1];
  }
  void TakeTail(std::span<const int32_t> ids);
  void DropBlocks(size_t keep);

  BlockPool* const pool_;
  PrefixCache* const cache_;
  const int32_t context_;
  uint64_t salt_;
  int32_t length_ = 0;
  std::vector<int32_t> blocks_;
  std::array<int32_t, kKvBlockTokens> last_ids_;  // of the last block, where it is not whole
};

}  // namespace penstock
