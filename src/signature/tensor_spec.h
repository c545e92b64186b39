// Inputs and outputs of tensor models as clients see them: name, type, shape.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "signature/element_type.h"

namespace penstock::signature {

// How many elements a dimension has.
struct DimensionRange {
  int64_t min = 0;
  int64_t max = 0;  // -1: no bound

  bool fixed() const { return min == max; }
  bool operator==(const DimensionRange&) const = default;
};

// An input or output.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::kFp32;
  // nullopt: the number of dimensions depends on the data.
  std::optional<std::vector<DimensionRange>> shape;

  // Whether all dimensions are fixed.
  bool fixed() const;
  // Size of a tensor with a fixed shape, in bytes.
  uint64_t bytes() const;
  // Whether a tensor of this shape is one of these.
  bool Takes(std::span<const int64_t> sizes) const;
};

// "[-1,3]": -1 where any number is taken, "1..4" for a range, "[...]" for any number of dimensions.
std::string ShapeText(const std::optional<std::vector<DimensionRange>>& shape);
std::string ShapeText(std::span<const int64_t> shape);

// Elements of a shape; nullopt: a dimension is negative, or the product is over 2^59.
std::optional<uint64_t> ElementCount(std::span<const int64_t> shape);

}  // namespace penstock::signature
