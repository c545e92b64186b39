// A weight matrix as panels of words (see kernels.h), and the memory activations are packed into.
// Made while a model loads, read by all threads after.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/dtype.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "tensor/backend.h"

namespace penstock::cpu {

class AlignedBuffer final : public Buffer {
 public:
  AlignedBuffer(size_t floats, HugePageArena* arena)
      : block_(arena->Alloc(floats * sizeof(float))) {
    data_ = static_cast<float*>(block_.data);
    size_ = floats;
  }

 private:
  HugePageArena::Block block_;
};

class PanelLinear final : public PackedLinear {
 public:
  // weight: [out, in] row-major; bias: [out] or null. dtype: kF32, kBf16 (rounded to nearest even)
  // or kI8. A weight that is not finite makes its column's results NaN. column_factors: see
  // Backend::Pack.
  PanelLinear(const float* weight, const float* bias, int32_t out, int32_t in, DType dtype,
              const float* column_factors, size_t panel, HugePageArena* arena);

  uint64_t bytes() const override;
  size_t panels() const { return panels_; }
  // A GemmTask's fields of this matrix for panels from `first` on.
  void Describe(size_t first, size_t count, GemmTask* task) const;
  const Word* panel(size_t index) const;
  // What x is multiplied by where it is packed for this matrix, [in]; or null.
  const float* row_factors() const { return has_factors_ ? row_factors_.data() : nullptr; }

 private:
  size_t panel_;
  size_t panels_;
  size_t words_;   // of a row
  size_t groups_;  // of scales
  bool has_bias_;
  bool has_factors_;
  AlignedBuffer weights_;
  AlignedBuffer bias_;
  AlignedBuffer scales_;
  AlignedBuffer sums_;  // s32
  AlignedBuffer row_factors_;
};

// Bytes of a packed row with its scales.
static constexpr size_t PackedRowBytes(DType dtype, size_t in) {
  return RowStride(dtype, in) * sizeof(Word) + ScaleGroups(dtype, in) * sizeof(RowScale);
}

// Rows of a product's input, packed. Owns nothing.
struct PackedRows {
  // `capacity` rows in `memory`, 64-byte aligned, PackedRowBytes for each.
  PackedRows(void* memory, size_t capacity, const PanelLinear& weight);

  // The rows from `row` on.
  PackedRows From(size_t row) const;
  // How x[rows, x_stride] becomes columns [begin, end) of them; begin: a multiple of kScaleGroup.
  PackRowsTask Pack(const float* x, size_t x_stride, size_t rows, size_t begin, size_t end) const;

  DType dtype;
  size_t in;
  const float* factors;  // the weight's row_factors
  Word* words;
  RowScale* scales;
};

}  // namespace penstock::cpu
