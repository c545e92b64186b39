// The vector type of the AVX2 + FMA build. Included by isa_avx2.cc only.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace penstock::cpu::avx2 {

struct Simd {
  using Vec = __m256;
  static constexpr int kLanes = 8;
  // GEMM tile: 6 rows x 2 vectors = 12 accumulators of 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int kTileVecs = 2;

  static Vec Zero() { return _mm256_setzero_ps(); }
  static Vec Set(float x) { return _mm256_set1_ps(x); }
  static Vec Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  // Lanes below n all ones.
  static __m256i Mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vec LoadPart(const float* p, size_t n) { return _mm256_maskload_ps(p, Mask(n)); }
  static void StorePart(float* p, Vec v, size_t n) { _mm256_maskstore_ps(p, Mask(n), v); }
  static Vec KeepPart(Vec v, Vec other, size_t n) {
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(Mask(n)));
  }
  static Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec Sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec Div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec SelectLess(Vec a, Vec b, Vec x, Vec y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static Vec Round(Vec v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vec Scale2(Vec v, Vec n) {
    const __m256i exponent =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(v, _mm256_castsi256_ps(exponent));
  }
  static __m128 Halve(Vec v, bool max) {
    const __m128 low = _mm256_castps256_ps128(v);
    const __m128 high = _mm256_extractf128_ps(v, 1);
    return max ? _mm_max_ps(low, high) : _mm_add_ps(low, high);
  }
  static float Sum(Vec v) {
    __m128 x = Halve(v, false);
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
  static float MaxOf(Vec v) {
    __m128 x = Halve(v, true);
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
};

}  // namespace penstock::cpu::avx2
