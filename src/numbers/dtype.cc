#include "numbers/dtype.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "numbers/block_fields.h"

namespace penstock::numbers {
namespace {

template <typename T>
T Load(const std::byte* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

size_t DTypeBytes(DType dtype) {
  PENSTOCK_CHECK(!IsBlockType(dtype));
  return BlockOf(dtype).bytes;
}

size_t StoredBytes(DType dtype, size_t elements) {
  const DTypeBlock block = BlockOf(dtype);
  return elements / block.elements * block.bytes;
}

const char* DTypeName(DType dtype) { return RowOf(dtype).name; }

const char* DTypeFlag(DType dtype) {
  const char* const flag = RowOf(dtype).flag;
  PENSTOCK_CHECK(flag != nullptr);
  return flag;
}

std::optional<DType> DTypeOfFlag(std::string_view flag) {
  for (const NumberType& type : kNumberTypes) {
    if (type.flag != nullptr && type.flag == flag) return type.dtype;
  }
  return std::nullopt;
}

const char* DTypeWord(DType dtype) {
  const char* const word = RowOf(dtype).word;
  PENSTOCK_CHECK(word != nullptr);
  return word;
}

std::optional<DType> DTypeOfSafetensors(std::string_view name) {
  for (const NumberType& type : kNumberTypes) {
    if (type.safetensors && type.name == name) return type.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfGguf(uint32_t number) {
  for (const NumberType& type : kNumberTypes) {
    if (type.gguf >= 0 && static_cast<uint32_t>(type.gguf) == number) return type.dtype;
  }
  return std::nullopt;
}

// Subnormals are normalised by a multiplication, which is exact.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  uint32_t bits = 0;
  if (rest >= 0x7c00u) {  // infinity, NaN
    bits = 0x7f800000u | ((rest & 0x3ffu) << 13);
  } else if (rest >= 0x0400u) {  // the exponent's bias goes from 15 to 127
    bits = (rest << 13) + (112u << 23);
  } else {
    bits = std::bit_cast<uint32_t>(static_cast<float>(rest) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | bits);
}

bool ConvertsToF32(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16 ||
         dtype == DType::kF64 || IsBlockType(dtype);
}

void ConvertToF32(DType dtype, const std::byte* from, size_t count, float* to) {
  switch (dtype) {
    case DType::kF32:
      if (count > 0) std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::kF16:
      for (size_t i = 0; i < count; ++i) to[i] = HalfToFloat(Load<uint16_t>(from, i));
      return;
    case DType::kBf16:
      for (size_t i = 0; i < count; ++i) {
        to[i] = std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(from, i)) << 16);
      }
      return;
    case DType::kF64:
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(Load<double>(from, i));
      return;
    default:
      PENSTOCK_CHECK(IsBlockType(dtype) && count % BlockOf(dtype).elements == 0);
      BlocksToF32(dtype, from, count / BlockOf(dtype).elements, to);
  }
}

}  // namespace penstock::numbers
