// Steps of a decoder: the tokens of a few sequences go through its program (program/program.h)
// together; their keys and values are kept in a cache for the steps to come.
//
//   sequence   a text so far: `past` tokens are cached, `rows` new ones go through this step (one
//              when it decodes, many for a prompt)
//   block      room in the cache for kKvBlockTokens tokens of one sequence, in all layers of
//              an area (KvArea); the caller says which blocks a sequence has (kv/sequence.h)
//
// Where attention is not causal (CachedAttentionShape) a sequence goes through one step as a whole.
//
// A token's results are the same to the bit whatever else is in the step, however its prompt was
// cut into steps, on however many threads, and whether the tokens before it were computed now or
// are cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/kv_block.h"
#include "common/status.h"
#include "numbers/dtype.h"

namespace penstock {

struct StepSequence {
  int32_t rows = 0;
  int32_t past = 0;
  // Block i holds positions [kKvBlockTokens i, kKvBlockTokens (i + 1)); at least as many as past +
  // rows take. No block that is written belongs to two sequences.
  std::span<const int32_t> blocks;
  // The same of the window area, if the run has one. Blocks before FirstSeenBlock(past, window())
  // are not read and may be -1.
  std::span<const int32_t> window_blocks = {};
  // Of runs with a rope_switch(): StepRun::LongRope of the whole sequence, which may go on in later
  // steps. All tokens of a sequence are computed with one value: a sequence that grows beyond the
  // switch begins anew, with past = 0.
  bool long_rope = false;
};

struct StepBatch {
  std::span<const int32_t> ids;  // of all sequences, end to end
  std::span<const StepSequence> sequences;
  std::span<const int32_t>
      logit_rows;  // rows of `ids` whose logits, or states, are wanted, ascending
};

// Takes logits where they are made, a part of the vocabulary at a time, while they are in cache.
class LogitSink {
 public:
  virtual ~LogitSink() = default;
  // Logits of logit row `row` (an index into StepBatch::logit_rows) and ids [first_id, first_id +
  // logits.size()): first_id is a multiple of kLogitPieceIds, and pieces end at such a multiple or
  // with the vocabulary. Called by all workers at once, each id once; must not throw.
  virtual void Add(size_t worker, size_t row, std::span<const float> logits, size_t first_id) = 0;
};
inline constexpr size_t kLogitPieceIds = 256;

// For measurements: what a backend does to be fast, to be switched off one by one. Results are the
// same to the bit.
struct StepTuning {
  bool own_rows = true;    // few rows are normed and packed by every thread for itself
  bool split_keys = true;  // the keys of a sequence that decodes are shared out among the threads
  bool fuse_heads = true;  // heads are rotated and appended by the thread that projected them
};

// Seconds of all threads together since the run was made or its profile was reset.
struct StepProfile {
  int64_t steps = 0;
  double lookup_s = 0;
  double project_s = 0;  // norm, q, k and v, rotation, appending
  double attend_s = 0;
  double out_s = 0;
  double gate_up_s = 0;  // norm, gate and up
  double down_s = 0;
  double logits_s = 0;
  double wait_s = 0;  // threads for each other
};
struct StepStage {
  const char* name;
  double StepProfile::*seconds;
};
// All stages in their order, waiting last.
inline constexpr StepStage kStepStages[] = {
    {"lookup", &StepProfile::lookup_s},   {"project", &StepProfile::project_s},
    {"attend", &StepProfile::attend_s},   {"out", &StepProfile::out_s},
    {"gate_up", &StepProfile::gate_up_s}, {"down", &StepProfile::down_s},
    {"logits", &StepProfile::logits_s},   {"wait", &StepProfile::wait_s}};

struct StepOptions {
  DType cache_type = DType::kBf16;  // of keys and values: kF32, kF16, kBf16 or kI8
  int32_t blocks = 0;               // of the cache
  int32_t rows = 1;                 // the most in a step
  int32_t logit_rows = 1;           // the most in a step
  bool profile = false;             // for TakeProfile, which costs a little
  StepTuning tuning;
  // Of its window area, for programs that have layers with a window and are causal; 0: all layers
  // are in one area.
  int32_t window_blocks = 0;
};

// A prepared program, its cache and its activations. One thread at a time.
class StepRun {
 public:
  virtual ~StepRun() = default;
  // Threads that call LogitSink::Add: `worker` is below it.
  virtual size_t workers() const = 0;
  // As Backend::PlaceCaller: for a thread that calls Run all the time.
  virtual void PlaceCaller() const {}
  // Tokens that the layers of the window area see, the token itself included, at most; 0: there is
  // no such area.
  virtual int32_t window() const { return 0; }
  // Program::rope_switch: sequences of more tokens are rotated otherwise; 0: all alike.
  virtual int32_t rope_switch() const { return 0; }
  // Of a sequence of so many tokens; see StepSequence.
  bool LongRope(size_t tokens) const {
    return rope_switch() > 0 && tokens > static_cast<size_t>(rope_switch());
  }
  // Bytes of a block of an area, of all its layers; 0: it has none.
  virtual uint64_t block_bytes(KvArea area) const = 0;
  // Pages of the system are taken for a group of blocks when one of them is written, and given back
  // for whole groups. Group g: blocks [g * group_blocks, (g + 1) * group_blocks).
  virtual int32_t group_blocks() const { return 1; }
  // Bytes of the groups of all areas that may have pages; about, for huge pages reach over their
  // ends. Any thread.
  virtual uint64_t CommittedBytes() const { return 0; }
  // Gives the pages of groups back to the system, of those whose blocks are all in `blocks`, in any
  // order; what was in them is lost. Between steps; takes up to 0.04 ms a MB, allocates nothing.
  // Returns by how much CommittedBytes fell.
  virtual uint64_t ReleaseBlocks(KvArea /*area*/, std::span<const int32_t> /*blocks*/) { return 0; }
  // Bytes of activations and scratch; the cache takes CommittedBytes.
  virtual uint64_t HeldBytes() const = 0;
  // Runs a step; allocates nothing. `sink` may be null. kInvalidArgument, field: inputs (no rows,
  // more than StepOptions::rows, an id outside the vocabulary), sequences (rows that do not add up,
  // blocks that are missing or unknown, more than the program's max_length, more than rope_switch()
  // without long_rope), logit_rows.
  virtual Status Run(const StepBatch& batch, LogitSink* sink) = 0;
  // With StepOptions::profile; begins anew.
  virtual StepProfile TakeProfile() = 0;
  // The last step's result of a logit row: logits, [vocabulary], or states, [hidden], as the
  // program ends; valid until the next Run.
  virtual std::span<const float> logits(size_t row) const = 0;
};

}  // namespace penstock
