// The vector types of the AVX2 + FMA builds, with AVX-VNNI where the file is compiled for it.
// Included inside namespace penstock::cpu::<isa>, after <immintrin.h>.

struct Simd {
  using Vec = __m256;
  static constexpr int kLanes = 8;
  // GEMM tile: 6 rows x 2 vectors = 12 accumulators of 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int kTileVecs = 2;
  // Words of k a turn of a GEMM's loop adds: 20 instructions a word rather than 26 count where two
  // threads share a core.
  static constexpr size_t kUnroll = 4;

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

  // 32-bit lanes: sums of integer products, and the words of packed operands (see kernels.h).
  using Words = __m256i;
  static Words ZeroWords() { return _mm256_setzero_si256(); }
  static Words SetWord(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static Words LoadWords(const Word* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Words MulWords(Words a, Words b) { return _mm256_mullo_epi32(a, b); }
  static Words AddWords(Words a, Words b) { return _mm256_add_epi32(a, b); }
  static Vec AsFloat(Words v) { return _mm256_castsi256_ps(v); }
  static Words AsWords(Vec v) { return _mm256_castps_si256(v); }
  static Vec ToFloat(Words v) { return _mm256_cvtepi32_ps(v); }
  static Words MaxWords(Words a, Words b) { return _mm256_max_epu32(a, b); }
  static Words MaxSigned(Words a, Words b) { return _mm256_max_epi32(a, b); }
  static uint32_t MaxWordOf(Words v) {
    __m128i x = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_max_epu32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_max_epu32(x, _mm_shuffle_epi32(x, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(x));
  }

  static constexpr bool kDotsBf16 = false;
  static Words LowHalves(Words v) { return _mm256_slli_epi32(v, 16); }
  static Words HighHalves(Words v) { return _mm256_and_si256(v, SetWord(0xffff0000)); }
  // Packs eight 32-bit lanes of 0 .. 65535.
  static __m128i Pack16(__m256i v) {
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  }
  // Rounded to bf16 in the high halves; the low ones are left over.
  static Words RoundHalves(Vec v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), SetWord(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, SetWord(0x7fff)));
    const __m256i nan = _mm256_or_si256(bits, SetWord(0x400000));
    return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
  // a in the low halves, b in the high ones.
  static Words PairBf16(Vec a, Vec b) {
    return _mm256_or_si256(_mm256_srli_epi32(RoundHalves(a), 16), HighHalves(RoundHalves(b)));
  }
  static void StoreBf16(uint16_t* p, Vec v, size_t n) {
    const __m128i packed = Pack16(_mm256_srli_epi32(RoundHalves(v), 16));
    if (n == kLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
    } else {
      __builtin_memcpy(p, &packed, n * sizeof(uint16_t));
    }
  }

#if defined(__AVXVNNI__)
  static constexpr bool kDotsInt8 = true;
  // Written as assembly: g++ 12 keeps the sums of the intrinsic in memory.
  static Words DotInt8(Words acc, Words x, Words w) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(x), "x"(w));
    return acc;
  }
#else
  static constexpr bool kDotsInt8 = false;
  // Sums of two products of u8 by s8 in each s16 half; they saturate.
  static Words MaddBytes(Words x, Words w) { return _mm256_maddubs_epi16(x, w); }
  static Words AddHalves(Words a, Words b) { return _mm256_add_epi16(a, b); }
  // s8 bytes: the size as u8; w times the sign of x, 0 where that is 0.
  static Words AbsBytes(Words x) { return _mm256_abs_epi8(x); }
  static Words SignBytes(Words w, Words x) { return _mm256_sign_epi8(w, x); }
#endif
  static Words EvenBytes(Words v) { return _mm256_and_si256(v, SetWord(0x00ff00ff)); }
  static Words OddBytes(Words v) { return _mm256_srli_epi16(v, 8); }
  static Words EvenBytesSigned(Words v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
  static Words OddBytesSigned(Words v) { return _mm256_srai_epi16(v, 8); }
  static Words MaddHalves(Words x, Words w) { return _mm256_madd_epi16(x, w); }
  // Four vectors as bytes, rounded to nearest even, clamped to 0 .. 255.
  static Words Bytes(const Vec (&v)[4]) {
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
    // Each 128-bit lane holds four bytes of every vector.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  }
  static void StoreBytes(uint8_t* p, const Vec (&v)[4]) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Bytes(v));
  }
  // The same less 128, as s8.
  static void StoreSignedBytes(uint8_t* p, const Vec (&v)[4]) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_xor_si256(Bytes(v), SetWord(0x80808080)));
  }
  static void StoreF16(Half* p, Vec v, size_t n) {
    const __m128i packed = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __builtin_memcpy(p, &packed, n * sizeof(Half));
  }
  // Bytes of s8 as floats.
  static Vec LoadS8(const int8_t* p) {
    return ToFloat(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }

  // to[c][r] = from[r][c], 16 x 16 words, rows `stride` words apart.
  static void Transpose(const Word* from, size_t stride, Word* to, size_t to_stride) {
    for (size_t r = 0; r < 16; r += 8) {
      for (size_t c = 0; c < 16; c += 8) {
        TransposeEight(from + r * stride + c, stride, to + c * to_stride + r, to_stride);
      }
    }
  }
  // The same, 8 x 8: by pairs of rows, by fours, then by the registers' halves.
  static void TransposeEight(const Word* from, size_t stride, Word* to, size_t to_stride) {
    Words v[8], t[8];
#pragma GCC unroll 8
    for (size_t r = 0; r < 8; ++r) v[r] = LoadWords(from + r * stride);
#pragma GCC unroll 4
    for (size_t r = 0; r < 8; r += 2) {
      t[r] = _mm256_unpacklo_epi32(v[r], v[r + 1]);
      t[r + 1] = _mm256_unpackhi_epi32(v[r], v[r + 1]);
    }
#pragma GCC unroll 2
    for (size_t r = 0; r < 8; r += 4) {
      v[r] = _mm256_unpacklo_epi64(t[r], t[r + 2]);
      v[r + 1] = _mm256_unpackhi_epi64(t[r], t[r + 2]);
      v[r + 2] = _mm256_unpacklo_epi64(t[r + 1], t[r + 3]);
      v[r + 3] = _mm256_unpackhi_epi64(t[r + 1], t[r + 3]);
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < 4; ++c) {
      const auto store = [&](size_t column, Words a) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + column * to_stride), a);
      };
      store(c, _mm256_permute2x128_si256(v[c], v[4 + c], 0x20));
      store(4 + c, _mm256_permute2x128_si256(v[c], v[4 + c], 0x31));
    }
  }

  // For blocks (see block_layout.h).
  static Words AndWords(Words a, Words b) { return _mm256_and_si256(a, b); }
  static Words OrWords(Words a, Words b) { return _mm256_or_si256(a, b); }
  static Words SubWords(Words a, Words b) { return _mm256_sub_epi32(a, b); }
  static Words SubBytes(Words a, Words b) { return _mm256_sub_epi8(a, b); }
  // Lanes shifted by n bits, 0 <= n < 32; the last keeps the sign.
  static Words ShiftLeft(Words v, int n) { return (Words)((__v8su)v << static_cast<unsigned>(n)); }
  static Words ShiftRight(Words v, int n) { return (Words)((__v8su)v >> static_cast<unsigned>(n)); }
  static Words ShiftRightSigned(Words v, int n) { return (Words)((__v8si)v >> n); }
  // Lane by lane: the sum of the products of the s16 halves.
  static Words DotHalves(Words a, Words b) { return _mm256_madd_epi16(a, b); }
  // kLanes f16.
  static Vec LoadF16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  // The f16 in the low halves.
  static Vec LowF16(Words v) {
    return _mm256_cvtph_ps(Pack16(_mm256_and_si256(v, SetWord(0xffff))));
  }
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
    asm volatile("" : "+x"(*v));
  }
  template <typename T>
  static void Use(T v) {
    asm volatile("" : : "x"(v));
  }
};
