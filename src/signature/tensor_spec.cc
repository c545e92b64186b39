#include "signature/tensor_spec.h"

#include <fmt/format.h>

#include "base/status.h"

namespace penstock::signature {

bool TensorSpec::fixed() const {
  if (!shape) return false;
  for (const DimensionRange& dimension : *shape) {
    if (!dimension.fixed()) return false;
  }
  return true;
}

uint64_t TensorSpec::bytes() const {
  PENSTOCK_CHECK(fixed());
  std::vector<int64_t> sizes;
  for (const DimensionRange& dimension : *shape) sizes.push_back(dimension.min);
  const std::optional<uint64_t> elements = ElementCount(sizes);
  PENSTOCK_CHECK(elements.has_value());
  return *elements * ElementBytes(type);
}

bool TensorSpec::Takes(std::span<const int64_t> sizes) const {
  if (!shape) return true;
  if (shape->size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const DimensionRange& range = (*shape)[i];
    if (sizes[i] < range.min || (range.max >= 0 && sizes[i] > range.max)) return false;
  }
  return true;
}

std::string ShapeText(const std::optional<std::vector<DimensionRange>>& shape) {
  if (!shape) return "[...]";
  std::string text = "[";
  for (const DimensionRange& dimension : *shape) {
    if (text.size() > 1) text += ',';
    if (dimension.fixed()) {
      text += fmt::format("{}", dimension.min);
    } else if (dimension.max >= 0) {
      text += fmt::format("{}..{}", dimension.min, dimension.max);
    } else {
      text += dimension.min > 0 ? fmt::format("{}..", dimension.min) : "-1";
    }
  }
  return text + "]";
}

std::string ShapeText(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// A dimension of 0 makes it 0, whatever the others are.
std::optional<uint64_t> ElementCount(std::span<const int64_t> shape) {
  constexpr uint64_t kElementsMax = uint64_t{1} << 59;  // times eight bytes: 2^62
  uint64_t count = 1;
  bool none = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    none = none || size == 0;
    const uint64_t factor = size == 0 ? 1 : static_cast<uint64_t>(size);
    if (count > kElementsMax / factor) return std::nullopt;
    count *= factor;
  }
  return none ? 0 : count;
}

}  // namespace penstock::signature
