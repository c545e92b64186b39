// The vector type of the AVX-512 build (F, BW, DQ, VL). Included by isa_avx512.cc only.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace penstock::cpu::avx512 {

struct Simd {
  using Vec = __m512;
  static constexpr int kLanes = 16;
  // GEMM tile: 14 rows x 2 vectors = 28 accumulators, 2 weight registers, 1 broadcast.
  static constexpr int kTileRows = 14;
  static constexpr int kTileVecs = 2;

  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Set(float x) { return _mm512_set1_ps(x); }
  static Vec Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static __mmask16 Mask(size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  // The first n < kLanes lanes; the others read as 0 and are not written.
  static Vec LoadPart(const float* p, size_t n) { return _mm512_maskz_loadu_ps(Mask(n), p); }
  static void StorePart(float* p, Vec v, size_t n) { _mm512_mask_storeu_ps(p, Mask(n), v); }
  // The first n lanes of v, the others replaced by `other`.
  static Vec KeepPart(Vec v, Vec other, size_t n) { return _mm512_mask_mov_ps(other, Mask(n), v); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  // a < b ? x : y, lane by lane; a comparison with NaN is false.
  static Vec SelectLess(Vec a, Vec b, Vec x, Vec y) {
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), x);
  }
  static Vec Round(Vec v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // v * 2^n, n integral in [-126, 127].
  static Vec Scale2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
  static float Sum(Vec v) { return _mm512_reduce_add_ps(v); }
  static float MaxOf(Vec v) { return _mm512_reduce_max_ps(v); }
};

}  // namespace penstock::cpu::avx512
