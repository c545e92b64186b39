// ProgramRun: programs that a Backend prepared, their activations and, for a program with a cache,
// the cache of keys, values and states.
//
// Numbers: a token's results are the same to the bit whatever else is in the batch, however its
// prompt was cut into steps, on however many threads, and whether the tokens before it were
// computed now or are cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/kv_block.h"
#include "base/status.h"
#include "numbers/dtype.h"
#include "program/packed_batch.h"
#include "program/program.h"
#include "sample/logit_scan.h"

namespace penstock::program {

// For a program with a cache; others need none of it.
struct PrepareOptions {
  numbers::DType cache_type =
      numbers::DType::kBf16;  // of keys and values: kF32, kF16, kBf16 or kI8
  // Blocks of each of the program's groups (CacheGroups), in their order. The layers of a window
  // group that has no number here are in the first group.
  std::vector<int32_t> blocks = {};
  int32_t rows = 1;      // the most in a batch
  int32_t picks = 1;     // the most in a batch
  bool profile = false;  // for TakeProfile, which costs a little
  // For measurements: Backend::optimisations that the run does without. Results are the same to the
  // bit.
  std::vector<std::string> without;
  bool ahead = false;  // two steps may be under way, where the run draws (ProgramRun::draws)
};

// What was found in a row of logits; empty where it was not wanted.
struct FoundLogits {
  std::span<const sample::LogitPart> parts;    // of all parts of the vocabulary
  std::span<const sample::LogitBlock> blocks;  // of the whole vocabulary, where sums were wanted
  int32_t drawn = -1;                          // the token that was drawn; -1: none was
};

// A part of what a run does, and the seconds of all threads together in it.
struct StageTime {
  const char* name;
  double seconds;
};

// One thread at a time, unless a function says that any thread may call it.
class ProgramRun {
 public:
  virtual ~ProgramRun() = default;

  // Runs program `index` of those prepared.
  //   without a cache   sinks[s] takes the rows of the result that belong to sequence s: one, or
  //                     one for each of its tokens. Allocates what Reserve has not.
  //   with one          no sinks: results are those of Found and Rows. Allocates nothing.
  // Errors: those of CheckBatch; kResourceExhausted: out of memory, the next Run works as usual.
  virtual Status Run(size_t index, const PackedBatch& batch, std::span<float* const> sinks) = 0;
  Status Run(const PackedBatch& batch) { return Run(0, batch, {}); }
  // Run in two, with a cache: Finish waits for the first step that has not finished. Two may be under
  // way where draws(), else one. Results are of the step that finished last, until the step after
  // next is started (without draws(): the next). Where Start fails nothing was started.
  virtual Status Start(const PackedBatch& batch) { return Run(batch); }
  virtual Status Finish() { return Status::Ok(); }
  // Whether it draws tokens itself, so that a step may be started before the tokens of the one before
  // are known (PackedBatch::draws), and two may be under way.
  virtual bool draws() const { return false; }
  // What the last Run took of a device apart from the host, which others use while it waits; 0: it
  // ran on the host.
  virtual double device_seconds() const { return 0; }
  // As Backend::PlaceCaller: for a thread that calls Run all the time.
  virtual void PlaceCaller() const {}

  // Activations. With a cache they are as large as PrepareOptions asks for, from the start to the
  // end of the run; else they grow with the batches.
  // Allocates for batches of that size, so that Run allocates nothing for batches that fit.
  // kResourceExhausted: out of memory.
  virtual Status Reserve(size_t /*tokens*/, size_t /*sequences*/) { return Status::Ok(); }
  // What HeldBytes is, about, once batches of that size have run. The programs' weights are not
  // read: they may be those of a DryBackend.
  virtual uint64_t BytesFor(size_t /*tokens*/, size_t /*sequences*/) const { return HeldBytes(); }
  // Bytes of activations, and of scratch that all runs of the backend may share; the cache takes
  // CommittedBytes. Any thread.
  virtual uint64_t HeldBytes() const { return 0; }
  // Gives the activations back to the system, and the scratch unless another run uses it. Returns
  // the bytes given back. The next Run allocates again.
  virtual uint64_t Release() { return 0; }

  // Results of the last Run with a cache, until the next one.
  // The most parts that Found gives.
  virtual size_t parts_max() const { return 1; }
  // What was found in the logits of a pick.
  virtual FoundLogits Found(size_t /*pick*/) const { return {}; }
  // The results of picks [first, first + count), end to end, logits or states as the program ends.
  virtual Expected<std::span<const float>> Rows(size_t /*first*/, size_t /*count*/) {
    return Status::Unsupported("the results of this program are in the sinks");
  }
  Expected<std::span<const float>> Row(size_t pick) { return Rows(pick, 1); }

  // The cache.
  // Its groups; the first one is full.
  virtual std::span<const CacheGroup> groups() const { return {&kFullGroup, 1}; }
  // Program::rope_switch: sequences of more tokens are rotated otherwise; 0: all alike.
  virtual int32_t rope_switch() const { return 0; }
  // CachedSequence::long_rope for a sequence of this many tokens.
  bool LongRope(size_t tokens) const {
    return rope_switch() > 0 && tokens > static_cast<size_t>(rope_switch());
  }
  // Bytes of a block of a group, of all its layers; 0: it has none.
  virtual uint64_t block_bytes(size_t /*group*/) const { return 0; }
  // The cache takes memory from the system in groups of this many neighbouring blocks, blocks
  // [i * page_blocks, (i + 1) * page_blocks): when one of them is first written. ReleaseBlocks gives
  // memory back in the same groups.
  virtual int32_t page_blocks() const { return 1; }
  // Bytes of the blocks of all groups that may have pages; about, for huge pages reach over their
  // ends. Any thread.
  virtual uint64_t CommittedBytes() const { return 0; }
  // Gives pages of a group back to the system, of neighbours that are all in `blocks`, in any
  // order; what was in them is lost. Between batches; takes up to 0.04 ms a MB, allocates nothing.
  // Returns by how much CommittedBytes fell.
  virtual uint64_t ReleaseBlocks(size_t /*group*/, std::span<const int32_t> /*blocks*/) {
    return 0;
  }

  // With PrepareOptions::profile: since the run was made or this was last called, in the order of
  // the stages; "wait" is that of threads for each other.
  virtual std::vector<StageTime> TakeProfile() { return {}; }
};

// Checks a batch for a program that CheckProgram passed.
//
// Without a cache: kInvalidArgument, field: inputs (an empty batch or sequence, one longer than
// max_length, an id outside the vocabulary), type_ids, offsets, pool_skip, out (not a sink for each
// sequence).
Status CheckBatch(const Program& program, const PackedBatch& batch, std::span<float* const> sinks);
// With one, of a run with these groups: kInvalidArgument, field: inputs (no rows, more than
// options.rows, an id outside the vocabulary), sequences (rows that do not add up, blocks that are
// missing or unknown, more tokens than max_length, more than rope_switch without long_rope), picks,
// wants, draws, sources.
Status CheckCachedBatch(const Program& program, const PackedBatch& batch,
                        const PrepareOptions& options, std::span<const CacheGroup> groups);

}  // namespace penstock::program
