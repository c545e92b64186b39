// The step of a GEMM tile over one 32-bit word of k, for each data type. Included inside namespace
// penstock::cpu::<isa>, after that set's Simd.
//
// A word holds 1 f32, 2 bf16 or 4 int8 values of neighbouring k. A set without an instruction for
// the whole word takes it in two phases: even values, then odd ones. Weights<phase> and Rows<phase>
// give what Add multiplies, lane by lane. kCoarse: the activation may round the results further.
// kByPairs: the set multiplies two rows by two columns at once. kTileRows: the rows of a tile, whose
// sums the registers hold. kUnroll: the words of k that a turn of the loop adds.

struct DotF32 {
  using Acc = Simd::Vec;
  static constexpr numbers::DType kType = numbers::DType::kF32;
  static constexpr bool kInt8 = false;
  static constexpr bool kByPairs = false;
  static constexpr bool kCoarse = false;
  static constexpr int kPhases = 1;
  static constexpr int kTileRows = Simd::kTileRows;
  static constexpr size_t kUnroll = Simd::kUnroll;
  template <int kPhase>
  static Simd::Words Weights(Simd::Words w) {
    return w;
  }
  template <int kPhase>
  static Simd::Words Rows(Simd::Words x) {
    return x;
  }
  static Acc Add(Acc acc, Simd::Words x, Simd::Words w) {
    return Simd::Fma(Simd::AsFloat(x), Simd::AsFloat(w), acc);
  }
};

// Without native products the halves are widened to f32: exact products, one rounding a sum.
template <typename S>
struct DotBf16Of {
  using Set = S;
  using Acc = typename S::Vec;
  static constexpr numbers::DType kType = numbers::DType::kBf16;
  static constexpr bool kInt8 = false;
  static constexpr bool kByPairs = requires { S::kMultipliesPairs; };
  static constexpr bool kCoarse = true;
  static constexpr int kPhases = S::kDotsBf16 ? 1 : 2;
  static constexpr int kTileRows = S::kTileRows;
  static constexpr size_t kUnroll = kPhases == 1 ? S::kUnroll : 1;
  template <int kPhase>
  static typename S::Words Weights(typename S::Words w) {
    if constexpr (S::kDotsBf16) {
      return w;
    } else {
      return kPhase == 0 ? S::LowHalves(w) : S::HighHalves(w);
    }
  }
  template <int kPhase>
  static typename S::Words Rows(typename S::Words x) {
    return Weights<kPhase>(x);
  }
  static Acc Add(Acc acc, typename S::Words x, typename S::Words w) {
    if constexpr (S::kDotsBf16) {
      return S::DotBf16(acc, x, w);
    } else {
      return S::Fma(S::AsFloat(x), S::AsFloat(w), acc);
    }
  }
};

// Rows u8, weights s8, sums s32: nothing saturates. Without native products the bytes are widened
// to 16 bits, where a sum of two products fits in 32. (maddubs would saturate at 16. Codes of few
// bits fit even there: ShortSums in block_codes-inl.h.)
template <typename S>
struct DotInt8Of {
  using Set = S;
  using Acc = typename S::Words;
  static constexpr numbers::DType kType = numbers::DType::kI8;
  static constexpr bool kInt8 = true;
  static constexpr bool kByPairs = requires { S::kMultipliesPairs; };
  static constexpr bool kCoarse = true;
  static constexpr bool kSignedRows = false;
  static constexpr int kPhases = S::kDotsInt8 ? 1 : 2;
  static constexpr int kTileRows = S::kTileRows;
  static constexpr size_t kUnroll = kPhases == 1 ? S::kUnroll : 1;
  template <int kPhase>
  static typename S::Words Weights(typename S::Words w) {
    if constexpr (S::kDotsInt8) {
      return w;
    } else {
      return kPhase == 0 ? S::EvenBytesSigned(w) : S::OddBytesSigned(w);
    }
  }
  template <int kPhase>
  static typename S::Words Rows(typename S::Words x) {
    if constexpr (S::kDotsInt8) {
      return x;
    } else {
      return kPhase == 0 ? S::EvenBytes(x) : S::OddBytes(x);
    }
  }
  static Acc Add(Acc acc, typename S::Words x, typename S::Words w) {
    if constexpr (S::kDotsInt8) {
      return S::DotInt8(acc, x, w);
    } else {
      return S::AddWords(acc, S::MaddHalves(x, w));
    }
  }
};

// Rows s8, for sets that sum two products of bytes in 16 bits. |x| times (w with the sign of x) is at
// most 128 * 127, so such a sum does not saturate. 9 instructions of a vector unit for 64 products of
// a row, where widened bytes take 11.
template <typename S>
struct DotSignedOf : DotInt8Of<S> {
  using Words = typename S::Words;
  static constexpr bool kSignedRows = true;
  static constexpr int kPhases = 1;
  static constexpr int kTileRows = S::kTileRows - 1;  // x, |x| and ones take registers
  // More, and g++ adds up the products of the words first, for which the registers do not suffice.
  static constexpr size_t kUnroll = 1;
  template <int kPhase>
  static Words Weights(Words w) {
    return w;
  }
  template <int kPhase>
  static Words Rows(Words x) {
    return x;
  }
  static Words Add(Words acc, Words x, Words w) {
    const Words pairs = S::MaddBytes(S::AbsBytes(x), S::SignBytes(w, x));
    return S::AddWords(acc, S::MaddHalves(pairs, S::SetWord(0x00010001)));
  }
};

template <typename S, bool kSigned = requires { &S::SignBytes; }
> struct DotRowsOf { using Dot = DotInt8Of<S>; };
template <typename S>
struct DotRowsOf<S, true> {
  using Dot = DotSignedOf<S>;
};

// The registers do not suffice for what g++ does by itself in two phases: it begins all rows before
// it ends the first, and keeps them for the second phase. So a step of a sum ends before the next
// begins, and the second phase loads the rows again.
template <typename Dot>
[[gnu::always_inline]] inline void EndStep(typename Dot::Acc* sum) {
  if constexpr (Dot::kPhases == 2 && Simd::kLanes > 1) Simd::Hide(sum);
}
[[gnu::always_inline]] inline const Word* Again(const Word* rows) {
  asm volatile("" : "+r"(rows));
  return rows;
}

using DotBf16 = DotBf16Of<Simd>;
using DotInt8 = DotInt8Of<Simd>;
// For rows of PackRows, which are s8 where the set has DotSignedOf.
using DotRows = DotRowsOf<Simd>::Dot;
