// TensorView: rows of numbers as a file stores them, in memory it does not own. Any type that
// ConvertToF32 reads, at any alignment; packing converts a row at a time.
// Rows of a block type are whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "numbers/dtype.h"

namespace penstock::program {

struct TensorView {
  numbers::DType dtype = numbers::DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  const std::byte* data = nullptr;  // [rows, columns] row-major; null: no tensor

  size_t row_bytes() const { return numbers::StoredBytes(dtype, static_cast<size_t>(columns)); }
  // Rows [first, first + count); all of them exist.
  TensorView Rows(int64_t first, int64_t count) const {
    return {dtype, count, columns, data + static_cast<size_t>(first) * row_bytes()};
  }
  // `count` rows from `first` on, to out[count * columns].
  void CopyToF32(int64_t first, int64_t count, float* out) const {
    numbers::ConvertToF32(dtype, data + static_cast<size_t>(first) * row_bytes(),
                          static_cast<size_t>(count * columns), out);
  }
};

// Floats as a view; values.size() is a multiple of `columns`.
inline TensorView ViewOf(std::span<const float> values, int64_t columns) {
  return {numbers::DType::kF32, static_cast<int64_t>(values.size()) / columns, columns,
          std::as_bytes(values).data()};
}

}  // namespace penstock::program
