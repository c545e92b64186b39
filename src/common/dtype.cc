#include "common/dtype.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/block_types.h"
#include "common/status.h"

namespace penstock {
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

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "F64";
    case DType::kI64:
      return "I64";
    case DType::kF32:
      return "F32";
    case DType::kI32:
      return "I32";
    case DType::kF16:
      return "F16";
    case DType::kBf16:
      return "BF16";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    case DType::kBool:
      return "BOOL";
    case DType::kQ8_0:
      return "Q8_0";
    case DType::kQ4_0:
      return "Q4_0";
    case DType::kQ4_1:
      return "Q4_1";
    case DType::kQ5_0:
      return "Q5_0";
    case DType::kQ5_1:
      return "Q5_1";
    case DType::kQ4K:
      return "Q4_K";
    case DType::kQ5K:
      return "Q5_K";
    case DType::kQ6K:
      return "Q6_K";
  }
  return "?";
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

}  // namespace penstock
