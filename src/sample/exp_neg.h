// exp(-d), four at a time, in the vector types that g++ and clang share; they become SSE2 or NEON.
// Plain arithmetic without fused operations, so that every processor gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace penstock::sample {

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));  // of a comparison: 0 or -1
inline constexpr size_t kFloats = 4;

inline Floats LoadFloats(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline Floats AllFloats(float x) { return Floats{x, x, x, x}; }
inline Ints BitsOf(Floats v) { return reinterpret_cast<Ints>(v); }
// `v` where the mask is -1, else 0.
inline Floats Masked(Floats v, Ints mask) { return reinterpret_cast<Floats>(BitsOf(v) & mask); }
inline bool Any(Ints mask) {
  uint64_t halves[2];
  std::memcpy(halves, &mask, sizeof(halves));
  return (halves[0] | halves[1]) != 0;
}

// d >= 0, infinity included; relative error below 3e-7 up to d = 87, 0 from there on. Cody and
// Waite's reduction to |r| <= ln 2 / 2, then Taylor's series to the seventh power, whose next term
// is below 6e-9.
inline Floats ExpNeg(Floats d) {
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  const Ints within = d < AllFloats(87.0f);
  const Floats bounded = Masked(d, within);
  const Ints n = __builtin_convertvector(bounded * 1.44269504f + 0.5f, Ints);
  const Floats whole = __builtin_convertvector(n, Floats);
  const Floats r = (whole * kLn2High - bounded) + whole * kLn2Low;
  Floats p = AllFloats(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return Masked(p * reinterpret_cast<Floats>((127 - n) << 23), within);
}
inline float ExpNeg(float d) { return ExpNeg(AllFloats(d))[0]; }

}  // namespace penstock::sample
