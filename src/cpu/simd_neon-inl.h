// The vector types of the NEON build: armv8-a as every 64-bit ARM processor has it, with I8MM and
// BF16 where the file is compiled for them. Included inside namespace penstock::cpu::<isa>, after <arm_neon.h>.

struct Simd {
  using Vec = float32x4_t;
  static constexpr int kLanes = 4;
  // GEMM tile: 6 rows x 4 vectors = 24 accumulators, 4 weight registers, 1 broadcast of 32
  // registers. A panel's word of k is one cache line. More rows would leave fewer columns, and with
  // them more loads for each product.
  static constexpr int kTileRows = 6;
  static constexpr int kTileVecs = 4;
  static constexpr size_t kUnroll = 1;  // words of k a turn of a GEMM's loop adds

  static Vec Zero() { return vdupq_n_f32(0); }
  static Vec Set(float x) { return vdupq_n_f32(x); }
  static Vec Load(const float* p) { return vld1q_f32(p); }
  static void Store(float* p, Vec v) { vst1q_f32(p, v); }
  // There are no masked loads: pairs and single lanes.
  static Vec LoadPart(const float* p, size_t n) {
    if (n < 2) return n == 0 ? Zero() : vld1q_lane_f32(p, Zero(), 0);
    const Vec pair = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return n == 2 ? pair : vld1q_lane_f32(p + 2, pair, 2);
  }
  static void StorePart(float* p, Vec v, size_t n) {
    if (n >= 2) vst1_f32(p, vget_low_f32(v));
    if (n == 3) vst1q_lane_f32(p + 2, v, 2);
    if (n == 1) vst1q_lane_f32(p, v, 0);
  }
  static Vec KeepPart(Vec v, Vec other, size_t n) {
    const uint32x4_t lanes = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(lanes, vdupq_n_u32(static_cast<uint32_t>(n))), v, other);
  }
  static Vec Add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec Sub(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec Mul(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec Div(Vec a, Vec b) { return vdivq_f32(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  // Not vmaxq: that has a rule of its own for NaN (see math-inl.h for ours).
  static Vec Max(Vec a, Vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static Vec Min(Vec a, Vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static Vec SelectLess(Vec a, Vec b, Vec x, Vec y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
  static Vec Round(Vec v) { return vrndnq_f32(v); }
  static Vec Scale2(Vec v, Vec n) {
    const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(v, vreinterpretq_f32_s32(exponent));
  }
  static float Sum(Vec v) { return vaddvq_f32(v); }
  static float MaxOf(Vec v) { return vmaxvq_f32(v); }

  // 32-bit lanes: sums of integer products, and the words of packed operands (see kernels.h).
  using Words = uint32x4_t;
  static Words ZeroWords() { return vdupq_n_u32(0); }
  static Words SetWord(uint32_t x) { return vdupq_n_u32(x); }
  static Words LoadWords(const Word* p) { return vld1q_u32(p); }
  static Words MulWords(Words a, Words b) { return vmulq_u32(a, b); }
  static Words AddWords(Words a, Words b) { return vaddq_u32(a, b); }
  static Vec AsFloat(Words v) { return vreinterpretq_f32_u32(v); }
  static Words AsWords(Vec v) { return vreinterpretq_u32_f32(v); }
  static Vec ToFloat(Words v) { return vcvtq_f32_s32(vreinterpretq_s32_u32(v)); }
  static Words MaxWords(Words a, Words b) { return vmaxq_u32(a, b); }
  static Words MaxSigned(Words a, Words b) {
    return vreinterpretq_u32_s32(vmaxq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b)));
  }
  static uint32_t MaxWordOf(Words v) { return vmaxvq_u32(v); }

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  static constexpr bool kDotsBf16 = true;
  static bfloat16x8_t Bf16(Words v) { return vreinterpretq_bf16_u32(v); }
  // acc + (even halves' product + odd halves' product); each sum is rounded to odd, denormals are 0.
  static Vec DotBf16(Vec acc, Words x, Words w) { return vbfdotq_f32(acc, Bf16(x), Bf16(w)); }
#else
  static constexpr bool kDotsBf16 = false;
#endif

  static Words LowHalves(Words v) { return vshlq_n_u32(v, 16); }
  static Words HighHalves(Words v) { return vandq_u32(v, SetWord(0xffff0000)); }
  // Rounded to bf16 in the high halves; the low ones are left over.
  static Words RoundHalves(Vec v) {
    const Words bits = vreinterpretq_u32_f32(v);
    const Words odd = vandq_u32(vshrq_n_u32(bits, 16), SetWord(1));
    const Words rounded = vaddq_u32(bits, vaddq_u32(odd, SetWord(0x7fff)));
    return vbslq_u32(vceqq_f32(v, v), rounded, vorrq_u32(bits, SetWord(0x400000)));
  }
  // a in the low halves, b in the high ones.
  static Words PairBf16(Vec a, Vec b) { return vsriq_n_u32(RoundHalves(b), RoundHalves(a), 16); }
  static void StoreBf16(uint16_t* p, Vec v, size_t n) {
    const uint16x4_t packed = vshrn_n_u32(RoundHalves(v), 16);
    if (n == kLanes) {
      vst1_u16(p, packed);
    } else {
      __builtin_memcpy(p, &packed, n * sizeof(uint16_t));
    }
  }

#if defined(__ARM_FEATURE_MATMUL_INT8)
  static constexpr bool kDotsInt8 = true;
  static Words DotInt8(Words acc, Words x, Words w) {
    return vreinterpretq_u32_s32(
        vusdotq_s32(vreinterpretq_s32_u32(acc), vreinterpretq_u8_u32(x), vreinterpretq_s8_u32(w)));
  }
#else
  static constexpr bool kDotsInt8 = false;
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  // Blocks of two rows by two columns, of two words of k at once, which are twice the products of
  // the dots above: lanes r0 c0, r0 c1, r1 c0, r1 c1.
  static constexpr bool kMultipliesPairs = true;
  static Words PairRows(const Word* first, const Word* second) {
    return vcombine_u32(vld1_u32(first), vld1_u32(second));
  }
  // The next word of each column beside the one before: of the first two columns, the last two.
  static Words LowPairs(Words word, Words next) { return vzip1q_u32(word, next); }
  static Words HighPairs(Words word, Words next) { return vzip2q_u32(word, next); }
  static Words AddPairs(Words acc, Words rows, Words columns) {
    return vreinterpretq_u32_s32(vusmmlaq_s32(
        vreinterpretq_s32_u32(acc), vreinterpretq_u8_u32(rows), vreinterpretq_s8_u32(columns)));
  }
  // A block's four products are added as two dots are.
  static Vec AddPairs(Vec acc, Words rows, Words columns) {
    return vbfmmlaq_f32(acc, Bf16(rows), Bf16(columns));
  }
  // A row of four columns, of their two blocks.
  static Words FirstRow(Words low, Words high) {
    return vreinterpretq_u32_u64(
        vtrn1q_u64(vreinterpretq_u64_u32(low), vreinterpretq_u64_u32(high)));
  }
  static Words SecondRow(Words low, Words high) {
    return vreinterpretq_u32_u64(
        vtrn2q_u64(vreinterpretq_u64_u32(low), vreinterpretq_u64_u32(high)));
  }
  static Vec FirstRow(Vec low, Vec high) {
    return vreinterpretq_f32_u32(FirstRow(vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high)));
  }
  static Vec SecondRow(Vec low, Vec high) {
    return vreinterpretq_f32_u32(
        SecondRow(vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high)));
  }
#endif

  static int16x8_t Halves(Words v) { return vreinterpretq_s16_u32(v); }
  static Words FromHalves(int16x8_t v) { return vreinterpretq_u32_s16(v); }
  static Words EvenBytes(Words v) { return vandq_u32(v, SetWord(0x00ff00ff)); }
  static Words OddBytes(Words v) {
    return vreinterpretq_u32_u16(vshrq_n_u16(vreinterpretq_u16_u32(v), 8));
  }
  static Words EvenBytesSigned(Words v) {
    return FromHalves(vshrq_n_s16(vshlq_n_s16(Halves(v), 8), 8));
  }
  static Words OddBytesSigned(Words v) { return FromHalves(vshrq_n_s16(Halves(v), 8)); }
  // A product of two bytes, at most 255 * 127, fits in 16 bits; a sum of two does not.
  static Words MaddHalves(Words x, Words w) {
    return vreinterpretq_u32_s32(vpaddlq_s16(vmulq_s16(Halves(x), Halves(w))));
  }
  // Four vectors as bytes, rounded to nearest even, clamped to 0 .. 255.
  static void StoreBytes(uint8_t* p, const Vec (&v)[4]) {
    uint16x4_t halves[4];
    for (int i = 0; i < 4; ++i) halves[i] = vqmovun_s32(vcvtnq_s32_f32(v[i]));
    vst1q_u8(p, vcombine_u8(vqmovn_u16(vcombine_u16(halves[0], halves[1])),
                            vqmovn_u16(vcombine_u16(halves[2], halves[3]))));
  }
  static void StoreF16(Half* p, Vec v, size_t n) {
    const uint16x4_t packed = vreinterpret_u16_f16(vcvt_f16_f32(v));
    __builtin_memcpy(p, &packed, n * sizeof(Half));
  }
  // Bytes of s8 as floats.
  static Vec LoadS8(const int8_t* p) {
    int32_t bytes;
    __builtin_memcpy(&bytes, p, sizeof(bytes));
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
  }

  // For blocks (see block_layout.h).
  static Words AndWords(Words a, Words b) { return vandq_u32(a, b); }
  static Words OrWords(Words a, Words b) { return vorrq_u32(a, b); }
  static Words SubWords(Words a, Words b) { return vsubq_u32(a, b); }
  static Words SubBytes(Words a, Words b) {
    return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
  }
  // Lanes shifted by n bits, 0 <= n < 32; the last keeps the sign.
  static Words ShiftLeft(Words v, int n) { return vshlq_u32(v, vdupq_n_s32(n)); }
  static Words ShiftRight(Words v, int n) { return vshlq_u32(v, vdupq_n_s32(-n)); }
  static Words ShiftRightSigned(Words v, int n) {
    return vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(v), vdupq_n_s32(-n)));
  }
  // Lane by lane: the sum of the products of the s16 halves.
  static Words DotHalves(Words a, Words b) {
    const int16x8_t x = Halves(a), y = Halves(b);
    return vreinterpretq_u32_s32(
        vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
  }
  // kLanes f16.
  static Vec LoadF16(const void* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const uint16_t*>(p))));
  }
  // The f16 in the low halves.
  static Vec LowF16(Words v) { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v))); }
  // 32 bytes.
  static int SumBytes(const uint8_t* p) {
    return vaddlvq_u8(vld1q_u8(p)) + vaddlvq_u8(vld1q_u8(p + 16));
  }

  // The compiler no longer knows the value, or must have computed it.
  template <typename T>
  static void Hide(T* v) {
    asm volatile("" : "+w"(*v));
  }
  template <typename T>
  static void Use(T v) {
    asm volatile("" : : "w"(v));
  }
};
