// Interpreter: runs the operations of a program without a cache over a part of a batch
// (program_run.h). What it does for each of them is in cpu/ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/cpu_ops.h"
#include "cpu/huge_page_arena.h"
#include "cpu/packed_linear.h"
#include "program/packed_batch.h"
#include "program/program.h"

namespace penstock::cpu {

// A program, and figures computed before it runs.
struct PreparedProgram {
  explicit PreparedProgram(const program::Program& program);

  const program::Program* program;
  size_t token_ops = 0;                // number of ops over tokens, which come first
  std::vector<size_t> columns_before;  // of each value: width of those of its kind before it
  size_t token_width = 0;              // of all values over tokens, floats
  size_t sequence_width = 0;
  std::vector<const program::PackedLinear*> next;  // of each op: the matrix used next, or null
};

// Room for the values over tokens of a part of a batch.
struct TokenRows {
  static constexpr size_t kStep = 128;

  void Reserve(size_t tokens, size_t width, HugePageArena* arena);
  void Release();
  uint64_t bytes() const;
  static uint64_t BytesFor(size_t tokens, size_t width);

  std::unique_ptr<AlignedBuffer> values;
  std::vector<int32_t> position_ids;
  size_t capacity = 0;  // tokens
};

// Runs ops over a part of the batch: some of its sequences, or all of them.
class Interpreter {
 public:
  // Rows of sequences: those of `part` begin at row `first` of the values and of `sinks`.
  Interpreter(const PreparedProgram& prepared, CpuOps* ops, const program::PackedBatch& part,
              TokenRows* tokens, float* sequence_values, size_t sequence_capacity, size_t first)
      : prepared_(prepared),
        ops_(ops),
        part_(part),
        tokens_(tokens),
        sequence_values_(sequence_values),
        sequence_capacity_(sequence_capacity),
        first_(first) {}

  // Ops [begin, end).
  void Run(size_t begin, size_t end);
  // Where the rows of value `id` begin.
  float* Data(program::ValueId id) const;
  size_t Width(program::ValueId id) const {
    return static_cast<size_t>(prepared_.program->values[id].width);
  }

 private:
  float* Optional(program::ValueId id) const {
    return id == program::kNoValue ? nullptr : Data(id);
  }
  size_t RowsOf(program::ValueId id) const {
    return prepared_.program->values[id].rows == program::Rows::kTokens ? part_.tokens()
                                                                        : part_.sequences();
  }
  // Only when an op runs: until then the weights may be those of a DryBackend.
  static const PanelLinear* Panels(const program::PackedLinear* weight) {
    return static_cast<const PanelLinear*>(weight);
  }
  static NormWeights WeightsOf(const program::Norm& norm) {
    return {DataOf(norm.gamma), DataOf(norm.beta), norm.epsilon};
  }
  const PanelLinear* next() const { return Panels(prepared_.next[index_]); }

  void RunOp(const program::EmbedOp& op);
  void RunOp(const program::InputOp& op);
  void RunOp(const program::NormOp& op);
  void RunOp(const program::LinearOp& op);
  void RunOp(const program::FeedForwardOp& op);
  void RunOp(const program::AttentionOp& op);
  void RunOp(const program::PoolOp& op);
  void RunOp(const program::PicksOp&) {
    PENSTOCK_CHECK(false);
  }  // refused when the program is prepared
  void NumberPositions(int32_t padding);

  const PreparedProgram& prepared_;
  CpuOps* const ops_;
  const program::PackedBatch& part_;
  TokenRows* const tokens_;
  float* const sequence_values_;
  const size_t sequence_capacity_;
  const size_t first_;
  size_t index_ = 0;  // of the op under way
};

}  // namespace penstock::cpu
