// A tensor as a file stores it, whatever the file's format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "numbers/dtype.h"

namespace penstock::files {

// Of a model, in all its files. Large ones have some ten thousand; this bounds a broken header.
inline constexpr size_t kTensorsMax = 1 << 20;

// A tensor inside a mapped file; row-major, data.size() == StoredBytes(dtype, elements()). Of a
// block type each row, which is the last size of the shape, is whole blocks.
struct TensorRecord {
  std::string name;
  numbers::DType dtype = numbers::DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  int64_t elements() const;
  // kUnsupported: of a type that ConvertToF32 does not read, as weights must be.
  Status CheckConvertible() const;
  // Converts to float. out.size() == elements(). Errors: those of CheckConvertible.
  Status CopyToF32(std::span<float> out) const;
};

}  // namespace penstock::files
