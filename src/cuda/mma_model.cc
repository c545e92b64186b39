#include "cuda/mma_model.h"

#include <algorithm>
#include <array>
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
  const bool beyond = std::abs(static_cast<double>(near)) > std::abs(value);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(near) - (beyond ? 1U : 0U));
}

}  // namespace

float OperandValue(uint16_t bits, Operand type) {
  if (type == Operand::kBf16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float value = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

float MmaStep(const float* a, const float* b, float c, int count, int bits, Operand type) {
  const int least = type == Operand::kF16 ? -14 : -126;
  double plain = c;
  for (int k = 0; k < count; ++k) plain += static_cast<double>(a[k]) * b[k];
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  int top = Exponent(c, -126);
  for (int k = 0; k < count; ++k) {
    if (a[k] != 0 && b[k] != 0) {
      top = std::max(top, Exponent(a[k], least) + Exponent(b[k], least));
    }
  }
  double sum = std::trunc(std::ldexp(static_cast<double>(c), bits - top));
  for (int k = 0; k < count; ++k) {
    sum += std::trunc(std::ldexp(static_cast<double>(a[k]) * b[k], bits - top));
  }
  return TowardsZero(std::ldexp(sum, top - bits));
}

namespace {

// Exponents that are added to others and are never the largest.
constexpr int16_t kNoExponent = -8192;
constexpr size_t kColumns = 8;

struct Numbers {
  double value = 0;
  int16_t exponent = kNoExponent;
  bool finite = true;
};

Numbers Split(float from, int least) {
  const uint32_t bits = std::bit_cast<uint32_t>(from) & 0x7FFFFFFF;
  Numbers numbers;
  numbers.value = static_cast<double>(from);
  if (bits != 0) {
    numbers.exponent = static_cast<int16_t>(std::max(static_cast<int>(bits >> 23) - 127, least));
  }
  numbers.finite = bits < 0x7F800000;
  return numbers;
}

double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The second operand, column beside column, so that loops over columns become vectors.
struct Columns {
  std::array<std::array<double, kColumns>, 16> values;
  std::array<std::array<int16_t, kColumns>, 16> exponents;
};

// MmaStep of finite numbers in all columns: steps [k, k + count) of a row. Scaled products are below
// 2^27, so an int cuts them.
void StepRow(const std::array<Numbers, 16>& row, const Columns& columns, size_t k, size_t count,
             int bits, float (&sums)[kColumns]) {
  std::array<int16_t, kColumns> top{};
  for (size_t c = 0; c < kColumns; ++c) {
    const int exponent = static_cast<int>(std::bit_cast<uint32_t>(sums[c]) >> 23 & 0xFF) - 127;
    top[c] = static_cast<int16_t>(std::max(exponent, -126));
  }
  for (size_t i = k; i < k + count; ++i) {
    const int16_t exponent = row[i].exponent;
    for (size_t c = 0; c < kColumns; ++c) {
      const auto both = static_cast<int16_t>(exponent + columns.exponents[i][c]);
      top[c] = top[c] > both ? top[c] : both;
    }
  }
  std::array<double, kColumns> scale{}, whole{};
  for (size_t c = 0; c < kColumns; ++c) {
    scale[c] = PowerOfTwo(bits - top[c]);
    whole[c] = static_cast<int>(static_cast<double>(sums[c]) * scale[c]);
  }
  for (size_t i = k; i < k + count; ++i) {
    const double value = row[i].value;
    for (size_t c = 0; c < kColumns; ++c) {
      whole[c] += static_cast<double>(static_cast<int>(value * columns.values[i][c] * scale[c]));
    }
  }
  for (size_t c = 0; c < kColumns; ++c) sums[c] = TowardsZero(whole[c] * PowerOfTwo(top[c] - bits));
}

}  // namespace

void MmaTile(const TensorCore& core, Operand type, const float (&a)[16][16],
             const float (&b)[8][16], float (&d)[16][8]) {
  const int least = type == Operand::kF16 ? -14 : -126;
  Columns columns;
  bool finite = true;
  for (size_t k = 0; k < 16; ++k) {
    for (size_t c = 0; c < kColumns; ++c) {
      const Numbers numbers = Split(b[c][k], least);
      columns.values[k][c] = numbers.value;
      columns.exponents[k][c] = numbers.exponent;
      finite = finite && numbers.finite;
    }
  }
  const auto products = static_cast<size_t>(core.products);
  for (size_t r = 0; r < 16; ++r) {
    std::array<Numbers, 16> row;
    bool row_finite = finite;
    for (size_t k = 0; k < 16; ++k) {
      row[k] = Split(a[r][k], least);
      row_finite = row_finite && row[k].finite;
    }
    for (size_t k = 0; k < 16; k += products) {
      bool all = row_finite;
      for (const float sum : d[r]) all = all && std::isfinite(sum);
      if (all) {
        StepRow(row, columns, k, products, core.bits, d[r]);
        continue;
      }
      for (size_t c = 0; c < kColumns; ++c) {
        d[r][c] = MmaStep(&a[r][k], &b[c][k], d[r][c], core.products, core.bits, type);
      }
    }
  }
}

}  // namespace penstock::cuda
