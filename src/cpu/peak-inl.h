// The arithmetic peak, for benchmarks to compare with. Included inside namespace
// penstock::cpu::<isa>, after gemm-inl.h.

template <typename Dot>
double PeakOf(size_t steps, size_t word_values) {
  typename Dot::Acc sums[Dot::kTileRows][kTileVecs] = {};
  Simd::Words x = Simd::ZeroWords(), w[kTileVecs] = {};
  // Else products by zeros would be left out, and equal ones computed once.
#pragma GCC unroll 4
  for (int c = 0; c < kTileVecs; ++c) Simd::Hide(&w[c]);
  for (size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (int r = 0; r < Dot::kTileRows; ++r) {
      Simd::Hide(&x);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Dot::Add(sums[r][c], x, w[c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Dot::kTileRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) Simd::Use(sums[r][c]);
  }
  return 2.0 * static_cast<double>(steps * Dot::kTileRows * kPanel * word_values) / Dot::kPhases;
}

// A step of a tile unit is 16 words of k.
template <typename Dot>
double UnitPeak(size_t steps, size_t word_values) {
  ConfigureTiles<Dot>(kUnitRows);
  for (size_t i = 0; i < steps; ++i) {
    MultiplyTiles<Dot, kSums00, kRows0, kWeights0>();
    MultiplyTiles<Dot, kSums01, kRows0, kWeights1>();
    MultiplyTiles<Dot, kSums10, kRows1, kWeights0>();
    MultiplyTiles<Dot, kSums11, kRows1, kWeights1>();
  }
  ReleaseTiles<Dot>();
  return 2.0 * static_cast<double>(steps * kUnitRows * kUnitRows * kTileEdge * word_values);
}

// By blocks of two rows and two columns: a step is two words of k.
template <typename Dot>
double PairsPeak(size_t steps, size_t word_values) {
  using Set = typename Dot::Set;
  constexpr int kPairs = kTileRows / 2;
  typename Dot::Acc blocks[kPairs][2 * kTileVecs] = {};
  typename Set::Words x = Set::ZeroWords(), w = Set::ZeroWords();
  Set::Hide(&w);
  for (size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
#pragma GCC unroll 8
      for (int c = 0; c < 2 * kTileVecs; ++c) {
        Set::Hide(&x);
        blocks[p][c] = Set::AddPairs(blocks[p][c], x, w);
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p) {
#pragma GCC unroll 8
    for (int c = 0; c < 2 * kTileVecs; ++c) Set::Use(blocks[p][c]);
  }
  return 4.0 * static_cast<double>(steps * kTileRows * kPanel * word_values);
}

template <typename Dot>
double PeakBy(size_t steps, size_t word_values) {
  if constexpr (kByTiles<Dot>) {
    return UnitPeak<Dot>(steps, word_values);
  } else if constexpr (Dot::kByPairs) {
    return PairsPeak<Dot>(steps, word_values);
  } else {
    return PeakOf<Dot>(steps, word_values);
  }
}

double Peak(numbers::DType dtype, size_t steps) {
  const size_t values = WordValues(dtype);
  if (dtype == numbers::DType::kF32) return PeakBy<DotF32>(steps, values);
  if (dtype == numbers::DType::kBf16) return PeakBy<DotBf16>(steps, values);
  return PeakBy<DotRows>(steps, values);
}
