// What the workers of a decoder's step share: the step, its values, the cache, and the points where
// they meet. CpuStepRun owns it, StepWorkers work on it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/int_math.h"
#include "cpu/block_linear.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/kv_layout.h"
#include "cpu/kv_pages.h"
#include "cpu/packed_linear.h"
#include "cpu/step_profile.h"
#include "os/processors.h"
#include "program/program.h"
#include "program/program_run.h"
#include "sample/logit_scan.h"
#include "threads/spin_barrier.h"

namespace penstock::cpu {

// The largest number of rows for which every worker norms and packs a linear layer's input for
// itself. That costs less than sharing the work and waiting for each other.
inline constexpr size_t kOwnRows = 8;
// The largest number of sequences per worker for which workers share the key chunks of a sequence
// that decodes. Larger steps have enough other work to share.
inline constexpr size_t kSplitSequences = 2;
// Attention works on this many lines together, or on all lines of one row if they are more. A line
// is a row and a query head of the group.
inline constexpr size_t kAttendLines = 32;

// The index of a matrix's type of operands in arrays of packed rows.
inline constexpr size_t kOperandTypes = 3;
inline constexpr numbers::DType kOperandDTypes[kOperandTypes] = {
    numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32};
constexpr size_t OperandIndex(numbers::DType dtype) {
  return dtype == numbers::DType::kI8 ? 0 : (dtype == numbers::DType::kBf16 ? 1 : 2);
}

// The largest of what the ops of a program need; in floats, words or rows.
struct StepSizes {
  explicit StepSizes(const program::Program& program);

  size_t in = 0;       // columns of a linear layer's input
  size_t qkv = 0;      // columns of q, k and v together
  size_t inner = 0;    // columns between the linear layers of a feed-forward
  size_t product = 0;  // columns of a result that is normed or scaled before it is added; 0: none
  size_t head_size = 0;
  size_t kv_heads = 0;
  size_t lines = 0;   // of attention that are worked on together
  size_t group = 0;   // query heads of a kv head
  size_t layers = 0;  // of the cache
  size_t context = 0;
  std::array<size_t, kOperandTypes> packed_in{};  // columns of the inputs that are packed so

 private:
  void Add(const program::LinearOp& op);
  void Add(const program::FeedForwardOp& op);
  void Add(const program::AttentionOp& op);
  void Add(const program::PicksOp& op);
  template <typename T>
  void Add(const T&) {}
  // A linear layer's input, and its result.
  void Input(const program::PackedLinear* weight);
  void Result(const program::PackedLinear* weight, const program::Residual& residual);
};

// What attention found for lines of some keys, in memory of Floats.
struct AttentionLines {
  AttentionLines(float* memory, size_t lines)
      : scores(reinterpret_cast<ScorePart*>(memory)), sums(memory + ScoreFloats(lines)) {}
  static size_t ScoreFloats(size_t lines) {
    return penstock::RoundUp(lines * sizeof(ScorePart) / sizeof(float), kLineWords);
  }
  static size_t Floats(size_t lines, size_t head_size) {
    return ScoreFloats(lines) + lines * KvRowValues(head_size);
  }

  ScorePart* scores;  // [lines]
  float* sums;        // [lines, KvRowValues(head_size)]
};

// The cache of a group.
struct GroupCache {
  // Of the step under way: the blocks of table `group`. Allocates only where sequences share more
  // blocks than the cache has.
  void Begin(const program::PackedBatch& step, size_t group);

  int32_t blocks = 0;
  size_t heads = 0;                  // kv heads of all its layers
  KvPages pages;                     // without heads it has none
  std::vector<size_t> first_places;  // of each sequence, in `places`
  std::vector<int32_t> places;       // KvPages::PlaceOf the blocks of all sequences
};

// What workers found in the picked rows of logits, each in its part of the vocabulary.
class FoundPicks {
 public:
  // `vocabulary` 0: the program ends in states.
  FoundPicks(size_t picks, size_t workers, size_t vocabulary);

  // `active`: workers that take part.
  void Begin(const program::PackedBatch& step, size_t active);
  program::PickWant want(size_t pick) const { return wants_[pick]; }
  // Of the row's sums; null: they are not wanted.
  sample::LogitBlock* Blocks(size_t pick);
  void Set(size_t pick, size_t worker, const sample::LogitPart& part);
  program::FoundLogits Of(size_t pick) const;
  uint64_t bytes() const;

 private:
  const size_t workers_;
  size_t active_ = 0;  // of the last step
  const size_t blocks_of_row_;
  std::vector<program::PickWant> wants_;    // of the last step
  std::vector<sample::LogitPart> parts_;    // [picks][workers]
  std::vector<sample::Candidate> best_;     // [picks][workers][kCandidatesMax]
  std::vector<sample::LogitBlock> blocks_;  // [picks][blocks_of_row_]
};

struct StepShared {
  StepShared(const Kernels* kernel_table, const ThreadPlan& plan,
             const program::Program& step_program, const program::PrepareOptions& step_options,
             HugePageArena* arena);

  uint64_t bytes() const;           // of all but the cache
  uint64_t CommittedBytes() const;  // of the cache
  // Sets what depends on the step alone. `active`: the first workers, which take part in it, and
  // whose shares are in `bounds`; `time`: their phases are timed.
  void Begin(const program::PackedBatch& step, size_t active, bool time);
  void PlaceLayers();
  const BlockLinear& Linear(const program::PackedLinear* weight) const {
    return static_cast<const BlockLinear&>(*weight);
  }
  // Rows of a sequence in the step under way.
  size_t FirstRow(size_t sequence) const { return static_cast<size_t>(batch->offsets[sequence]); }
  size_t RowsOf(size_t sequence) const { return static_cast<size_t>(batch->length(sequence)); }
  float* Data(program::ValueId id) const { return values[id]->data(); }
  size_t Width(program::ValueId id) const { return static_cast<size_t>(program.values[id].width); }

  const Kernels* const kernels;
  const size_t workers_max;
  // Workers that take part in the step under way; bounds of their shares (StepShares::Fill), and how
  // often these changed; whether phases are timed.
  size_t workers;
  std::vector<uint32_t> bounds;
  uint64_t bounds_version = 0;
  bool timed = false;
  const program::Program& program;
  const program::PrepareOptions options;
  CpuTuning tuning;
  const StepSizes sizes;
  const size_t rows_max;

  std::vector<std::unique_ptr<AlignedBuffer>> values;  // by id
  AlignedBuffer normed;                                // [rows][sizes.in]
  AlignedBuffer qkv;                                   // q of all rows, then k, then v
  AlignedBuffer inner;
  AlignedBuffer product;
  std::array<std::unique_ptr<AlignedBuffer>, kOperandTypes> packed;  // of all rows
  // Of sequences whose chunks are shared out: AttentionLines of each, its kv heads and their
  // chunks.
  const size_t split_sequences;
  const size_t partial_chunks;
  AlignedBuffer partials;
  std::vector<std::atomic<uint32_t>> chunks_done;  // of each such sequence and kv head
  const size_t head_bytes;                         // of a kv head's block
  // Where a layer's keys and values lie.
  struct LayerPlace {
    size_t group = 0;
    size_t first_head = 0;  // of the group's
  };
  std::vector<CacheGroup> groups;
  std::vector<GroupCache> caches;  // of each group
  std::vector<LayerPlace> layers;

  // The step under way.
  const program::PackedBatch* batch = nullptr;
  FoundPicks found;

  SpinBarrier barrier;
  // How much of its work was taken, for the phase under way, the next and the last one.
  std::array<std::atomic<size_t>, 3> taken{};
};

}  // namespace penstock::cpu
