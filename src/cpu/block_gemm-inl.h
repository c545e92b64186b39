// Many rows by panels of GGUF blocks, and the float modes: a piece of a panel is unpacked into L2
// as words, then multiplied by all rows of a block with the tile of gemm-inl.h. Included inside
// namespace penstock::cpu::<isa>, after block_gemv-inl.h.

constexpr size_t kPieceWords = 512;  // of k: 2048 int8, 1024 bf16, 512 f32
constexpr size_t kPieceGroups = kPieceWords / kGroupWords;
constexpr size_t kBlockRowsMax = 224 / kTileRows * kTileRows;
// Bytes of packed rows that are multiplied by a panel while they are in L2.
constexpr size_t kBlockRowBytes = 512 << 10;

// In BlockGemmTask::scratch.
struct Piece {
  alignas(64) Word words[kPieceWords * kPanel];
  // int8: [groups][halves][kPanel], where s16 halves of `sums` are minus the sum of the codes and
  // minus the offset.
  alignas(64) float scales[2 * kPieceGroups * kPanel];
  alignas(64) Word sums[2 * kPieceGroups * kPanel];
  alignas(64) float mins[kPieceGroups * kPanel];
  alignas(64) float tile[kBlockRowsMax * kPanel];  // results so far
};
static_assert(sizeof(Piece) <= kBlockScratchBytes);

// `groups` of a panel, from a head on, as int8 words with their scales.
template <BlockType kType>
void UnpackCodes(const uint8_t* panel, size_t groups, Piece* piece) {
  using B = Block<kType>;
  constexpr size_t kHalfWords = kGroupWords / B::kHalves;
  for (size_t g = 0; g < groups; g += B::kGroups) {
    const uint8_t* head = panel;
    panel = B::Codes(head);
    for (size_t i = 0; i < B::kGroups; ++i, panel += B::kGroupBytes * kPanel) {
      const size_t group = g + i;
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        Simd::Words words[kGroupWords];
        B::template Pair<0>(panel, v, &words[0], &words[1]);
        B::template Pair<1>(panel, v, &words[2], &words[3]);
        B::template Pair<2>(panel, v, &words[4], &words[5]);
        B::template Pair<3>(panel, v, &words[6], &words[7]);
        Vec scales[B::kHalves];
        Vec min = Simd::Zero();
        B::Scales(head, static_cast<int>(i), v, scales, &min);
        const size_t lane = static_cast<size_t>(v) * kLanes;
#pragma GCC unroll 2
        for (size_t h = 0; h < B::kHalves; ++h) {
          Simd::Words total = Simd::ZeroWords();
#pragma GCC unroll 8
          for (size_t w = h * kHalfWords; w < (h + 1) * kHalfWords; ++w) {
            StoreWordsAt(piece->words, group * kGroupWords + w, v, words[w]);
            total = DotWords(total, Simd::SetWord(0x01010101), words[w]);
          }
          total = Simd::AndWords(Simd::SubWords(Simd::ZeroWords(), total), Simd::SetWord(0xffff));
          const uint32_t offset = static_cast<uint32_t>(-B::kOffset) << 16;
          StoreWordsAt(piece->sums, group * B::kHalves + h, v,
                       Simd::OrWords(total, Simd::SetWord(offset)));
          Simd::Store(piece->scales + (group * B::kHalves + h) * kPanel + lane, scales[h]);
        }
        if constexpr (B::kHasMin) Simd::Store(piece->mins + group * kPanel + lane, min);
      }
    }
  }
}

// Four values of a code word as words of the mode's type, from word `index` on.
template <typename Dot>
inline void StoreValues(const Vec (&values)[4], Word* words, size_t index, int v) {
  if constexpr (Dot::kCoarse) {
    StoreWordsAt(words, 2 * index, v, Simd::PairBf16(values[0], values[1]));
    StoreWordsAt(words, 2 * index + 1, v, Simd::PairBf16(values[2], values[3]));
  } else {
    for (size_t j = 0; j < 4; ++j) {
      Simd::Store(reinterpret_cast<float*>(words) + (4 * index + j) * kPanel +
                      static_cast<size_t>(v) * kLanes,
                  values[j]);
    }
  }
}

template <BlockType kType, typename Dot>
inline void UnpackWord(Simd::Words codes, Vec scale, Vec min, Word* words, size_t index, int v) {
  codes = Simd::SubBytes(codes, Simd::SetWord(0x01010101u * Block<kType>::kOffset));
  Vec values[4];
  for (int j = 0; j < 4; ++j) {
    const Vec code = Simd::ToFloat(Simd::ShiftRightSigned(Simd::ShiftLeft(codes, 24 - 8 * j), 24));
    values[j] = Block<kType>::kHasMin ? Simd::Fma(code, scale, min) : Simd::Mul(code, scale);
  }
  StoreValues<Dot>(values, words, index, v);
}

// The same as bf16 or f32 words.
template <BlockType kType, typename Dot>
void UnpackValues(const uint8_t* panel, size_t groups, Piece* piece) {
  using B = Block<kType>;
  for (size_t g = 0; g < groups; g += B::kGroups) {
    const uint8_t* head = panel;
    panel = B::Codes(head);
    for (size_t i = 0; i < B::kGroups; ++i, panel += B::kGroupBytes * kPanel) {
      const size_t first = (g + i) * kGroupWords;
      for (int v = 0; v < kTileVecs; ++v) {
        Vec scales[B::kHalves];
        Vec min = Simd::Zero();
        B::Scales(head, static_cast<int>(i), v, scales, &min);
        const auto unpack = [&]<int kPair>() {
          Simd::Words a, b;
          B::template Pair<kPair>(panel, v, &a, &b);
          const Vec scale = scales[kPair * B::kHalves / 4];
          UnpackWord<kType, Dot>(a, scale, min, piece->words, first + 2 * kPair, v);
          UnpackWord<kType, Dot>(b, scale, min, piece->words, first + 2 * kPair + 1, v);
        };
        unpack.template operator()<0>();
        unpack.template operator()<1>();
        unpack.template operator()<2>();
        unpack.template operator()<3>();
      }
    }
  }
}

// The same of floats that are not yet of the mode's type.
template <BlockType kType, typename Dot>
void ConvertValues(const uint8_t* panel, size_t groups, Piece* piece) {
  for (size_t index = 0; index < groups * kGroupWords; ++index) {
    for (int v = 0; v < kTileVecs; ++v) {
      Vec values[4];
      for (size_t j = 0; j < 4; ++j) {
        if constexpr (kType == BlockType::kF32) {
          values[j] = Simd::AsFloat(LoadWordsAt(panel, 4 * index + j, v));
        } else {
          const Simd::Words pair = LoadWordsAt(panel, 2 * index + j / 2, v);
          if constexpr (kType == BlockType::kF16) {
            values[j] = Simd::LowF16(j % 2 == 0 ? pair : Simd::ShiftRight(pair, 16));
          } else {
            values[j] = Simd::AsFloat(j % 2 == 0 ? Simd::LowHalves(pair) : Simd::HighHalves(pair));
          }
        }
      }
      StoreValues<Dot>(values, piece->words, index, v);
    }
  }
}

// Unpacks a piece. Returns its words.
template <BlockType kType, typename Dot>
inline const Word* Unpack(const uint8_t* panel, size_t groups, Piece* piece) {
  if constexpr (Dot::kInt8) {
    UnpackCodes<kType>(panel, groups, piece);
  } else if constexpr (!BlockLayout<kType>::kFloat) {
    UnpackValues<kType, Dot>(panel, groups, piece);
  } else if constexpr ((kType == BlockType::kF32 && !Dot::kCoarse) ||
                       (kType == BlockType::kBf16 && Dot::kCoarse)) {
    return reinterpret_cast<const Word*>(panel);
  } else {
    ConvertValues<kType, Dot>(panel, groups, piece);
  }
  return piece->words;
}

// Rows of a piece's k.
struct PieceRows {
  const Word* x;
  size_t x_stride;
  const BlockScale* scales;
  size_t scale_stride;
};

template <BlockType kType, int kRows>
inline void AddCodes(const PieceRows& rows, const Piece& piece, size_t groups, Fetch fetch,
                     float* tile) {
  using B = Block<kType>;
  constexpr size_t kWords = kGroupWords / B::kHalves;
  for (size_t g = 0; g < groups; ++g) {
    const BlockScale* row_scales = rows.scales + g;
#pragma GCC unroll 2
    for (size_t h = 0; h < B::kHalves; ++h) {
      const size_t half = (g * B::kHalves + h) * kPanel;
      DotInt8::Acc sums[kRows][kTileVecs];
      Simd::Words starts[kTileVecs];
      Vec scales[kTileVecs];
      Vec mins[kTileVecs];
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        starts[c] = Simd::LoadWords(piece.sums + half + c * kLanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Simd::Words zero = ZeroAndSteps(row_scales[r * rows.scale_stride]);
#pragma GCC unroll 4
        for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::DotHalves(starts[c], zero);
      }
      const size_t word = g * kGroupWords + h * kWords;
      Multiply<DotInt8, kRows>(sums, rows.x + word, rows.x_stride, piece.words + word * kPanel,
                               kWords, {fetch.from + word * fetch.lines * kLineWords, fetch.lines});
      const bool add_min = B::kHasMin && h + 1 == B::kHalves;
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        scales[c] = Simd::Load(piece.scales + half + c * kLanes);
        if (add_min) mins[c] = Simd::Load(piece.mins + g * kPanel + c * kLanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const BlockScale& row = row_scales[r * rows.scale_stride];
        const Vec row_scale = Simd::Set(row.scale);
        const Vec row_sum = Simd::Set(row.sum);
#pragma GCC unroll 4
        for (int c = 0; c < kTileVecs; ++c) {
          float* to = tile + r * kPanel + c * kLanes;
          const Vec product = Simd::Mul(Simd::ToFloat(sums[r][c]), scales[c]);
          Vec sum = Simd::Fma(product, row_scale, Simd::Load(to));
          if (add_min) sum = Simd::Fma(mins[c], row_sum, sum);
          Simd::Store(to, sum);
        }
      }
    }
  }
}

template <typename Dot, int kRows>
inline void AddFloats(const PieceRows& rows, const Word* words, size_t count, Fetch fetch,
                      float* tile) {
  Vec sums[kRows][kTileVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::Load(tile + r * kPanel + c * kLanes);
  }
  Multiply<Dot, kRows>(sums, rows.x, rows.x_stride, words, count, fetch);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) Simd::Store(tile + r * kPanel + c * kLanes, sums[r][c]);
  }
}

// Adds a piece to `count` <= kRows rows of the tile.
template <BlockType kType, typename Dot, int kRows>
void AddPiece(const PieceRows& rows, size_t count, const Word* words, const Piece& piece,
              size_t groups, Fetch fetch, float* tile) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      return AddPiece<kType, Dot, kRows - 1>(rows, count, words, piece, groups, fetch, tile);
    }
  }
  if constexpr (Dot::kInt8) {
    AddCodes<kType, kRows>(rows, piece, groups, fetch, tile);
  } else {
    AddFloats<Dot, kRows>(rows, words, groups * kGroupWords * (Dot::kCoarse ? 2 : 4), fetch, tile);
  }
}

// Rows [begin, end) of the task by one panel; the tile is piece->tile. `next`: read after the
// panel.
template <BlockType kType, typename Dot>
void BlockPanel(const BlockGemmTask& task, size_t begin, size_t end, const uint8_t* panel,
                const uint8_t* next, Piece* piece) {
  constexpr size_t kGroups = kPieceGroups / (Dot::kInt8 ? 1 : (Dot::kCoarse ? 2 : 4));
  const size_t all = BlockGroups(task.in);
  const size_t stride = BlockRowStride(task.mode, task.in);
  const size_t tiles = (end - begin + kTileRows - 1) / kTileRows;
  for (size_t g = 0; g < all; g += kGroups) {
    const size_t groups = all - g < kGroups ? all - g : kGroups;
    const size_t bytes = BlockPanelBytes(kType, groups * kBlockGroup, kPanel);
    const Word* words = Unpack<kType, Dot>(panel, groups, piece);
    panel += bytes;
    const uint8_t* ahead = g + groups < all ? panel : next;
    for (size_t t = 0; t < tiles; ++t) {
      const size_t first = begin + (end - begin) * t / tiles;
      const size_t last = begin + (end - begin) * (t + 1) / tiles;
      const size_t word = g * kPieceWords / kGroups;
      const PieceRows rows = {task.x + first * stride + word, stride,
                              task.x_scales + first * all + g, all};
      // A line for each word, until the next piece is there.
      Fetch fetch = {words, 0};
      if (ahead != nullptr && t * kPieceWords * 64 < bytes) {
        fetch = {reinterpret_cast<const Word*>(ahead + t * kPieceWords * 64), 1};
      }
      AddPiece<kType, Dot, kTileRows>(rows, last - first, words, *piece, groups, fetch,
                                      piece->tile + (first - begin) * kPanel);
    }
  }
}

template <BlockType kType, typename Dot>
void BlockGemmBy(const BlockGemmTask& task) {
  Piece* piece = static_cast<Piece*>(task.scratch);
  const size_t panel_bytes = BlockPanelBytes(kType, task.in, kPanel);
  const size_t row_bytes = BlockRowStride(task.mode, task.in) * sizeof(Word) +
                           (Dot::kInt8 ? BlockGroups(task.in) * sizeof(BlockScale) : 0);
  size_t rows_max = kBlockRowBytes / row_bytes / kTileRows * kTileRows;
  if (rows_max < 2 * kTileRows) rows_max = 2 * kTileRows;
  if (rows_max > kBlockRowsMax) rows_max = kBlockRowsMax;
  const size_t blocks = (task.rows + rows_max - 1) / rows_max;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = task.rows * b / blocks;
    const size_t end = task.rows * (b + 1) / blocks;
    for (size_t p = 0; p < task.panel_count; ++p) {
      const size_t first = p * kPanel;
      const float* bias = task.bias == nullptr ? nullptr : task.bias + first;
      for (size_t r = 0; r < end - begin; ++r) {
        for (size_t c = 0; c < kPanel; c += kLanes) {
          Simd::Store(piece->tile + r * kPanel + c,
                      bias == nullptr ? Simd::Zero() : Simd::Load(bias + c));
        }
      }
      const uint8_t* panel = task.panels + p * panel_bytes;
      const uint8_t* after = b + 1 < blocks ? task.panels : task.next;
      const uint8_t* next = p + 1 < task.panel_count ? panel + panel_bytes : after;
      BlockPanel<kType, Dot>(task, begin, end, panel, next, piece);
      FinishBlocks<Dot::kCoarse>(task, first, begin, end - begin, piece->tile);
    }
  }
}

template <BlockType kType>
void BlockGemmOf(const BlockGemmTask& task) {
  if (task.mode == BlockMode::kF32) return BlockGemmBy<kType, DotF32>(task);
  if (task.mode == BlockMode::kBf16) return BlockGemmBy<kType, DotBf16>(task);
  if constexpr (!BlockLayout<kType>::kFloat) {
    if (task.rows <= kSmallRows) return SmallGemmOf<kType>(task);
    BlockGemmBy<kType, DotInt8>(task);
  }
}

void BlockGemm(const BlockGemmTask& task) {
  switch (task.type) {
    case BlockType::kF32:
      return BlockGemmOf<BlockType::kF32>(task);
    case BlockType::kF16:
      return BlockGemmOf<BlockType::kF16>(task);
    case BlockType::kBf16:
      return BlockGemmOf<BlockType::kBf16>(task);
    case BlockType::kQ8_0:
      return BlockGemmOf<BlockType::kQ8_0>(task);
    case BlockType::kQ4_0:
      return BlockGemmOf<BlockType::kQ4_0>(task);
    case BlockType::kQ4_1:
      return BlockGemmOf<BlockType::kQ4_1>(task);
    case BlockType::kQ5_0:
      return BlockGemmOf<BlockType::kQ5_0>(task);
    case BlockType::kQ5_1:
      return BlockGemmOf<BlockType::kQ5_1>(task);
    case BlockType::kQ4K:
      return BlockGemmOf<BlockType::kQ4K>(task);
    case BlockType::kQ5K:
      return BlockGemmOf<BlockType::kQ5K>(task);
    case BlockType::kQ6K:
      return BlockGemmOf<BlockType::kQ6K>(task);
  }
}
