// The arithmetic peak, for benchmarks to compare with. Included inside namespace
// penstock::cpu::<isa>, after gemm-inl.h.

template <typename Dot>
double PeakOf(size_t steps, size_t word_values) {
  typename Dot::Acc sums[kTileRows][kTileVecs] = {};
  Simd::Words x = Simd::ZeroWords();
  const Simd::Words w = Simd::ZeroWords();
  for (size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        Simd::Hide(&x);  // else equal products would be computed once
        sums[r][c] = Dot::Add(sums[r][c], x, w);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) Simd::Use(sums[r][c]);
  }
  return 2.0 * static_cast<double>(steps * kTileRows * kPanel * word_values) / Dot::kPhases;
}

double Peak(numbers::DType dtype, size_t steps) {
  const size_t values = WordValues(dtype);
  if (dtype == numbers::DType::kF32) return PeakOf<DotF32>(steps, values);
  if (dtype == numbers::DType::kBf16) return PeakOf<DotBf16>(steps, values);
  return PeakOf<DotInt8>(steps, values);
}
