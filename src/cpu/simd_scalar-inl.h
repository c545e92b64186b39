// One-lane "vectors": plain C++, the reference for every other instruction set. Included inside
// namespace penstock::cpu::<isa>, after <cmath>.

struct Simd {
  using Vec = float;
  static constexpr int kLanes = 1;
  static constexpr int kTileRows = 4;
  static constexpr int kTileVecs = 4;
  static constexpr size_t kUnroll = 1;  // words of k a turn of a GEMM's loop adds

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

  // 32 bits: a sum of integer products, or a word of packed operands (see kernels.h).
  using Words = uint32_t;
  static Words ZeroWords() { return 0; }
  static Words SetWord(uint32_t x) { return x; }
  static Words LoadWords(const Word* p) { return *p; }
  static Words MulWords(Words a, Words b) { return a * b; }
  static Vec AsFloat(Words v) { return __builtin_bit_cast(float, v); }
  static Words AsWords(Vec v) { return __builtin_bit_cast(uint32_t, v); }
  static Vec ToFloat(Words v) { return static_cast<float>(static_cast<int32_t>(v)); }
  static Words MaxWords(Words a, Words b) { return a > b ? a : b; }
  static Words MaxSigned(Words a, Words b) {
    return static_cast<int32_t>(a) > static_cast<int32_t>(b) ? a : b;
  }
  static uint32_t MaxWordOf(Words v) { return v; }

  static constexpr bool kDotsBf16 = false;
  static Words LowHalves(Words v) { return v << 16; }
  static Words HighHalves(Words v) { return v & 0xffff0000; }
  static uint32_t RoundHalf(Vec v) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, v);
    return v == v ? bits + 0x7fff + ((bits >> 16) & 1) : bits | 0x400000;
  }
  // a in the low half, b in the high one.
  static Words PairBf16(Vec a, Vec b) { return RoundHalf(a) >> 16 | HighHalves(RoundHalf(b)); }
  static void StoreBf16(uint16_t* p, Vec v, size_t) {
    *p = static_cast<uint16_t>(RoundHalf(v) >> 16);
  }

  static constexpr bool kDotsInt8 = true;
  static Words DotInt8(Words acc, Words x, Words w) {
    for (int i = 0; i < 32; i += 8) {
      acc += ((x >> i) & 255) * static_cast<uint32_t>(static_cast<int8_t>(w >> i));
    }
    return acc;
  }
  // Four vectors as bytes, rounded to nearest even, clamped to 0 .. 255.
  static void StoreBytes(uint8_t* p, const Vec (&v)[4]) {
    for (int i = 0; i < 4; ++i) {
      p[i] = static_cast<uint8_t>(std::nearbyint(Min(Max(v[i], 0), 255)));  // NaN: 0
    }
  }
  static void StoreF16(Half* p, Vec v, size_t) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, v);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t rest = bits & 0x7fffffff;
    uint32_t half;
    if (rest >= 0x47800000) {  // 65536: infinity, or NaN
      half = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (rest < 0x38800000) {  // 2^-14: denormals are steps of 2^-24
      half = static_cast<uint32_t>(std::nearbyint(AsFloat(rest) * 0x1p24f));
    } else {
      half = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    }
    *p = static_cast<Half>(sign | half);
  }
  // Bytes of s8 as floats.
  static Vec LoadS8(const int8_t* p) { return *p; }

  // For blocks (see block_layout.h).
  static Words AndWords(Words a, Words b) { return a & b; }
  static Words OrWords(Words a, Words b) { return a | b; }
  static Words AddWords(Words a, Words b) { return a + b; }
  static Words SubWords(Words a, Words b) { return a - b; }
  static Words SubBytes(Words a, Words b) {
    return ((a | 0x80808080) - (b & 0x7f7f7f7f)) ^ ((a ^ ~b) & 0x80808080);
  }
  // Shifted by n bits, 0 <= n < 32; the last keeps the sign.
  static Words ShiftLeft(Words v, int n) { return v << n; }
  static Words ShiftRight(Words v, int n) { return v >> n; }
  static Words ShiftRightSigned(Words v, int n) {
    return static_cast<Words>(static_cast<int32_t>(v) >> n);
  }
  // The sum of the products of the s16 halves.
  static Words DotHalves(Words a, Words b) {
    const auto product = [a, b](int shift) {
      return static_cast<int16_t>(a >> shift) * static_cast<int16_t>(b >> shift);
    };
    return static_cast<Words>(product(0)) + static_cast<Words>(product(16));
  }
  // An f16. Subnormals are normalised by a multiplication, which is exact.
  static Vec LowF16(Words v) {
    const uint32_t sign = (v & 0x8000) << 16;
    const uint32_t rest = v & 0x7fff;
    uint32_t bits = (rest << 13) + (112u << 23);
    if (rest >= 0x7c00) bits = 0x7f800000 | (rest & 0x3ff) << 13;  // infinity, NaN
    if (rest < 0x400) bits = __builtin_bit_cast(uint32_t, static_cast<float>(rest) * 0x1p-24f);
    return __builtin_bit_cast(float, sign | bits);
  }
  static Vec LoadF16(const void* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof(half));
    return LowF16(half);
  }
  // 32 bytes.
  static int SumBytes(const uint8_t* p) {
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += p[i];
    return sum;
  }

  // The compiler no longer knows the value, or must have computed it.
  template <typename T>
  static void Hide(T* v) {
    asm volatile("" : "+r"(*v));
  }
  template <typename T>
  static void Use(T v) {
    asm volatile("" : : "g"(v));
  }
};
