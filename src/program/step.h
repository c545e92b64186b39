// Steps of a decoder: the tokens of a few sequences go through its program (program/program.h)
// together; their keys and values are kept in a cache for the steps to come.
//
//   sequence   a text so far: `past` tokens are cached, `rows` new ones go through this step (one
//              when it decodes, many for a prompt)
//   block      room in a group of the cache (common/kv_block.h) for kKvBlockTokens tokens of one
//              sequence; the caller says which blocks a sequence has (kv/sequence.h)
//
// Where attention is not causal (AttentionShape) a sequence goes through one step as a whole.
//
// A token's results are the same to the bit whatever else is in the step, however its prompt was
// cut into steps, on however many threads, and whether the tokens before it were computed now or
// are cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/kv_block.h"
#include "common/status.h"
#include "numbers/dtype.h"
#include "sample/logit_scan.h"

namespace penstock {

struct StepSequence {
  int32_t rows = 0;
  int32_t past = 0;
  // A table for each group of the run. Block i of it holds positions [kKvBlockTokens i,
  // kKvBlockTokens (i + 1)); at least as many as past + rows take. No block that is written belongs
  // to two sequences. What is not read may be -1:
  //   window   blocks before FirstSeenBlock(past, window)
  //   state    all before the one of token past - 1, whose state the step goes on from. The state
  //            after the last token of each block that the step runs through is written to it, so
  //            that those of whole blocks stay as they are: snapshots, which others go on from.
  BlockTables blocks;
  // Of runs with a rope_switch(): StepRun::LongRope of the whole sequence, which may go on in later
  // steps. All tokens of a sequence are computed with one value: a sequence that grows beyond the
  // switch begins anew, with past = 0.
  bool long_rope = false;
};

// What is wanted of a row of logits.
enum class PickWant : uint8_t {
  kRow,   // the row, if it is asked for (StepRun::Rows)
  kBest,  // the best of it as well, found where the logits are made
  kBestAndSums,
};

struct StepBatch {
  std::span<const int32_t> ids;  // of all sequences, end to end
  std::span<const StepSequence> sequences;
  // Rows of `ids` whose logits, or states, are wanted, ascending.
  std::span<const int32_t> picks;
  std::span<const PickWant> wants = {};  // of each pick; or empty: all kRow
};

// What was found in a row of logits; empty where it was not wanted.
struct FoundLogits {
  std::span<const LogitPart> parts;    // of all parts of the vocabulary
  std::span<const LogitBlock> blocks;  // of the whole vocabulary, where sums were wanted
};

// A part of what a run does, and the seconds of all threads together in it.
struct StageTime {
  const char* name;
  double seconds;
};

struct StepOptions {
  DType cache_type = DType::kBf16;  // of keys and values: kF32, kF16, kBf16 or kI8
  // Blocks of each of the program's groups (CacheGroups), in their order. The layers of a window
  // group that has no number here are in the first group.
  std::vector<int32_t> blocks = {};
  int32_t rows = 1;      // the most in a step
  int32_t picks = 1;     // the most in a step
  bool profile = false;  // for TakeProfile, which costs a little
  // For measurements: Backend::optimisations that the run does without. Results are the same to the
  // bit.
  std::vector<std::string> without;
};

// A prepared program, its cache and its activations. One thread at a time.
class StepRun {
 public:
  virtual ~StepRun() = default;
  // The most parts that Found gives.
  virtual size_t parts_max() const { return 1; }
  // As Backend::PlaceCaller: for a thread that calls Run all the time.
  virtual void PlaceCaller() const {}
  // The groups of the cache; the first one is full.
  virtual std::span<const CacheGroup> groups() const { return {&kFullGroup, 1}; }
  // Program::rope_switch: sequences of more tokens are rotated otherwise; 0: all alike.
  virtual int32_t rope_switch() const { return 0; }
  // Of a sequence of so many tokens; see StepSequence.
  bool LongRope(size_t tokens) const {
    return rope_switch() > 0 && tokens > static_cast<size_t>(rope_switch());
  }
  // Bytes of a block of a group, of all its layers; 0: it has none.
  virtual uint64_t block_bytes(size_t group) const = 0;
  // Pages of the system are taken for so many neighbouring blocks when one of them is written, and
  // given back for all of them: blocks [i * page_blocks, (i + 1) * page_blocks).
  virtual int32_t page_blocks() const { return 1; }
  // Bytes of the blocks of all groups that may have pages; about, for huge pages reach over their
  // ends. Any thread.
  virtual uint64_t CommittedBytes() const { return 0; }
  // Gives pages of a group back to the system, of neighbours that are all in `blocks`, in any
  // order; what was in them is lost. Between steps; takes up to 0.04 ms a MB, allocates nothing.
  // Returns by how much CommittedBytes fell.
  virtual uint64_t ReleaseBlocks(size_t /*group*/, std::span<const int32_t> /*blocks*/) {
    return 0;
  }
  // Bytes of activations and scratch; the cache takes CommittedBytes.
  virtual uint64_t HeldBytes() const = 0;
  // Runs a step; allocates nothing. kInvalidArgument, field: inputs (no rows, more than
  // StepOptions::rows, an id outside the vocabulary), sequences (rows that do not add up, blocks
  // that are missing or unknown, more than the program's max_length, more than rope_switch()
  // without long_rope), picks, wants.
  virtual Status Run(const StepBatch& batch) = 0;
  // With StepOptions::profile: since the run was made or this was last called, in the order of the
  // stages; "wait" is that of threads for each other.
  virtual std::vector<StageTime> TakeProfile() { return {}; }
  // Of the last step, until the next one: what was found in the logits of a pick, and the results
  // of picks [first, first + count), end to end, logits or states as the program ends.
  virtual FoundLogits Found(size_t /*pick*/) const { return {}; }
  virtual Expected<std::span<const float>> Rows(size_t first, size_t count) = 0;
  Expected<std::span<const float>> Row(size_t pick) { return Rows(pick, 1); }
};

}  // namespace penstock
