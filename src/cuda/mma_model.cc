#include "cuda/mma_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock::cuda {
namespace {

// Zero and subnormal numbers count as the smallest normal one.
int Exponent(float value, int least) {
  return value == 0 ? least : std::max(least, std::ilogb(value));
}

// The float next to `value` on zero's side, or equal to it.
float TowardsZero(double value) {
  const auto near = static_cast<float>(value);
  return std::abs(static_cast<double>(near)) > std::abs(value) ? std::nextafter(near, 0.0F) : near;
}

}  // namespace

float OperandValue(uint16_t bits, Operand type) {
  if (type == Operand::kBf16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  const float value = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction | 0x400),
                                 std::max<int>(static_cast<int>(exponent), 1) - 25);
  return sign != 0 ? -value : value;
}

float MmaStep(const float* a, const float* b, float c, int count, int bits, Operand type) {
  const int least = type == Operand::kF16 ? -14 : -126;
  int top = Exponent(c, -126);
  double plain = c;
  for (int k = 0; k < count; ++k) {
    plain += static_cast<double>(a[k]) * b[k];
    if (a[k] != 0 && b[k] != 0) {
      top = std::max(top, Exponent(a[k], least) + Exponent(b[k], least));
    }
  }
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  double sum = std::trunc(std::ldexp(static_cast<double>(c), bits - top));
  for (int k = 0; k < count; ++k) {
    sum += std::trunc(std::ldexp(static_cast<double>(a[k]) * b[k], bits - top));
  }
  return TowardsZero(std::ldexp(sum, top - bits));
}

void MmaTile(const TensorCore& core, Operand type, const float (&a)[16][16],
             const float (&b)[8][16], float (&d)[16][8]) {
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float& sum = d[row][column];
      for (int k = 0; k < 16; k += core.products) {
        sum = MmaStep(&a[row][k], &b[column][k], sum, core.products, core.bits, type);
      }
    }
  }
}

}  // namespace penstock::cuda
