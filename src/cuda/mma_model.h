// The sums of tensor cores, to the bit. A step multiplies some pairs and adds them to a float: the
// products and the addend are cut, towards zero, to some bits below the largest exponent among them
// (a product's is the sum of its factors'), added exactly, and the sum is cut to a float.
//
// Sources: arXiv 2511.10909 and 2512.07004, whose models were held against hardware.
#pragma once

#include <cstdint>

namespace penstock::cuda {

struct TensorCore {
  int products = 16;  // of a step
  int bits = 25;      // that are kept
};
inline constexpr TensorCore kHopper = {16, 25};  // and Blackwell
inline constexpr TensorCore kAmpere = {8, 24};   // and Ada: a product of 16 is two steps

enum class Operand { kBf16, kF16 };

// The value of an operand.
float OperandValue(uint16_t bits, Operand type);

// c + sum of a[k] b[k], k < count, in one step. Where something is infinite or NaN: the plain sum.
float MmaStep(const float* a, const float* b, float c, int count, int bits, Operand type);

// d[16][8] += a[16][16] b[8][16]^T, a row after the other, in the core's steps.
void MmaTile(const TensorCore& core, Operand type, const float (&a)[16][16],
             const float (&b)[8][16], float (&d)[16][8]);

}  // namespace penstock::cuda
