// As block_gemm-inl.h, by a tile unit: a panel's piece, unpacked as words, is what the unit reads as
// weights, a group at a time. Included inside namespace penstock::cpu::<isa>, after
// block_gemm-inl.h.
//
// int8: a group's exact sums go to memory, where scales, zero points and minima are applied as
// AddCodes and AddScaled do, to the same bits; meanwhile the unit multiplies the next group. bf16:
// a piece's sums stay in the unit, whose order is that of tile_gemm-inl.h.

// A tile of `rows` <= kUnitRows, from group `first` of `all` on.
struct UnitRows {
  const Word* x;  // of the first group
  size_t rows;
};

// One group (or half of one), of kWords words, from 0 on, to `sums`: [rows][kPanel] of s32.
// kGroup: words of a row's group.
template <bool kTall, size_t kGroup>
[[gnu::always_inline]] inline void MultiplyCodes(const Word* x, const Word* words, Word* sums) {
  constexpr size_t kRowStride = kGroup * sizeof(Word);
  BeginSums<kTall>(nullptr);
  Tiles::template Load<kWeights0>(words, kPanelStride);
  Tiles::template Load<kRows0>(x, kRowStride);
  MultiplyTiles<DotInt8, kSums00, kRows0, kWeights0>();
  Tiles::template Load<kWeights1>(words + kTileEdge, kPanelStride);
  MultiplyTiles<DotInt8, kSums01, kRows0, kWeights1>();
  if constexpr (kTall) {
    Tiles::template Load<kRows1>(x + kTileEdge * kGroup, kRowStride);
    MultiplyTiles<DotInt8, kSums10, kRows1, kWeights0>();
    MultiplyTiles<DotInt8, kSums11, kRows1, kWeights1>();
  }
  StoreSums<kTall>(sums, kPanel);
}

// Adds the scaled sums of half a group (or a whole one) to the tile. `scales`: of the rows' group,
// [3][rows], see block_layout.h.
template <bool kMin>
inline void AddUnitScaled(const Word* scales, size_t rows, const Word* sums, const Piece& piece,
                          size_t half, size_t group, float* tile) {
  const float* row_scales = reinterpret_cast<const float*>(scales);
  for (int c = 0; c < kTileVecs; ++c) {
    const size_t column = static_cast<size_t>(c) * kLanes;
    const Vec scale = Simd::Load(piece.scales + half * kPanel + column);
    const Simd::Words total = Simd::LoadWords(piece.sums + half * kPanel + column);
    const Vec min = kMin ? Simd::Load(piece.mins + group * kPanel + column) : Simd::Zero();
    for (size_t r = 0; r < rows; ++r) {
      float* to = tile + r * kPanel + column;
      const Simd::Words zero_and_steps = Simd::SetWord(scales[2 * rows + r]);
      const Simd::Words sum = Simd::AddWords(Simd::LoadWords(sums + r * kPanel + column),
                                             Simd::DotHalves(total, zero_and_steps));
      Vec y =
          Simd::Fma(Simd::Mul(Simd::ToFloat(sum), scale), Simd::Set(row_scales[r]), Simd::Load(to));
      if constexpr (kMin) y = Simd::Fma(min, Simd::Set(row_scales[rows + r]), y);
      Simd::Store(to, y);
    }
  }
}

template <numbers::DType kType, bool kTall>
inline void AddUnitCodes(const UnitRows& from, const Piece& piece, size_t groups, PieceFetch fetch,
                         float* tile) {
  constexpr size_t kHalves = Block<kType>::kHalves;
  constexpr size_t kWords = kGroupWords / kHalves;
  const size_t group_words = BlockRowWords(numbers::DType::kI8) * from.rows;
  alignas(64) Word sums[2][kUnitRows * kPanel];
  const auto add = [&](size_t half) {
    const size_t g = half / kHalves;
    AddUnitScaled<Block<kType>::kHasMin>(from.x + g * group_words + kGroupWords * from.rows,
                                         from.rows, sums[half % 2], piece, half, g, tile);
  };
  for (size_t half = 0; half < groups * kHalves; ++half) {
    if (half % kHalves == 0) fetch.Next();
    const Word* x = from.x + half / kHalves * group_words + half % kHalves * kWords;
    MultiplyCodes<kTall, kGroupWords>(x, piece.words + half * kWords * kPanel, sums[half % 2]);
    if (half > 0) add(half - 1);
  }
  add(groups * kHalves - 1);
}

template <bool kTall>
inline void AddUnitFloats(const UnitRows& from, const Word* words, size_t groups, PieceFetch fetch,
                          float* tile) {
  constexpr size_t kWords = BlockRowWords(numbers::DType::kBf16);
  static_assert(kWords == kTileEdge);
  LoadSums<kTall>(tile, kPanel);
  for (size_t g = 0; g < groups; ++g) {
    fetch.Next();
    TileStep<DotBf16, kTall>(from.x + g * kWords * from.rows, kWords, words + g * kWords * kPanel);
  }
  StoreSums<kTall>(tile, kPanel);
}

// Adds a piece to a tile of rows.
template <numbers::DType kType, typename Dot, bool kTall>
inline void AddUnitPiece(const UnitRows& from, const Word* words, const Piece& piece, size_t groups,
                         PieceFetch fetch, float* tile) {
  if constexpr (Dot::kInt8) {
    AddUnitCodes<kType, kTall>(from, piece, groups, fetch, tile);
  } else {
    AddUnitFloats<kTall>(from, words, groups, fetch, tile);
  }
}

// Rows [begin, end) by one panel, whose first column is `column`, as BlockPanel does.
template <numbers::DType kType, typename Dot>
void UnitBlockPanel(const BlockGemmTask& task, size_t begin, size_t end, size_t column,
                    const uint8_t* panel, const uint8_t* next, Piece* piece) {
  constexpr size_t kGroups =
      Dot::kInt8 ? kPieceGroups : kPieceWords / BlockRowWords(numbers::DType::kBf16);
  constexpr size_t kUnitWords = Dot::kInt8 ? kGroupWords / BlockLayout<kType>::kHalves : kTileEdge;
  const size_t all = BlockGroups(task.in);
  const size_t words = BlockRowWords(task.dtype);
  const size_t tiles = (end - begin + kUnitRows - 1) / kUnitRows;
  size_t configured = 0;
  for (size_t g = 0; g < all; g += kGroups) {
    const size_t groups = all - g < kGroups ? all - g : kGroups;
    const size_t bytes = BlockPanelBytes(kType, groups * kBlockGroup, kPanel);
    const Word* unpacked = Unpack<kType, Dot>(panel, groups, piece);
    panel += bytes;
    const uint8_t* ahead = g + groups < all ? panel : next;
    const size_t lines =
        ahead == nullptr ? 0 : (bytes / 64 + tiles * groups - 1) / (tiles * groups);
    for (size_t t = 0; t < tiles; ++t) {
      const size_t first = begin + t * kUnitRows;
      const size_t rows = end - first < kUnitRows ? end - first : kUnitRows;
      const size_t last_row = first + rows < task.rows ? first + rows : task.rows;
      float* tile = piece->tile + t * kUnitRows * kPanel;
      const bool last = g + groups == all;
      if (last) FetchResults(task, column, first, last_row);
      if (rows != configured) ConfigureTiles<Dot>(rows, kUnitWords);
      configured = rows;
      const PieceFetch fetch = {ahead + t * groups * lines * 64, lines};
      const UnitRows from = {task.x + first * all * words + g * words * rows, rows};
      if (rows > kTileEdge) {
        AddUnitPiece<kType, Dot, true>(from, unpacked, *piece, groups, fetch, tile);
      } else {
        AddUnitPiece<kType, Dot, false>(from, unpacked, *piece, groups, fetch, tile);
      }
      if (last) FinishBlocks<Dot::kCoarse>(task, column, first, last_row - first, tile);
    }
  }
}

// As BlockGemmBy.
template <numbers::DType kType, typename Dot>
void UnitBlockGemm(const BlockGemmTask& task) {
  Piece* piece = static_cast<Piece*>(task.scratch);
  const size_t panel_bytes = BlockPanelBytes(kType, task.in, kPanel);
  const size_t tile_bytes =
      kUnitRows * BlockGroups(task.in) * BlockRowWords(task.dtype) * sizeof(Word);
  constexpr size_t kTilesMax = kBlockRowsMax / kUnitRows;
  size_t block_tiles = kBlockRowBytes / tile_bytes;
  if (block_tiles < 1) block_tiles = 1;
  if (block_tiles > kTilesMax) block_tiles = kTilesMax;
  const size_t rows = PaddedRows(task.rows);
  const size_t block_rows = block_tiles * kUnitRows;
  for (size_t begin = 0; begin < rows; begin += block_rows) {
    const size_t end = rows - begin < block_rows ? rows : begin + block_rows;
    for (size_t p = 0; p < task.panel_count; ++p) {
      const size_t first = p * kPanel;
      FillWithBias(task.bias == nullptr ? nullptr : task.bias + first, end - begin, piece->tile);
      const uint8_t* panel = task.panels + p * panel_bytes;
      const uint8_t* after = end < rows ? task.panels : task.next;
      const uint8_t* next = p + 1 < task.panel_count ? panel + panel_bytes : after;
      UnitBlockPanel<kType, Dot>(task, begin, end, first, panel, next, piece);
    }
  }
  ReleaseTiles<Dot>();
}
