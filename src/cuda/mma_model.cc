#include "cuda/mma_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

// Wide vectors where the processor has them. The address sanitizer runs before what chooses among the
// versions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PENSTOCK_WIDE
#endif

// Functions that return vectors are inlined, so it does not matter how a call would pass them.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace penstock::cuda {
namespace {

// Zero and subnormal numbers count as the smallest normal one.
int Exponent(float value, int least) {
  return value == 0 ? least : std::max(least, std::ilogb(value));
}

// The float next to `value` on zero's side, or equal to it. Not inlined: in a loop g++ 12 makes wrong
// vectors of it.
__attribute__((noinline)) float TowardsZero(double value) {
  const auto near = static_cast<float>(value);
  const bool beyond = std::abs(static_cast<double>(near)) > std::abs(value);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(near) - (beyond ? 1U : 0U));
}

}  // namespace

PENSTOCK_WIDE
void OperandValues(std::span<const uint16_t> bits, Operand type, float* to) {
  if (type == Operand::kBf16) {
    for (size_t i = 0; i < bits.size(); ++i) to[i] = OperandValue(bits[i], Operand::kBf16);
  } else {
    for (size_t i = 0; i < bits.size(); ++i) to[i] = OperandValue(bits[i], Operand::kF16);
  }
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

// An exponent that is added to others and is never the largest.
constexpr int kNoExponent = -8192;
constexpr size_t kStepDepth = 16, kColumns = 8;
#define PENSTOCK_INLINE inline __attribute__((always_inline))

// A number of each column, or of each k.
using Floats = float __attribute__((vector_size(4 * kColumns)));
using Ints = int __attribute__((vector_size(4 * kColumns)));
using Doubles = double __attribute__((vector_size(8 * kColumns)));
using Longs = int64_t __attribute__((vector_size(8 * kColumns)));

template <typename To, typename From>
PENSTOCK_INLINE To BitsAs(const From& from) {
  To to;
  static_assert(sizeof(to) == sizeof(from));
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
PENSTOCK_INLINE Ints Select(const Ints& where, const Ints& yes, const Ints& no) {
  return (yes & where) | (no & ~where);
}
PENSTOCK_INLINE Ints Max(const Ints& a, const Ints& b) { return Select(a > b, a, b); }

// Numbers as mantissas times powers of two, the exponents at least `least`. Of 0 it is kNoExponent.
PENSTOCK_INLINE void Split(const float* from, int least, Floats* mantissas, Ints* exponents) {
  Floats values;
  std::memcpy(&values, from, sizeof(values));
  const auto bits = BitsAs<Ints>(values);
  const Ints fields = (bits >> 23 & 0xFF) - 127;
  const Ints normal = (bits & static_cast<int>(0x807FFFFF)) | 127 << 23;
  const auto scale = std::bit_cast<float>((127 - least) << 23);
  const Ints small = fields < least;
  *mantissas = BitsAs<Floats>(Select(small, BitsAs<Ints>(values * scale), normal));
  *exponents = Select((bits & 0x7FFFFFFF) == 0, Ints{} + kNoExponent, Max(fields, Ints{} + least));
}

PENSTOCK_INLINE bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000) != 0x7F800000;
}

// The second operand, column beside column.
struct Columns {
  Floats mantissas[kStepDepth];
  Ints exponents[kStepDepth];
};

// whole += the parts of mantissas * 2^exponents above the point, for exponents up to 25.
PENSTOCK_INLINE void AddWhole(const Floats& mantissas, const Ints& exponents, Ints* whole) {
  const Ints fields = Max(exponents, Ints{} - 100) + 127;
  *whole += __builtin_convertvector(mantissas * BitsAs<Floats>(fields << 23), Ints);
}

// MmaStep of finite numbers in all columns: steps [k, k + count) of a row. Scaled products are below
// 2^27, so eight of them are summed as an int.
PENSTOCK_INLINE void StepRow(const float (&mantissas)[kStepDepth],
                             const int (&exponents)[kStepDepth], const Columns& columns, size_t k,
                             size_t count, int bits, float (&sums)[kColumns]) {
  Floats own;
  Ints own_exponents;
  Split(sums, -126, &own, &own_exponents);
  Ints top = Max(own_exponents, Ints{} - 126);
  for (size_t i = k; i < k + count; ++i) top = Max(top, columns.exponents[i] + exponents[i]);
  const Ints shift = bits - top;
  Ints parts[3] = {};
  AddWhole(own, own_exponents + shift, &parts[2]);
  for (size_t i = 0; i < count; ++i) {
    AddWhole(columns.mantissas[k + i] * mantissas[k + i],
             columns.exponents[k + i] + exponents[k + i] + shift, &parts[i / 8]);
  }
  Doubles whole = __builtin_convertvector(parts[0], Doubles);
  whole += __builtin_convertvector(parts[1], Doubles) + __builtin_convertvector(parts[2], Doubles);
  whole *= BitsAs<Doubles>(__builtin_convertvector(1023 - shift, Longs) << 52);
  // The bits that a float has not are cut, where its range has the number.
  const Longs cut = BitsAs<Longs>(whole) & ~((int64_t{1} << 29) - 1);
  const Floats results = __builtin_convertvector(BitsAs<Doubles>(cut), Floats);
  std::memcpy(sums, &results, sizeof(sums));
  const Ints size = BitsAs<Ints>(results) & 0x7FFFFFFF;
  const Ints odd = ((size < 1 << 23) & (size != 0)) | (size >= 0xFF << 23);
  int any = 0;
  for (size_t c = 0; c < kColumns; ++c) any |= odd[c];
  if (any == 0) return;
  for (size_t c = 0; c < kColumns; ++c) sums[c] = TowardsZero(whole[c]);
}

}  // namespace

PENSTOCK_WIDE
void MmaTile(const TensorCore& core, Operand type, const float (*a)[16], const float (*b)[16],
             float (*d)[8]) {
  const int least = type == Operand::kF16 ? -14 : -126;
  Columns columns;
  bool finite = true;
  for (size_t c = 0; c < kColumns; ++c) {
    for (size_t half = 0; half < kStepDepth; half += kColumns) {
      Floats mantissas;
      Ints exponents;
      Split(&b[c][half], least, &mantissas, &exponents);
      for (size_t k = 0; k < kColumns; ++k) {
        columns.mantissas[half + k][c] = mantissas[k];
        columns.exponents[half + k][c] = exponents[k];
      }
    }
    for (const float value : b[c]) finite &= IsFinite(value);
  }
  const auto products = static_cast<size_t>(core.products);
  for (size_t r = 0; r < 16; ++r) {
    float mantissas[kStepDepth];
    int exponents[kStepDepth];
    bool row_finite = finite;
    for (size_t half = 0; half < kStepDepth; half += kColumns) {
      Floats some;
      Ints some_exponents;
      Split(&a[r][half], least, &some, &some_exponents);
      std::memcpy(&mantissas[half], &some, sizeof(some));
      std::memcpy(&exponents[half], &some_exponents, sizeof(some_exponents));
    }
    for (const float value : a[r]) row_finite &= IsFinite(value);
    for (size_t k = 0; k < kStepDepth; k += products) {
      bool all = row_finite;
      for (const float sum : d[r]) all &= IsFinite(sum);
      if (all) {
        StepRow(mantissas, exponents, columns, k, products, core.bits, d[r]);
        continue;
      }
      for (size_t c = 0; c < kColumns; ++c) {
        d[r][c] = MmaStep(&a[r][k], &b[c][k], d[r][c], core.products, core.bits, type);
      }
    }
  }
}

}  // namespace penstock::cuda
