// StepWorker: one thread's part of a decoder's step. All workers walk through the ops together and
// meet at barriers; between two barriers each has a share of the panels, heads or rows.
//
//   attention      norm, q k v, rope, append | chunks of keys |
//   linear         product and sum |
//   feed_forward   norm, in and up | out and sum |
//
// "|" is a barrier. Inputs of up to kOwnRows rows are normed and packed by every worker for itself;
// of more rows each worker packs some, and there is a barrier more. Heads that are not whole panels
// and norms after a linear layer cost one more each.
//
// Nothing here depends on how the work is shared out, so neither do the bits.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/step_shared.h"
#include "cpu/step_shares.h"
#include "threads/request_context.h"

namespace penstock::cpu {

class StepWorker {
 public:
  StepWorker(StepShared* shared, size_t worker, HugePageArena* arena);

  // To be called by all workers of the step at once.
  void Run() noexcept;
  uint64_t bytes() const;
  // Seconds in phases that share panels, of all steps that were timed since TakeProfile.
  double LinearSeconds() const;
  // Seconds by StepStage since the last call.
  std::array<double, kStepStages> TakeProfile() { return std::exchange(profile_, {}); }

 private:
  // A linear layer's input, packed for some types of operands.
  struct Packed {
    const Word* words[kOperandTypes] = {};
  };
  // A linear layer's input. `pick`: its rows in x, or null: all in order.
  struct Input {
    const float* x = nullptr;
    size_t width = 0;
    size_t rows = 0;
    const int32_t* pick = nullptr;
    program::Norm norm;
  };
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };

  // In cpu/ops/.
  void RunOp(const program::EmbedOp& op);
  void RunOp(const program::LinearOp& op);
  void RunOp(const program::FeedForwardOp& op);
  void RunOp(const program::AttentionOp& op);
  void RunOp(const program::PicksOp& op);
  template <typename T>
  void RunOp(const T&) {
    PENSTOCK_CHECK(false);  // refused when the program is prepared
  }

  // Ends a phase: waits for all workers. Its time is counted in `stage`.
  void Meet();
  void Mark(StepStage stage);
  // This worker's share of `count` pieces (step_shares.h).
  Part ShareOf(size_t count) const;
  // Calls work(index) for `count` pieces of this phase, each once over all workers; a worker takes
  // the next piece when it is done with one. For pieces that take different times.
  template <typename Work>
  void ShareSingly(size_t count, const Work& work);

  // The input, normed and packed for every type of operands that `readers` have.
  Packed Pack(const Input& input, std::span<const BlockLinear* const> readers);
  const float* NormRows(const Input& input, size_t begin, size_t end, float* to) const;
  void RunPanels(const BlockLinear& linear, const Packed& packed, Part panels, BlockRun run);
  // A linear layer in the order of reading; heads: its panels are shared out by heads.
  struct Read {
    const BlockLinear* linear;
    const program::AttentionOp* heads;
  };
  void ListLinears();
  // Finds for each linear layer what this worker reads after it, which is asked for ahead. After
  // the first call it allocates nothing.
  void FindNext();
  // x W^T, added to the residual as it says.
  void AddLinear(const BlockLinear& linear, const Packed& packed, const program::Residual& residual,
                 program::ValueId y);

  // Attention: ops/attention.cc.
  // This worker's heads: of the query heads, then of the kv heads.
  Part HeadsOf(const program::AttentionOp& op) const;
  // q, k and v of all rows.
  struct HeadRows {
    float* q;
    float* k;
    float* v;
    size_t head_size;
  };
  // What attention has to do for one sequence, for each kv head.
  struct SequenceWork {
    size_t sequence = 0;
    size_t first_chunk = 0;
    size_t tile_rows = 1;
    bool split = false;  // a piece is a chunk of the one row; else it is a tile of rows
    size_t pieces = 0;
  };
  static size_t AttentionScratchFloats(const StepShared& shared);
  HeadRows HeadRowsOf(const program::AttentionShape& shape) const;
  KvView CacheOf(const program::AttentionShape& shape, size_t sequence, size_t kv_head) const;
  void ProjectHeads(const program::AttentionOp& op, const Packed& packed);
  // Of `heads` query heads and then the kv heads: norms and rotates; appends a kv head.
  void FinishHead(const program::AttentionShape& shape, size_t head);
  SequenceWork WorkOf(const program::AttentionShape& shape, size_t sequence) const;
  void Attend(const program::AttentionOp& op);
  AttendTask TaskOf(const program::AttentionOp& op, const SequenceWork& work, size_t kv_head,
                    size_t first_row, size_t rows) const;
  void AttendRows(const program::AttentionOp& op, const SequenceWork& work, size_t kv_head,
                  size_t tile);
  void AttendChunk(const program::AttentionOp& op, const SequenceWork& work, size_t kv_head,
                   size_t piece);
  void FinishLines(const program::AttentionOp& op, const SequenceWork& work, size_t kv_head,
                   size_t first_row, const AttendTask& task, const AttentionLines& lines) const;

  StepShared& shared_;
  const Kernels& kernels_;
  const size_t worker_;
  uint64_t bounds_version_ = 0;  // of the shares for which next_ was found
  std::vector<Read> linears_;
  std::unordered_map<const BlockLinear*, const uint8_t*> next_;
  size_t rows_ = 0;
  size_t phase_ = 0;
  StepStage stage_ = StepStage::kLookup;  // under way
  std::array<double, kStepStages> profile_{};
  Clock::time_point marked_;
  AlignedBuffer normed_;                                              // [kOwnRows][..]
  std::array<std::unique_ptr<AlignedBuffer>, kOperandTypes> packed_;  // of kOwnRows rows
  AlignedBuffer gemm_scratch_;
  sample::LogitScan scan_;
  AlignedBuffer attention_scratch_;
};

template <typename Work>
void StepWorker::ShareSingly(size_t count, const Work& work) {
  std::atomic<size_t>& taken = shared_.taken[phase_ % 3];
  while (true) {
    const size_t index = taken.fetch_add(1, std::memory_order_relaxed);
    if (index >= count) break;
    work(index);
  }
}

}  // namespace penstock::cpu
