// The sums of tensor cores, to the bit. A step multiplies some pairs and adds them to a float: the
// products and the addend are cut, towards zero, to some bits below the largest exponent among them
// (a product's is the sum of its factors'), added exactly, and the sum is cut to a float.
//
// Sources: arXiv 2511.10909 and 2512.07004, whose models were held against hardware.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace penstock::cuda {

struct TensorCore {
  int products = 16;  // of a step
  int bits = 25;      // that are kept
};
inline constexpr TensorCore kHopper = {16, 25};  // and Blackwell
inline constexpr TensorCore kAmpere = {8, 24};   // and Ada: a product of 16 is two steps

enum class Operand { kBf16, kF16 };

// The value of an operand.
inline float OperandValue(uint16_t bits, Operand type) {
  if (type == Operand::kBf16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t rest = static_cast<uint32_t>(bits & 0x7FFF) << 13;
  if (rest >= 0x7C00U << 13) return std::bit_cast<float>(sign | 0x7F800000 | (rest & 0x7FFFFF));
  // Bits of a float whose exponent is 112 too small, subnormal ones as well.
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * 0x1p112F));
}

// The same of many.
void OperandValues(std::span<const uint16_t> bits, Operand type, float* to);

// c + sum of a[k] b[k], k < count, in one step. Where something is infinite or NaN: the plain sum.
float MmaStep(const float* a, const float* b, float c, int count, int bits, Operand type);

// d[16][8] += a[16][16] b[8][16]^T, a row after the other, in the core's steps.
void MmaTile(const TensorCore& core, Operand type, const float (*a)[16], const float (*b)[16],
             float (*d)[8]);

}  // namespace penstock::cuda
