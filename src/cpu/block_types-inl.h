// block_gemm for every stored type. Included inside namespace penstock::cpu::<isa>, after
// tile_blocks-inl.h.

// `kSmall`: the type has kernels for few rows.
template <numbers::DType kType, typename Dot, bool kSmall>
void VectorBlockGemmBy(const BlockGemmTask& task) {
  if constexpr (Base::Multiplies(Dot::kType)) {
    Base::Table().block_gemm(task);
  } else {
    if constexpr (kSmall) {
      if (task.rows <= kSmallRows) return SmallGemmOf<kType>(task);
    }
    BlockGemmBy<kType, Dot>(task);
  }
}

template <numbers::DType kType>
void VectorBlockGemm(const BlockGemmTask& task) {
  constexpr bool kFloat = BlockLayout<kType>::kFloat;
  if (task.dtype == numbers::DType::kF32) return VectorBlockGemmBy<kType, DotF32, kFloat>(task);
  if (task.dtype == numbers::DType::kBf16) return VectorBlockGemmBy<kType, DotBf16, false>(task);
  if constexpr (!kFloat) VectorBlockGemmBy<kType, DotInt8, true>(task);
}

// With a tile unit, the vector kernels are those of another instruction set.
template <numbers::DType kType>
void BlockGemmOf(const BlockGemmTask& task) {
  if constexpr (!Tiles::kOffered) {
    VectorBlockGemm<kType>(task);
  } else {
    const BlockRowCut cut =
        CutBlockRows(task.dtype, task.rows, kTileRows, kUnitRows, task.tile_rows_min);
    if (!cut.for_unit) return Tiles::Vectors().block_gemm(task);
    if (task.dtype == numbers::DType::kBf16) return UnitBlockGemm<kType, DotBf16>(task);
    if constexpr (!BlockLayout<kType>::kFloat) UnitBlockGemm<kType, DotInt8>(task);
  }
}

void BlockGemm(const BlockGemmTask& task) {
  switch (task.stored) {
    case numbers::DType::kF32:
      return BlockGemmOf<numbers::DType::kF32>(task);
    case numbers::DType::kF16:
      return BlockGemmOf<numbers::DType::kF16>(task);
    case numbers::DType::kBf16:
      return BlockGemmOf<numbers::DType::kBf16>(task);
    case numbers::DType::kQ8_0:
      return BlockGemmOf<numbers::DType::kQ8_0>(task);
    case numbers::DType::kQ4_0:
      return BlockGemmOf<numbers::DType::kQ4_0>(task);
    case numbers::DType::kQ4_1:
      return BlockGemmOf<numbers::DType::kQ4_1>(task);
    case numbers::DType::kQ5_0:
      return BlockGemmOf<numbers::DType::kQ5_0>(task);
    case numbers::DType::kQ5_1:
      return BlockGemmOf<numbers::DType::kQ5_1>(task);
    case numbers::DType::kQ4K:
      return BlockGemmOf<numbers::DType::kQ4K>(task);
    case numbers::DType::kQ5K:
      return BlockGemmOf<numbers::DType::kQ5K>(task);
    case numbers::DType::kQ6K:
      return BlockGemmOf<numbers::DType::kQ6K>(task);
    default:
      return;
  }
}
