// LoweringBuilder: the launches of a program's operations, one after the other. See lowering.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/lowering.h"
#include "cuda/weights.h"

namespace penstock::cuda {

inline bool IsOperandType(numbers::DType dtype) {
  return dtype == numbers::DType::kF16 || dtype == numbers::DType::kBf16;
}

// How an attention without a cache runs.
struct AttentionWay {
  bool operands = false;  // by tensor cores, else in floats
  int depth = 0;          // columns of a head
  bool prepares = false;  // heads are rotated or padded first
};
// `results`: the forms of its y. Tensor cores write operands of their own type alone.
AttentionWay WayOf(const program::AttentionShape& shape, const Forms& results);

// A value, or scratch, in memory.
struct Place {
  float* floats = nullptr;       // [rows, width]
  uint16_t* operands = nullptr;  // [rows, stride16]
  float* scales = nullptr;       // [rows], of the operands; null: they are not scaled
  int width = 0;
  int stride16 = 0;
  bool half = false;
};

// What a linear layer reads: operands, or what its kernel makes them of.
struct LinearInput : Place {
  LinearInput(const Place& place) : Place(place) {}

  bool fused = false;
  NormArgs norm = {};  // where fused
};
// A linear layer of several that read the same.
struct LinearOutput {
  const program::PackedLinear* weight;
  Place to;
};

class LoweringBuilder {
 public:
  // For a program without a cache. `base` points to the activations, whose first bytes are the
  // input. A null `base` computes sizes only: no launch is made and no weight is read.
  LoweringBuilder(const LoweringPlan& plan, const Bucket& bucket, std::byte* base);
  // With a cache.
  LoweringBuilder(const LoweringPlan& plan, const StepBucket& bucket, const StepMemory& memory,
                  std::byte* base);

  void Run();
  uint64_t bytes() const { return std::max(most_, scratch_); }
  Lowered Take() { return {std::move(launches_), values_[program_.result].floats}; }

 private:
  using Rows = program::Rows;
  using ValueId = program::ValueId;

  int32_t RowsIn(Rows rows) const {
    return rows == Rows::kTokens ? bucket_.tokens : bucket_.sequences;
  }
  Rows RowsOf(ValueId id) const { return program_.values[id].rows; }
  // In the input.
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(input_base_ + offset);
  }
  const int* Count(int count) const { return At<int>(static_cast<uint64_t>(count) * sizeof(int)); }
  const int* CountOf(Rows rows) const;

  std::byte* Take(uint64_t bytes);
  Place Alloc(const Forms& forms, int32_t width, int32_t rows);
  // Scratch of an operation. As operands of a linear layer's type, or as floats.
  Place Scratch(numbers::DType dtype, int32_t width, Rows rows);

  template <typename Args>
  void Put(KernelId kernel, int grid_x, int grid_y, const Args& args) {
    // Without picks some grids are empty, which a driver refuses.
    if (base_ != 0 && grid_x > 0 && grid_y > 0)
      launches_.push_back(KernelLaunch::Of(kernel, grid_x, grid_y, args));
  }
  // A kernel over rows.
  template <typename Args>
  void PutRows(KernelId kernel, Rows rows, const Args& args, int grid_y = 1) {
    Put(kernel, BlocksOf(RowsIn(rows), RowOf(kernel).tile_rows), grid_y, args);
  }
  const float* FloatsOf(const program::Table* table) const {
    if (base_ == 0 || table == nullptr) return nullptr;
    return static_cast<const DeviceTable*>(table)->data();
  }

  // Pieces of a matrix: its own, or those that are made of its blocks.
  const uint16_t* PiecesOf(const DeviceLinear& w, uint16_t* unpacked);
  KernelId GemmOf(bool half, int32_t rows, int columns, bool even) const;
  static KernelId NarrowKernelOf(const LinearInput& x, BlockForm form, bool half);
  Epilogue EpilogueOf(const LinearInput& x, const DeviceLinear& w, const DeviceLinear* up,
                      program::Activation activation, const float* residual, const Place& to) const;
  void MultiplyFloats(const Place& x, Rows rows, const DeviceLinear& w, const DeviceLinear* up,
                      Epilogue epilogue, int columns);
  void PutNarrow(KernelId kernel, const LinearInput& x, GemmNarrowArgs args, int rows, int columns);
  void Multiply(const LinearInput& x, Rows rows, const program::PackedLinear& weight,
                const program::PackedLinear* up, program::Activation activation,
                const float* residual, const Place& to);
  void MultiplyEach(const LinearInput& x, Rows rows, std::span<const LinearOutput> all);
  void MultiplyInto(const LinearInput& x, Rows rows, const program::PackedLinear& weight,
                    const program::Residual& residual, ValueId y_id);
  NormArgs NormOf(const float* x, Rows rows, const program::Norm& norm, const Place& y) const;
  void Normalise(const float* x, Rows rows, const program::Norm& norm, const Place& y);
  // norm(x) as linear layers of that type read it, `columns` in all: of a value without a cache as it
  // lies there. `in_place`: a layer's result is written over x.
  LinearInput InputOf(const Place& x, Rows rows, const program::Norm& norm, numbers::DType dtype,
                      int columns, const int* picks = nullptr, bool in_place = false);

  void RunOp(const program::EmbedOp& op);
  void RunOp(const program::InputOp& op);
  void RunOp(const program::NormOp& op);
  void RunOp(const program::LinearOp& op);
  void RunOp(const program::FeedForwardOp& op);
  void RunOp(const program::AttentionOp& op);
  void RunOp(const program::PoolOp& op);
  void RunOp(const program::PicksOp& op);
  void RunCached(const program::AttentionOp& op);
  PagedShape PagedShapeOf(const program::AttentionShape& shape) const;
  LayerCache CacheOf(const program::AttentionShape& shape) const;
  KvHeadsArgs KvHeadsOf(const program::AttentionShape& shape) const;

  const LoweringPlan& plan_;
  const program::Program& program_;
  const Bucket bucket_;
  const InputLayout input_;
  // With a cache.
  const StepBucket step_bucket_;
  const StepInput step_input_;
  const StepMemory* const step_ = nullptr;

  const uintptr_t base_;  // 0: only sizes are wanted
  const uintptr_t input_base_;
  uint64_t used_ = 0;
  uint64_t scratch_ = 0;  // where that of each operation begins
  uint64_t most_ = 0;
  std::vector<Place> values_;
  std::vector<KernelLaunch> launches_;
};

}  // namespace penstock::cuda
