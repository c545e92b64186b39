// The one batch type: sequences laid end to end, no padding.
//
//   ids      | t t t t | t t | t t t t t t |      one entry a token, tokens() in all
//   offsets  0         4     6             12     sequences() + 1 entries
//
// A program with a cache takes it as a step: the new tokens of each sequence, `cached` with what is
// there of the sequence already, and `picks` with the rows whose results are wanted. A sequence has
// one new token where it decodes, many where it is a prompt. Where attention is not causal
// (AttentionShape) a sequence goes through one step as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/kv_block.h"
#include "sample/draw_best.h"

namespace penstock::program {

// A sequence of a program with a cache.
struct CachedSequence {
  int32_t past = 0;  // tokens that are cached
  // A table for each group of the run. Block i of it holds positions [kKvBlockTokens i,
  // kKvBlockTokens (i + 1)); at least as many as the past and the new tokens take. No block that is
  // written belongs to two sequences. What is not read may be -1:
  //   window   blocks before FirstSeenBlock(past, window)
  //   state    all before the one of token past - 1, whose state the step goes on from. The state
  //            after the last token of each block that the step runs through is written to it, so
  //            that those of whole blocks stay as they are: snapshots, which others go on from.
  BlockTables blocks;
  // Whether the rotary tables for long sequences are used. In a run with a rope_switch() the caller
  // sets it to ProgramRun::LongRope of the whole sequence, later steps included. All tokens of a
  // sequence are computed with one value: a sequence that grows beyond the switch begins anew, with
  // past = 0.
  bool long_rope = false;
};

// What is wanted of a row of logits.
enum class PickWant : uint8_t {
  kRow,   // the row, if it is asked for (ProgramRun::Rows)
  kBest,  // the best of it as well, found where the logits are made
  kBestAndSums,
};

struct PackedBatch {
  std::span<const int32_t> ids;       // [tokens]
  std::span<const int32_t> type_ids;  // [tokens], or empty: all 0
  std::span<const int32_t> offsets;   // [sequences + 1], offsets[0] == 0, non-decreasing
  // Leading tokens of each sequence that pooling leaves out (a prompt); or empty: none.
  std::span<const int32_t> pool_skip;  // [sequences], each below the sequence's length
  // Rows that a program with an InputOp begins with, [tokens, width of its y]; else empty.
  std::span<const float> input;
  // Of the sequences' requests (RequestContext::cache_salt); or empty: all 0.
  std::span<const uint64_t> cache_salts;  // [sequences]
  // Programs with a cache: [sequences]; else empty.
  std::span<const CachedSequence> cached;
  // Programs with a cache: rows of `ids` whose logits, or states, are wanted, ascending.
  std::span<const int32_t> picks;
  std::span<const PickWant> wants;  // of each pick; or empty: all kRow
  // [picks], where the run draws (ProgramRun::draws): how a pick whose want is not kRow draws its
  // token. Keep 0, or empty: it draws none.
  std::span<const sample::DrawRule> draws;
  // [tokens]: the pick of the step started before whose drawn token is the row's; `ids` then has any
  // valid id. -1, or empty: the token is in `ids`.
  std::span<const int32_t> sources;

  size_t tokens() const { return ids.size(); }
  size_t sequences() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  int32_t length(size_t sequence) const { return offsets[sequence + 1] - offsets[sequence]; }
};

// One sequence of a program with a cache, which must outlive the batches made of it.
class SingleSequence {
 public:
  SingleSequence(int64_t rows, int64_t past, BlockTables blocks, bool long_rope = false)
      : offsets_{0, static_cast<int32_t>(rows)},
        cached_{static_cast<int32_t>(past), blocks, long_rope} {}

  PackedBatch Batch(std::span<const int32_t> ids, std::span<const int32_t> picks,
                    std::span<const PickWant> wants = {}) const {
    PackedBatch batch;
    batch.ids = ids;
    batch.offsets = offsets_;
    batch.cached = {&cached_, 1};
    batch.picks = picks;
    batch.wants = wants;
    return batch;
  }

 private:
  int32_t offsets_[2];
  CachedSequence cached_;
};

}  // namespace penstock::program
