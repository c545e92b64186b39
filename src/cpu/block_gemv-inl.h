// Up to kSmallRows rows by panels of GGUF blocks, or of floats that are multiplied in f32: they are
// unpacked in registers, each byte of a panel is read once, and memory is asked for ahead of its
// use. Included inside namespace penstock::cpu::<isa>, after block_codes-inl.h.

// With more rows the panel is unpacked first (block_gemm-inl.h). The bits are the same.
constexpr size_t kSmallRows = Simd::kTileRows >= 14 ? 8 : (kLanes == 1 ? 2 : 4);

// How far ahead of its use memory is asked for: into L2 further than the hardware does by itself,
// then into L1, which has room for few requests. Both together read a tenth faster than either.
constexpr size_t kAheadBytes = 3072;
constexpr size_t kNearBytes = 512;
// Panels that a single row is multiplied by side by side: memory gives more to several streams than
// to one (3 to 10 % on a Xeon).
constexpr int kSmallStreams = Simd::kTileRows >= 14 ? 4 : 2;

// Panels this thread reads front to back, and what it reads after them, or null.
struct Stream {
  const uint8_t* end;
  const uint8_t* next;

  // What lies kAheadBytes behind p. A request for what does not exist does nothing.
  [[gnu::always_inline]] const uint8_t* Ahead(const uint8_t* p) const {
    const uint8_t* from = p + kAheadBytes;
    if (from < end || next == nullptr) return from;
    return next + (from - end);
  }
};

// `from`: by Stream::Ahead.
template <size_t kBytes>
[[gnu::always_inline]] inline void FetchLines(const uint8_t* from) {
#pragma GCC unroll 32
  for (size_t i = 0; i < kBytes; i += 64) {
    __builtin_prefetch(from + i, 0, 2);
    __builtin_prefetch(from + i - kAheadBytes + kNearBytes, 0, 3);
  }
}

// Sums of the products of kRows rows by a panel's codes, a pair of words at a time.
template <numbers::DType kType, int kRows>
struct RowDots {
  static constexpr size_t kShort = ShortWords<Simd, kType>();
  using Short = ShortSums<Simd, kShort>;

  Simd::Words sums[kRows][kTileVecs];
  Simd::Words shorts[kRows][kTileVecs];  // where the type has them

  [[gnu::always_inline]] RowDots() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        sums[r][v] = Simd::ZeroWords();
        if constexpr (kShort > 0) shorts[r][v] = Short::Begin();
      }
    }
  }

  // `rows`: the words of pair kPair of a group.
  template <int kPair>
  [[gnu::always_inline]] void Add(const Word* rows, const Simd::Words (&a)[kTileVecs],
                                  const Simd::Words (&b)[kTileVecs]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Simd::Words x0 = Simd::SetWord(rows[r]), x1 = Simd::SetWord(rows[kRows + r]);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        if constexpr (kShort == 0) {
          sums[r][v] = DotWords(DotWords(sums[r][v], x0, a[v]), x1, b[v]);
        } else {
          shorts[r][v] = Short::Add(Short::Add(shorts[r][v], x0, a[v]), x1, b[v]);
          if constexpr ((2 * kPair + 2) % kShort == 0) {
            sums[r][v] = Short::AddTo(sums[r][v], shorts[r][v]);
            shorts[r][v] = Short::Begin();
          }
        }
      }
    }
  }
};

// Adds half `kHalf` of a group (all of it where the type has no halves) to `sums`;
// `ahead`: by Stream::Ahead.
template <numbers::DType kType, int kRows, int kHalf>
[[gnu::always_inline]] inline void AddHalf(const Word* rows, const uint8_t* codes,
                                           const uint8_t* ahead, const Vec (&scales)[kTileVecs],
                                           Vec (&sums)[kRows][kTileVecs]) {
  constexpr int kPairs = 4 / Block<kType>::kHalves;
  RowDots<kType, kRows> dots;
  CodeTotal<Simd> totals[kTileVecs];
  const auto add_pair = [&]<int kPair>() __attribute__((always_inline)) {
    // A quarter of the group's bytes at a time, so that requests do not queue up.
    constexpr size_t kPairBytes = Block<kType>::kGroupBytes * kPanel / 4;
    FetchLines<kPairBytes>(ahead + kPair * kPairBytes);
    Simd::Words a[kTileVecs], b[kTileVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVecs; ++v) {
      Block<kType>::template Pair<kPair>(codes, v, &a[v], &b[v]);
      totals[v].Add(a[v]);
      totals[v].Add(b[v]);
    }
    dots.template Add<kPair>(rows + 2 * kPair * kRows, a, b);
  };
  add_pair.template operator()<kHalf * kPairs>();
  add_pair.template operator()<kHalf * kPairs + 1>();
  if constexpr (kPairs == 4) {
    add_pair.template operator()<2>();
    add_pair.template operator()<3>();
  }
  const Simd::Words offset = Simd::SetWord(static_cast<uint32_t>(Block<kType>::kOffset) << 16);
  Simd::Words taken[kTileVecs];  // the codes' sum, and what is to be taken off each
#pragma GCC unroll 4
  for (int v = 0; v < kTileVecs; ++v) {
    taken[v] = Simd::OrWords(Simd::AndWords(totals[v].Sum(), Simd::SetWord(0xffff)), offset);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Simd::Words zero = TileScales<kRows>{rows}.ZeroAndSteps(r);
    const Vec row_scale = TileScales<kRows>{rows}.Scale(r);
#pragma GCC unroll 4
    for (int v = 0; v < kTileVecs; ++v) {
      const Simd::Words sum = Simd::SubWords(dots.sums[r][v], Simd::DotHalves(taken[v], zero));
      sums[r][v] = Simd::Fma(Simd::Mul(Simd::ToFloat(sum), scales[v]), row_scale, sums[r][v]);
    }
  }
}

// Group `index` of a head; `rows`: the same group of the tile.
template <numbers::DType kType, int kRows>
[[gnu::always_inline]] inline void AddBlockGroup(const Word* rows, const uint8_t* head, int index,
                                                 const uint8_t* codes, const uint8_t* ahead,
                                                 Vec (&sums)[kRows][kTileVecs]) {
  constexpr int kHalves = Block<kType>::kHalves;
  Vec scales[kHalves][kTileVecs];
  Vec mins[kTileVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kTileVecs; ++v) {
    Vec one[kHalves];
    Block<kType>::Scales(head, index, v, one, &mins[v]);
    for (int h = 0; h < kHalves; ++h) scales[h][v] = one[h];
  }
  AddHalf<kType, kRows, 0>(rows, codes, ahead, scales[0], sums);
  if constexpr (kHalves == 2) AddHalf<kType, kRows, 1>(rows, codes, ahead, scales[1], sums);
  if constexpr (Block<kType>::kHasMin) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec row_sum = TileScales<kRows>{rows}.Sum(r);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) sums[r][v] = Simd::Fma(mins[v], row_sum, sums[r][v]);
    }
  }
}

// Panels read side by side.
template <int kStreams>
struct PanelStreams {
  const uint8_t* panels[kStreams];
  Stream streams[kStreams];
  const float* biases[kStreams];  // null: none
};

template <int kRows, int kStreams>
[[gnu::always_inline]] inline void LoadBiases(const PanelStreams<kStreams>& from,
                                              Vec (&sums)[kStreams][kRows][kTileVecs]) {
#pragma GCC unroll 4
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        sums[s][r][v] =
            from.biases[s] == nullptr ? Simd::Zero() : Simd::Load(from.biases[s] + v * kLanes);
      }
    }
  }
}

template <int kRows, int kStreams>
[[gnu::always_inline]] inline void StoreTiles(const Vec (&sums)[kStreams][kRows][kTileVecs],
                                              float* tiles) {
#pragma GCC unroll 4
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        Simd::Store(tiles + (s * kRows + r) * kPanel + v * kLanes, sums[s][r][v]);
      }
    }
  }
}

// Word `w` of a group's floats in vector v, its first value and, where it has two, its second.
template <numbers::DType kType>
[[gnu::always_inline]] inline void FloatsOfWord(const uint8_t* group, size_t w, int v, Vec* first,
                                                Vec* second) {
  const Simd::Words word = LoadWordsAt(group, w, v);
  if constexpr (kType == numbers::DType::kF32) {
    *first = Simd::AsFloat(word);
  } else if constexpr (kType == numbers::DType::kF16) {
    *first = Simd::LowF16(word);
    *second = Simd::LowF16(Simd::ShiftRight(word, 16));
  } else {
    *first = Simd::AsFloat(Simd::LowHalves(word));
    *second = Simd::AsFloat(Simd::HighHalves(word));
  }
}

// A group of floats in f32, k by k as AddRows does it.
template <numbers::DType kType, int kRows>
[[gnu::always_inline]] inline void AddFloatGroup(const Word* rows, const uint8_t* group,
                                                 const uint8_t* ahead,
                                                 Vec (&sums)[kRows][kTileVecs]) {
  constexpr size_t kWordValues = kType == numbers::DType::kF32 ? 1 : 2;
  constexpr size_t kWords = kBlockGroup / kWordValues;
  constexpr size_t kStep = 4;  // words between requests
  for (size_t begin = 0; begin < kWords; begin += kStep) {
    FetchLines<kStep * kPanel * sizeof(Word)>(ahead + begin * kPanel * sizeof(Word));
#pragma GCC unroll 4
    for (size_t w = begin; w < begin + kStep; ++w) {
      Vec values[2][kTileVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVecs; ++v) {
        FloatsOfWord<kType>(group, w, v, &values[0][v], &values[1][v]);
      }
#pragma GCC unroll 2
      for (size_t j = 0; j < kWordValues; ++j) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Vec x = Simd::AsFloat(Simd::SetWord(rows[(w * kWordValues + j) * kRows + r]));
#pragma GCC unroll 4
          for (int v = 0; v < kTileVecs; ++v) sums[r][v] = Simd::Fma(x, values[j][v], sums[r][v]);
        }
      }
    }
  }
}

template <numbers::DType kType, int kRows, int kStreams>
void SmallFloatPanels(const Word* rows, size_t groups, PanelStreams<kStreams> from, float* tiles) {
  constexpr size_t kGroupBytes = BlockLayout<kType>::kGroupBytes * kPanel;
  Vec sums[kStreams][kRows][kTileVecs];
  LoadBiases<kRows, kStreams>(from, sums);
  for (size_t group = 0; group < groups; ++group) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      AddFloatGroup<kType, kRows>(rows, from.panels[s], from.streams[s].Ahead(from.panels[s]),
                                  sums[s]);
      from.panels[s] += kGroupBytes;
    }
    rows += BlockRowWords(numbers::DType::kF32) * kRows;
  }
  StoreTiles<kRows, kStreams>(sums, tiles);
}

// tiles[kStreams][kRows][kPanel] = the rows by a panel of each stream, from its bias (or 0) on.
template <numbers::DType kType, int kRows, int kStreams>
void SmallPanels(const Word* rows, size_t groups, PanelStreams<kStreams> from, float* tiles) {
  using B = Block<kType>;
  Vec sums[kStreams][kRows][kTileVecs];
  LoadBiases<kRows, kStreams>(from, sums);
  constexpr size_t kHeadBytes = B::kHead * kPanel;
  constexpr size_t kCodeBytes = B::kGroupBytes * kPanel;
  for (size_t group = 0; group < groups; group += B::kGroups) {
    const uint8_t* heads[kStreams];
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      heads[s] = from.panels[s];
      from.panels[s] += kHeadBytes;
      FetchLines<kHeadBytes>(from.streams[s].Ahead(heads[s]));
    }
#pragma GCC unroll 1
    for (int index = 0; index < static_cast<int>(B::kGroups); ++index) {
#pragma GCC unroll 4
      for (int s = 0; s < kStreams; ++s) {
        AddBlockGroup<kType, kRows>(rows, heads[s], index, from.panels[s],
                                    from.streams[s].Ahead(from.panels[s]), sums[s]);
        from.panels[s] += kCodeBytes;
      }
      rows += BlockRowWords(numbers::DType::kI8) * kRows;
    }
  }
  StoreTiles<kRows, kStreams>(sums, tiles);
}

// One panel's epilogue: the tile, [rows][kPanel], to y from row `row` and column `first` on.
template <bool kCoarse>
inline void FinishBlocks(const BlockGemmTask& task, size_t first, size_t row, size_t rows,
                         const float* tile) {
  PanelTask part = {};
  part.activation = task.activation;
  part.multiply = task.multiply;
  part.y_stride = task.y_stride;
  part.cols = task.cols - first < kPanel ? task.cols - first : kPanel;
  float* y = task.y + row * task.y_stride + first;
  if (task.residual == nullptr) return Finish<kCoarse>(part, rows, tile, y);
  const float* residual = task.residual + row * task.y_stride + first;
  for (size_t r = 0; r < rows; ++r) {
    ForVectors(part.cols, [&](size_t i, size_t n) {
      StoreN(y + r * task.y_stride + i,
             Simd::Add(LoadN(residual + r * task.y_stride + i, n), LoadN(tile + r * kPanel + i, n)),
             n);
    });
  }
}

// Panels [begin, begin + count), and as many from `step` panels on for each further stream.
template <numbers::DType kType, int kRows, int kStreams>
void SmallRange(const BlockGemmTask& task, size_t begin, size_t count, size_t step) {
  const size_t panel_bytes = BlockPanelBytes(kType, task.in, kPanel);
  alignas(64) float tiles[kStreams * kRows * kPanel];
  for (size_t p = begin; p < begin + count; ++p) {
    PanelStreams<kStreams> from;
    for (size_t s = 0; s < kStreams; ++s) {
      const size_t panel = p + s * step;
      from.panels[s] = task.panels + panel * panel_bytes;
      // Then comes the next matrix: its panels are shared out in the same way.
      const size_t end = begin + s * step + count;
      from.streams[s] = {task.panels + end * panel_bytes,
                         task.next == nullptr ? nullptr : task.next + s * step * panel_bytes};
      from.biases[s] = task.bias == nullptr ? nullptr : task.bias + panel * kPanel;
    }
    if constexpr (Block<kType>::kFloat) {
      SmallFloatPanels<kType, kRows, kStreams>(task.x, BlockGroups(task.in), from, tiles);
    } else {
      SmallPanels<kType, kRows, kStreams>(task.x, BlockGroups(task.in), from, tiles);
    }
    for (size_t s = 0; s < kStreams; ++s) {
      FinishBlocks<!Block<kType>::kFloat>(task, (p + s * step) * kPanel, 0, task.rows,
                                          tiles + s * kRows * kPanel);
    }
  }
}

template <numbers::DType kType, int kRows>
void SmallGemm(const BlockGemmTask& task) {
  constexpr int kStreams = kRows == 1 ? kSmallStreams : 1;
  const size_t step = task.panel_count / kStreams;
  SmallRange<kType, kRows, kStreams>(task, 0, step, step);
  const size_t done = kStreams * step;
  if (done < task.panel_count) SmallRange<kType, kRows, 1>(task, done, task.panel_count - done, 0);
}

// task.rows <= kSmallRows.
template <numbers::DType kType>
void SmallGemmOf(const BlockGemmTask& task) {
  const size_t rows = PaddedRows(task.rows);
  if (rows == 1) return SmallGemm<kType, 1>(task);
  if (rows == 2) return SmallGemm<kType, 2>(task);
  if constexpr (kSmallRows >= 4) {
    if (rows == 4) return SmallGemm<kType, 4>(task);
  }
  if constexpr (kSmallRows >= 8) {
    if (rows == 6) return SmallGemm<kType, 6>(task);
    return SmallGemm<kType, 8>(task);
  }
}
