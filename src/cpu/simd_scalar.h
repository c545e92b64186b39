// One-lane "vectors": plain C++, the reference for every other instruction set.
#pragma once

#include <cmath>
#include <cstddef>

namespace penstock::cpu::scalar {

struct Simd {
  using Vec = float;
  static constexpr int kLanes = 1;
  static constexpr int kTileRows = 4;
  static constexpr int kTileVecs = 4;

  static Vec Zero() { return 0; }
  static Vec Set(float x) { return x; }
  static Vec Load(const float* p) { return *p; }
  static void Store(float* p, Vec v) { *p = v; }
  // With one lane there is never a partial vector (n < kLanes means n == 0).
  static Vec LoadPart(const float*, size_t) { return 0; }
  static void StorePart(float*, Vec, size_t) {}
  static Vec KeepPart(Vec, Vec other, size_t) { return other; }
  static Vec Add(Vec a, Vec b) { return a + b; }
  static Vec Sub(Vec a, Vec b) { return a - b; }
  static Vec Mul(Vec a, Vec b) { return a * b; }
  static Vec Div(Vec a, Vec b) { return a / b; }
  static Vec Fma(Vec a, Vec b, Vec c) { return a * b + c; }
  static Vec Max(Vec a, Vec b) { return a > b ? a : b; }
  static Vec Min(Vec a, Vec b) { return a < b ? a : b; }
  static Vec SelectLess(Vec a, Vec b, Vec x, Vec y) { return a < b ? x : y; }
  static Vec Round(Vec v) { return std::nearbyint(v); }
  static Vec Scale2(Vec v, Vec n) { return n == n ? std::ldexp(v, static_cast<int>(n)) : n; }
  static float Sum(Vec v) { return v; }
  static float MaxOf(Vec v) { return v; }
};

}  // namespace penstock::cpu::scalar
