// Many rows by panels of GGUF blocks, and bf16 and f32: a piece of a panel is unpacked into L2
// as words, then multiplied by all rows of a block with the tile of gemm-inl.h. Included inside
// namespace penstock::cpu::<isa>, after block_gemv-inl.h.

constexpr size_t kPieceWords = 512;  // of k: 1024 bf16, 512 f32
// Of int8: a piece's words and scales, a tile's rows and its results stay in L1.
constexpr size_t kPieceGroups = 8;
static_assert(kSmallRows >= kTileRows / 2, "AddPiece");
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
template <numbers::DType kType>
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
          CodeTotal<Simd> codes;
#pragma GCC unroll 8
          for (size_t w = h * kHalfWords; w < (h + 1) * kHalfWords; ++w) {
            StoreWordsAt(piece->words, group * kGroupWords + w, v, words[w]);
            codes.Add(words[w]);
          }
          const Simd::Words total =
              Simd::AndWords(Simd::SubWords(Simd::ZeroWords(), codes.Sum()), Simd::SetWord(0xffff));
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

// Four values of a code word as words of Dot's type, from word `index` on.
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

template <numbers::DType kType, typename Dot>
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
template <numbers::DType kType, typename Dot>
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

// The same of floats that are not yet of Dot's type.
template <numbers::DType kType, typename Dot>
void ConvertValues(const uint8_t* panel, size_t groups, Piece* piece) {
  for (size_t index = 0; index < groups * kGroupWords; ++index) {
    for (int v = 0; v < kTileVecs; ++v) {
      Vec values[4];
      for (size_t j = 0; j < 4; ++j) {
        if constexpr (kType == numbers::DType::kF32) {
          values[j] = Simd::AsFloat(LoadWordsAt(panel, 4 * index + j, v));
        } else {
          const Simd::Words pair = LoadWordsAt(panel, 2 * index + j / 2, v);
          if constexpr (kType == numbers::DType::kF16) {
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
template <numbers::DType kType, typename Dot>
inline const Word* Unpack(const uint8_t* panel, size_t groups, Piece* piece) {
  if constexpr (Dot::kInt8) {
    UnpackCodes<kType>(panel, groups, piece);
  } else if constexpr (!BlockLayout<kType>::kFloat) {
    UnpackValues<kType, Dot>(panel, groups, piece);
  } else if constexpr ((kType == numbers::DType::kF32 && !Dot::kCoarse) ||
                       (kType == numbers::DType::kBf16 && Dot::kCoarse)) {
    return reinterpret_cast<const Word*>(panel);
  } else {
    ConvertValues<kType, Dot>(panel, groups, piece);
  }
  return piece->words;
}

// What a pass over a piece brings into L2 meanwhile: `lines` of them a group, from `from` on.
struct PieceFetch {
  const uint8_t* from;
  size_t lines;

  [[gnu::always_inline]] void Next() {
    for (size_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * 64, 0, 2);
    from += lines * 64;
  }
};

// As AddProducts, with the rows' words side by side: no row needs a pointer of its own.
template <typename Dot, int kRows, int kPhase>
[[gnu::always_inline]] inline void AddRows(typename Dot::Acc (&sums)[kRows][kTileVecs],
                                           const Word* x, const Word* panel) {
  Simd::Words weights[kTileVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kTileVecs; ++c) {
    weights[c] = Dot::template Weights<kPhase>(Simd::LoadWords(panel + c * kLanes));
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Simd::Words row = Dot::template Rows<kPhase>(Simd::SetWord(x[r]));
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      sums[r][c] = Dot::Add(sums[r][c], row, weights[c]);
      EndStep<Dot>(&sums[r][c]);
    }
  }
}

template <typename Dot, int kRows>
[[gnu::always_inline]] inline void AddWords(typename Dot::Acc (&sums)[kRows][kTileVecs],
                                            const Word* x, const Word* panel, size_t words) {
  for (size_t w = 0; w < words; ++w) {
    AddRows<Dot, kRows, 0>(sums, x + w * kRows, panel + w * kPanel);
    if constexpr (Dot::kPhases == 2) {
      AddRows<Dot, kRows, 1>(sums, Again(x + w * kRows), panel + w * kPanel);
    }
  }
}

// Adds the scaled sums of half a group (or a whole one) to the tile.
template <int kRows, bool kMin>
[[gnu::always_inline]] inline void AddScaled(const DotInt8::Acc (&sums)[kRows][kTileVecs],
                                             const Word* x, const float* scales, const float* mins,
                                             float* tile) {
  Vec scale[kTileVecs];
  Vec min[kTileVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kTileVecs; ++c) {
    scale[c] = Simd::Load(scales + c * kLanes);
    if constexpr (kMin) min[c] = Simd::Load(mins + c * kLanes);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Vec row_scale = TileScales<kRows>{x}.Scale(r);
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      float* to = tile + r * kPanel + c * kLanes;
      Vec sum =
          Simd::Fma(Simd::Mul(Simd::ToFloat(sums[r][c]), scale[c]), row_scale, Simd::Load(to));
      if constexpr (kMin) sum = Simd::Fma(min[c], TileScales<kRows>{x}.Sum(r), sum);
      Simd::Store(to, sum);
    }
  }
}

// Minus what the rows' zero points and the codes' offset add to the products of half a group (or a
// whole one); `code_sums`: Piece::sums.
template <int kRows>
[[gnu::always_inline]] inline void BeginSums(const Word* x, const Word* code_sums,
                                             DotInt8::Acc (&sums)[kRows][kTileVecs]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Simd::Words zero = TileScales<kRows>{x}.ZeroAndSteps(r);
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      sums[r][c] = Simd::DotHalves(Simd::LoadWords(code_sums + c * kLanes), zero);
    }
  }
}

// Products of kWords words.
template <int kRows, size_t kWords>
[[gnu::always_inline]] inline void SumShort(const Word* x, const Word* panel,
                                            Simd::Words (&sums)[kRows][kTileVecs]) {
  using Short = ShortSums<Simd, kWords>;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Short::Begin();
  }
  for (size_t w = 0; w < kWords; ++w) {
    Simd::Words weights[kTileVecs];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      weights[c] = Simd::LoadWords(panel + w * kPanel + c * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Simd::Words row = Simd::SetWord(x[w * kRows + r]);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        sums[r][c] = Short::Add(sums[r][c], row, weights[c]);
        // Else g++ loads all rows first, for which the registers do not suffice.
        Simd::Hide(&sums[r][c]);
      }
    }
  }
}

// `kShort`: ShortWords of the type.
template <int kRows, int kHalves, bool kMin, size_t kShort>
inline void AddCodes(const Word* x, const Piece& piece, size_t groups, PieceFetch fetch,
                     float* tile) {
  constexpr size_t kWords = kGroupWords / kHalves;
  for (size_t g = 0; g < groups; ++g, x += BlockRowWords(numbers::DType::kI8) * kRows) {
    fetch.Next();
    // The sums stay in the tile: kept on the stack, they would only be further away.
    asm volatile("" : "+r"(tile));
#pragma GCC unroll 2
    for (size_t h = 0; h < kHalves; ++h) {
      const size_t half = (g * kHalves + h) * kPanel;
      const Word* rows = x + h * kWords * kRows;
      const Word* panel = piece.words + (g * kGroupWords + h * kWords) * kPanel;
      DotInt8::Acc sums[kRows][kTileVecs];
      if constexpr (kShort == 0) {
        BeginSums<kRows>(x, piece.sums + half, sums);
        AddWords<DotInt8, kRows>(sums, rows, panel, kWords);
      } else {
#pragma GCC unroll 4
        for (size_t w = 0; w < kWords; w += kShort) {
          Simd::Words shorts[kRows][kTileVecs];
          SumShort<kRows, kShort>(rows + w * kRows, panel + w * kPanel, shorts);
          if (w == 0) BeginSums<kRows>(x, piece.sums + half, sums);
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
            for (int c = 0; c < kTileVecs; ++c) {
              sums[r][c] = ShortSums<Simd, kShort>::AddTo(sums[r][c], shorts[r][c]);
            }
          }
        }
      }
      AddScaled<kRows, kMin>(sums, x, piece.scales + half, piece.mins + g * kPanel, tile);
    }
  }
}

template <typename Dot, int kRows>
inline void AddFloats(const Word* x, const Word* words, size_t groups, PieceFetch fetch,
                      float* tile) {
  constexpr size_t kWords = kGroupWords * (Dot::kCoarse ? 2 : 4);
  Vec sums[kRows][kTileVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::Load(tile + r * kPanel + c * kLanes);
  }
  for (size_t g = 0; g < groups; ++g) {
    fetch.Next();
    AddWords<Dot, kRows>(sums, x + g * kWords * kRows, words + g * kWords * kPanel, kWords);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) Simd::Store(tile + r * kPanel + c * kLanes, sums[r][c]);
  }
}

// Adds a piece to the `count` <= kRows rows of a tile.
template <numbers::DType kType, typename Dot, int kRows>
void AddPiece(const Word* x, size_t count, const Word* words, const Piece& piece, size_t groups,
              PieceFetch fetch, float* tile) {
  // Tiles of more rows than the small kernel takes are at least half full.
  if constexpr (kRows > (Dot::kInt8 ? kTileRows / 2 : 1)) {
    if (count < kRows) {
      return AddPiece<kType, Dot, kRows - 1>(x, count, words, piece, groups, fetch, tile);
    }
  }
  if constexpr (Dot::kInt8) {
    constexpr size_t kShort = ShortWords<Simd, kType>();
    AddCodes<kRows, Block<kType>::kHalves, Block<kType>::kHasMin, kShort>(x, piece, groups, fetch,
                                                                          tile);
  } else {
    AddFloats<Dot, kRows>(x, words, groups, fetch, tile);
  }
}

// Tiles [begin, end) of the task's rows.
struct TileRange {
  size_t begin;
  size_t end;
  size_t rows;   // of the task, padded
  size_t tiles;  // of the task

  size_t row(size_t tile) const { return rows * tile / tiles; }
};

// Brings the lines of y that rows [begin, end) of a panel go to, so that they can be written.
inline void FetchResults(const BlockGemmTask& task, size_t column, size_t begin, size_t end) {
  for (size_t r = begin; r < end; ++r) {
    const float* y = task.y + r * task.y_stride + column;
    for (size_t i = 0; i < kPanel; i += kLineWords) __builtin_prefetch(y + i, 1, 3);
  }
}

// A range of rows by one panel, whose first column is `column`: added to piece->tile, then to y.
// `next`: read after the panel.
template <numbers::DType kType, typename Dot>
void BlockPanel(const BlockGemmTask& task, const TileRange& range, size_t column,
                const uint8_t* panel, const uint8_t* next, Piece* piece) {
  constexpr size_t kGroups =
      Dot::kInt8 ? kPieceGroups : kPieceWords / kGroupWords / (Dot::kCoarse ? 2 : 4);
  const size_t all = BlockGroups(task.in);
  const size_t words = BlockRowWords(task.dtype);
  for (size_t g = 0; g < all; g += kGroups) {
    const size_t groups = all - g < kGroups ? all - g : kGroups;
    const size_t bytes = BlockPanelBytes(kType, groups * kBlockGroup, kPanel);
    const Word* unpacked = Unpack<kType, Dot>(panel, groups, piece);
    panel += bytes;
    const uint8_t* ahead = g + groups < all ? panel : next;
    // The next piece, spread over this one's tiles.
    const size_t passes = (range.end - range.begin) * groups;
    const size_t lines = ahead == nullptr ? 0 : (bytes / 64 + passes - 1) / passes;
    for (size_t t = range.begin; t < range.end; ++t) {
      const size_t first = range.row(t);
      const size_t count = range.row(t + 1) - first;
      const size_t end = first + count < task.rows ? first + count : task.rows;
      float* tile = piece->tile + (first - range.row(range.begin)) * kPanel;
      const bool last = g + groups == all;
      if (last) FetchResults(task, column, first, end);
      const PieceFetch fetch = {ahead + (t - range.begin) * groups * lines * 64, lines};
      AddPiece<kType, Dot, kTileRows>(task.x + first * all * words + g * words * count, count,
                                      unpacked, *piece, groups, fetch, tile);
      if (last) FinishBlocks<Dot::kCoarse>(task, column, first, end - first, tile);
    }
  }
}

// `bias`: [kPanel], or null.
inline void FillWithBias(const float* bias, size_t rows, float* tile) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < kPanel; c += kLanes) {
      Simd::Store(tile + r * kPanel + c, bias == nullptr ? Simd::Zero() : Simd::Load(bias + c));
    }
  }
}

template <numbers::DType kType, typename Dot>
void BlockGemmBy(const BlockGemmTask& task) {
  Piece* piece = static_cast<Piece*>(task.scratch);
  const size_t panel_bytes = BlockPanelBytes(kType, task.in, kPanel);
  const size_t tile_bytes =
      kTileRows * BlockGroups(task.in) * BlockRowWords(task.dtype) * sizeof(Word);
  size_t tiles_max = kBlockRowBytes / tile_bytes;
  if (tiles_max < 2) tiles_max = 2;
  if (tiles_max > kBlockRowsMax / kTileRows) tiles_max = kBlockRowsMax / kTileRows;
  const size_t rows = PaddedRows(task.rows);
  const size_t tiles = (rows + kTileRows - 1) / kTileRows;
  const size_t blocks = (tiles + tiles_max - 1) / tiles_max;
  for (size_t b = 0; b < blocks; ++b) {
    const TileRange range = {tiles * b / blocks, tiles * (b + 1) / blocks, rows, tiles};
    const size_t begin = range.row(range.begin);
    const size_t end = range.row(range.end);
    for (size_t p = 0; p < task.panel_count; ++p) {
      const size_t first = p * kPanel;
      const float* bias = task.bias == nullptr ? nullptr : task.bias + first;
      FillWithBias(bias, end - begin, piece->tile);
      const uint8_t* panel = task.panels + p * panel_bytes;
      const uint8_t* after = b + 1 < blocks ? task.panels : task.next;
      const uint8_t* next = p + 1 < task.panel_count ? panel + panel_bytes : after;
      BlockPanel<kType, Dot>(task, range, first, panel, next, piece);
    }
  }
}
