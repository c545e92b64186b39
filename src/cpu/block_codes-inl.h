// Codes and scales of GGUF blocks, out of panels (see block_layout.h). Included inside namespace
// penstock::cpu::<isa>, after gemm-inl.h.

inline Simd::Words LoadWordsAt(const uint8_t* p, size_t word, int v) {
  return Simd::LoadWords(reinterpret_cast<const Word*>(p) + word * kPanel +
                         static_cast<size_t>(v) * kLanes);
}

inline void StoreWordsAt(Word* p, size_t word, int v, Simd::Words words) {
  Simd::Store(reinterpret_cast<float*>(p + word * kPanel + static_cast<size_t>(v) * kLanes),
              Simd::AsFloat(words));
}

// Lanes shifted up by n bits, or down where n < 0.
template <int n>
inline Simd::Words Shifted(Simd::Words words) {
  if constexpr (n > 0) return Simd::ShiftLeft(words, n);
  if constexpr (n < 0) return Simd::ShiftRight(words, -n);
  return words;
}

template <numbers::DType kType>
struct Block : BlockLayout<kType> {
  using Layout = BlockLayout<kType>;
  // Codes that Pair gives have this much to be taken off.
  static constexpr int kOffset = Layout::kByteScales ? 0 : Layout::kFormat.offset;

  static const uint8_t* Codes(const uint8_t* head) { return head + Layout::kHead * kPanel; }

  // Words 2 kPair and 2 kPair + 1 of a group, in vector v of the panel's columns.
  template <int kPair>
  [[gnu::always_inline]] static void Pair(const uint8_t* group, int v, Simd::Words* a,
                                          Simd::Words* b) {
    if constexpr (Layout::kFormat.low_bits == 8) {
      *a = LoadWordsAt(group, 2 * kPair, v);
      *b = LoadWordsAt(group, 2 * kPair + 1, v);
      return;
    }
    const Simd::Words low_mask = Simd::SetWord(0x0f0f0f0f);
    const Simd::Words low = LoadWordsAt(group + Layout::kHigh * kPanel, kPair, v);
    *a = Simd::AndWords(low, low_mask);
    *b = Simd::AndWords(Simd::ShiftRight(low, 4), low_mask);
    if constexpr (Layout::kFormat.high_bits == 1) {
      const Simd::Words high = LoadWordsAt(group, 0, v);
      const Simd::Words mask = Simd::SetWord(0x10101010);
      *a = Simd::OrWords(*a, Simd::AndWords(Shifted<4 - 2 * kPair>(high), mask));
      *b = Simd::OrWords(*b, Simd::AndWords(Shifted<3 - 2 * kPair>(high), mask));
    } else if constexpr (Layout::kFormat.high_bits == 2) {
      const Simd::Words high = LoadWordsAt(group, kPair / 2, v);
      const Simd::Words mask = Simd::SetWord(0x30303030);
      constexpr int kShift = 4 - kPair % 2 * 4;
      *a = Simd::OrWords(*a, Simd::AndWords(Shifted<kShift>(high), mask));
      *b = Simd::OrWords(*b, Simd::AndWords(Shifted<kShift - 2>(high), mask));
    }
    if constexpr (Layout::kByteScales) {
      const Simd::Words offset = Simd::SetWord(0x01010101u * Layout::kFormat.offset);
      *a = Simd::SubBytes(*a, offset);
      *b = Simd::SubBytes(*b, offset);
    }
  }

  // Six bits of group g: four of `low`, two of `high` from bit `shift` on; times d.
  static Vec SixBits(Simd::Words low, Simd::Words high, int g, int shift, Vec d) {
    const Simd::Words a = Simd::AndWords(Simd::ShiftRight(low, 4 * g), Simd::SetWord(15));
    const Simd::Words b = Simd::AndWords(Simd::ShiftRight(high, 2 * g + shift), Simd::SetWord(3));
    return Simd::Mul(Simd::ToFloat(Simd::OrWords(a, Simd::ShiftLeft(b, 4))), d);
  }

  // Scales of group g of a head, for each half, and its min, if the type has them. The products of
  // d with a scale are exact.
  [[gnu::always_inline]] static void Scales(const uint8_t* head, int g, int v,
                                            Vec (&scales)[Layout::kHalves], Vec* min) {
    const size_t lane = static_cast<size_t>(v) * kLanes;
    const Vec d = Simd::LoadF16(head + 2 * lane);
    Vec m = Simd::Zero();
    if constexpr (Layout::kHasMin) m = Simd::LoadF16(head + 2 * (kPanel + lane));
    const uint8_t* words = head + (Layout::kHasMin ? 4 : 2) * kPanel;
    if constexpr (Layout::kSixBits) {
      const Simd::Words high = LoadWordsAt(words, 2, v);
      scales[0] = SixBits(LoadWordsAt(words, 0, v), high, g, 0, d);
      *min = SixBits(LoadWordsAt(words, 1, v), high, g, 16, Simd::Sub(Simd::Zero(), m));
    } else if constexpr (Layout::kByteScales) {
      const Simd::Words bytes =
          Simd::ShiftRight(LoadWordsAt(words, static_cast<size_t>(g) / 2, v), g % 2 * 16);
      for (int h = 0; h < 2; ++h) {
        const Simd::Words scale = Simd::ShiftRightSigned(Simd::ShiftLeft(bytes, 24 - 8 * h), 24);
        scales[h] = Simd::Mul(Simd::ToFloat(scale), d);
      }
    } else {
      scales[0] = d;
      *min = m;
    }
  }
};

// Sum of products of the words' four bytes, added to acc.
[[gnu::always_inline]] inline Simd::Words DotWords(Simd::Words acc, Simd::Words x, Simd::Words w) {
  acc = DotInt8::Add(acc, DotInt8::Rows<0>(x), DotInt8::Weights<0>(w));
  if constexpr (DotInt8::kPhases == 2) {
    acc = DotInt8::Add(acc, DotInt8::Rows<1>(x), DotInt8::Weights<1>(w));
  }
  return acc;
}

// The set has no sum of four products of bytes, but one of two, which saturates at 16 bits.
template <typename S>
concept MaddsBytes = requires(typename S::Words words) {
  S::MaddBytes(words, words);
};

// How many words of codes, times u8 rows, have sums that fit in 16 bits. A half of such a sum grows by
// at most 2 * 255 * the largest code a word: 8 words of 4 bits reach 61200 and 4 words of 5 bits 63240,
// without a sign; 2 words of 6 bits with a sign stay within +-32640. A word of 8 bits may reach 64770
// with a sign, so there are none (0).
template <typename S, numbers::DType kType>
constexpr size_t ShortWords() {
  using Layout = BlockLayout<kType>;
  constexpr int kBits = Layout::kFormat.low_bits + Layout::kFormat.high_bits;
  static_assert(Layout::kFloat || Layout::kByteScales == (kBits == 6), "signed: those of 6 bits");
  return !MaddsBytes<S> || kBits == 8 ? 0 : (kBits == 4 ? 8 : (kBits == 5 ? 4 : 2));
}

// Sums of products in 16 bits, over ShortWords words. Those without a sign begin at -32768.
template <typename S, size_t kWords>
struct ShortSums {
  using Words = typename S::Words;
  static constexpr bool kSigned = kWords == 2;

  static Words Begin() { return kSigned ? S::ZeroWords() : S::SetWord(0x80008000); }
  static Words Add(Words sums, Words x, Words w) { return S::AddHalves(sums, S::MaddBytes(x, w)); }
  // acc, in 32 bits, and the sums.
  static Words AddTo(Words acc, Words sums) {
    acc = S::AddWords(acc, S::DotHalves(sums, S::SetWord(0x00010001)));
    return kSigned ? acc : S::AddWords(acc, S::SetWord(65536));
  }
};

// The sum of codes, at most those of a group.
template <typename S>
struct CodeTotal {
  using Words = typename S::Words;
  Words sums = S::ZeroWords();

  [[gnu::always_inline]] void Add(Words codes) {
    const Words ones = S::SetWord(0x01010101);
    if constexpr (MaddsBytes<S>) {
      sums = S::AddHalves(sums, S::MaddBytes(ones, codes));
    } else {
      sums = DotWords(sums, ones, codes);
    }
  }
  [[gnu::always_inline]] Words Sum() const {
    if constexpr (MaddsBytes<S>) return S::DotHalves(sums, S::SetWord(0x00010001));
    return sums;
  }
};

// Scales of a group of an int8 tile of kRows rows (see block_layout.h); `x` is its first word.
template <int kRows>
struct TileScales {
  const Word* x;

  Vec Scale(int r) const { return At(kGroupWords, r); }
  Vec Sum(int r) const { return At(kGroupWords + 1, r); }
  // As s16 halves.
  Simd::Words ZeroAndSteps(int r) const {
    return Simd::SetWord(x[(kGroupWords + 2) * kRows + static_cast<size_t>(r)]);
  }

 private:
  Vec At(size_t word, int r) const {
    return Simd::Set(*(reinterpret_cast<const float*>(x) + word * kRows + static_cast<size_t>(r)));
  }
};
