// The vector types of the AVX-512 builds (F, BW, DQ, VL), with VNNI and BF16 where the file is
// compiled for them. Included inside namespace penstock::cpu::<isa>, after <immintrin.h>.

struct Simd {
  using Vec = __m512;
  static constexpr int kLanes = 16;
  // GEMM tile: 14 rows x 2 vectors = 28 accumulators, 2 weight registers, 1 broadcast.
  static constexpr int kTileRows = 14;
  static constexpr int kTileVecs = 2;
  static constexpr size_t kUnroll = 1;  // words of k a turn of a GEMM's loop adds

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

  // 32-bit lanes: sums of integer products, and the words of packed operands (see kernels.h).
  using Words = __m512i;
  static Words ZeroWords() { return _mm512_setzero_si512(); }
  static Words SetWord(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static Words LoadWords(const Word* p) { return _mm512_loadu_si512(p); }
  static Words MulWords(Words a, Words b) { return _mm512_mullo_epi32(a, b); }
  static Words AddWords(Words a, Words b) { return _mm512_add_epi32(a, b); }
  static Vec AsFloat(Words v) { return _mm512_castsi512_ps(v); }
  static Words AsWords(Vec v) { return _mm512_castps_si512(v); }
  static Vec ToFloat(Words v) { return _mm512_cvtepi32_ps(v); }
  static Words MaxWords(Words a, Words b) { return _mm512_max_epu32(a, b); }
  static Words MaxSigned(Words a, Words b) { return _mm512_max_epi32(a, b); }
  static uint32_t MaxWordOf(Words v) { return _mm512_reduce_max_epu32(v); }

#if defined(__AVX512BF16__)
  static constexpr bool kDotsBf16 = true;
  // acc + odd halves' product + even halves' product; rounds to nearest even, denormals are 0.
  static Vec DotBf16(Vec acc, Words x, Words w) {
    return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)w);
  }
  static __m256i ToBf16(Vec v) { return (__m256i)_mm512_cvtneps_pbh(v); }
#else
  static constexpr bool kDotsBf16 = false;
  static __m256i ToBf16(Vec v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits,
                                   _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
  }
#endif

  static Words LowHalves(Words v) { return _mm512_slli_epi32(v, 16); }
  static Words HighHalves(Words v) { return _mm512_and_si512(v, SetWord(0xffff0000)); }

  // a in the low halves, b in the high ones.
  static Words PairBf16(Vec a, Vec b) {
#if defined(__AVX512BF16__)
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
#else
    return _mm512_or_si512(_mm512_cvtepu16_epi32(ToBf16(a)),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(ToBf16(b)), 16));
#endif
  }
  static void StoreBf16(uint16_t* p, Vec v, size_t n) {
    _mm256_mask_storeu_epi16(p, n == kLanes ? __mmask16{0xffff} : Mask(n), ToBf16(v));
  }

#if defined(__AVX512VNNI__)
  static constexpr bool kDotsInt8 = true;
  // Written as assembly: g++ 12 keeps the sums of the intrinsic in memory.
  static Words DotInt8(Words acc, Words x, Words w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
    return acc;
  }
#else
  static constexpr bool kDotsInt8 = false;
  // Sums of two products of u8 by s8 in each s16 half; they saturate.
  static Words MaddBytes(Words x, Words w) { return _mm512_maddubs_epi16(x, w); }
  static Words AddHalves(Words a, Words b) { return _mm512_add_epi16(a, b); }
#endif

  static Words EvenBytes(Words v) { return _mm512_and_si512(v, SetWord(0x00ff00ff)); }
  static Words OddBytes(Words v) { return _mm512_srli_epi16(v, 8); }
  static Words EvenBytesSigned(Words v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
  static Words OddBytesSigned(Words v) { return _mm512_srai_epi16(v, 8); }
  static Words MaddHalves(Words x, Words w) { return _mm512_madd_epi16(x, w); }
  // Four vectors as bytes, rounded to nearest even, clamped to 0 .. 255.
  static void StoreBytes(uint8_t* p, const Vec (&v)[4]) {
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(v[2]), _mm512_cvtps_epi32(v[3]));
    // Each 128-bit lane holds four bytes of every vector.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
  }
  static void StoreF16(Half* p, Vec v, size_t n) {
    _mm256_mask_storeu_epi16(p, n == kLanes ? __mmask16{0xffff} : Mask(n),
                             _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Bytes of s8 as floats.
  static Vec LoadS8(const int8_t* p) {
    return ToFloat(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  // to[c][r] = from[r][c], 16 x 16 words, rows `stride` words apart: by pairs of rows, by fours, then
  // by the registers' quarters.
  static void Transpose(const Word* from, size_t stride, Word* to, size_t to_stride) {
    Words v[16], t[16];
#pragma GCC unroll 16
    for (size_t r = 0; r < 16; ++r) v[r] = LoadWords(from + r * stride);
#pragma GCC unroll 8
    for (size_t r = 0; r < 16; r += 2) {
      t[r] = _mm512_unpacklo_epi32(v[r], v[r + 1]);
      t[r + 1] = _mm512_unpackhi_epi32(v[r], v[r + 1]);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < 16; r += 4) {
      v[r] = _mm512_unpacklo_epi64(t[r], t[r + 2]);
      v[r + 1] = _mm512_unpackhi_epi64(t[r], t[r + 2]);
      v[r + 2] = _mm512_unpacklo_epi64(t[r + 1], t[r + 3]);
      v[r + 3] = _mm512_unpackhi_epi64(t[r + 1], t[r + 3]);
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < 4; ++c) {
      const Words even = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88);
      const Words odd = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd);
      const Words even2 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88);
      const Words odd2 = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
      const auto store = [&](size_t column, Words a) {
        _mm512_storeu_si512(to + column * to_stride, a);
      };
      store(c, _mm512_shuffle_i32x4(even, even2, 0x88));
      store(4 + c, _mm512_shuffle_i32x4(odd, odd2, 0x88));
      store(8 + c, _mm512_shuffle_i32x4(even, even2, 0xdd));
      store(12 + c, _mm512_shuffle_i32x4(odd, odd2, 0xdd));
    }
  }

  // For blocks (see block_layout.h).
  static Words AndWords(Words a, Words b) { return _mm512_and_si512(a, b); }
  static Words OrWords(Words a, Words b) { return _mm512_or_si512(a, b); }
  static Words SubWords(Words a, Words b) { return _mm512_sub_epi32(a, b); }
  static Words SubBytes(Words a, Words b) { return _mm512_sub_epi8(a, b); }
  // Lanes shifted by n bits, 0 <= n < 32; the last keeps the sign.
  static Words ShiftLeft(Words v, int n) { return (Words)((__v16su)v << static_cast<unsigned>(n)); }
  static Words ShiftRight(Words v, int n) {
    return (Words)((__v16su)v >> static_cast<unsigned>(n));
  }
  static Words ShiftRightSigned(Words v, int n) { return (Words)((__v16si)v >> n); }
  // Lane by lane: the sum of the products of the s16 halves.
  static Words DotHalves(Words a, Words b) { return _mm512_madd_epi16(a, b); }
  // kLanes f16.
  static Vec LoadF16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  // The f16 in the low halves.
  static Vec LowF16(Words v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  // 32 bytes.
  static int SumBytes(const uint8_t* p) {
    const __m256i sums = _mm256_sad_epu8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                                         _mm256_setzero_si256());
    const __m128i two =
        _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
  }

  // The compiler no longer knows the value, or must have computed it.
  template <typename T>
  static void Hide(T* v) {
    asm volatile("" : "+v"(*v));
  }
  template <typename T>
  static void Use(T v) {
    asm volatile("" : : "v"(v));
  }
};
