// A weight matrix as panels of words (see kernels.h), and the memory activations are packed into.
// Made while a model loads, read by all threads after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "numbers/dtype.h"
#include "program/backend.h"

namespace penstock::cpu {

// Uninitialised floats, 64-byte aligned.
class AlignedBuffer {
 public:
  AlignedBuffer(size_t floats, HugePageArena* arena)
      : block_(arena->Alloc(floats * sizeof(float))), size_(floats) {}
  float* data() const { return static_cast<float*>(block_.data); }
  size_t size() const { return size_; }

 private:
  HugePageArena::Block block_;
  size_t size_;
};

class FloatTable final : public program::Table {
 public:
  FloatTable(int64_t rows, int32_t width, HugePageArena* arena)
      : program::Table(rows, width),
        values_(static_cast<size_t>(rows) * static_cast<size_t>(width), arena) {}
  float* data() const { return values_.data(); }

 private:
  AlignedBuffer values_;
};

// Null for null.
inline const float* DataOf(const program::Table* table) {
  return table == nullptr ? nullptr : static_cast<const FloatTable*>(table)->data();
}

class PanelLinear final : public program::PackedLinear {
 public:
  // See Backend::Pack. bf16 is rounded to nearest even. A weight that is not finite makes its
  // column's results NaN.
  PanelLinear(std::span<const program::LinearRows> parts, const program::PackOptions& options,
              size_t panel, HugePageArena* arena);
  PanelLinear(const program::LinearRows& rows, const program::PackOptions& options, size_t panel,
              HugePageArena* arena)
      : PanelLinear(std::span(&rows, 1), options, panel, arena) {}

  uint64_t bytes() const override;
  size_t panels() const { return panels_; }
  // Sets a GemmTask's fields of this matrix, for `count` panels from `first` on.
  void FillTask(size_t first, size_t count, GemmTask* task) const;
  const Word* panel(size_t index) const;
  // Factors that x is multiplied by when packed for this matrix, [in]; or null.
  const float* row_factors() const { return has_factors_ ? row_factors_.data() : nullptr; }

 private:
  // Row `row` of the matrix, `in` floats.
  void PackRow(size_t row, const float* from, const float* column_factors);

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
  // While it is packed: one row as words, and times its column factors.
  std::vector<int8_t> row_;
  std::vector<float> scaled_;
};

// Bytes of a packed row with its scales.
static constexpr size_t PackedRowBytes(numbers::DType dtype, size_t in) {
  return RowStride(dtype, in) * sizeof(Word) + ScaleGroups(dtype, in) * sizeof(RowScale);
}

// Rows of a linear layer's input, packed. Owns nothing.
struct PackedRows {
  // `capacity` rows in `memory`, 64-byte aligned, PackedRowBytes for each.
  PackedRows(void* memory, size_t capacity, const PanelLinear& weight);

  // The rows from `row` on.
  PackedRows From(size_t row) const;
  // The task that packs x[rows, x_stride] into columns [begin, end) of them; begin: a multiple of
  // kScaleGroup.
  PackRowsTask Pack(const float* x, size_t x_stride, size_t rows, size_t begin, size_t end) const;

  numbers::DType dtype;
  size_t in;
  const float* factors;  // the weight's row_factors
  Word* words;
  RowScale* scales;
};

}  // namespace penstock::cpu
