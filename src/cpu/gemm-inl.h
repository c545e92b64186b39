// y = activation(x W^T + bias) for one weight panel, for every data type, by vectors. Included
// inside namespace penstock::cpu::<isa>, after math-inl.h and dot-inl.h.

constexpr int kTileVecs = Simd::kTileVecs;
constexpr int kTileRows = Simd::kTileRows;
constexpr size_t kPanel = kTileVecs * kLanes;
static_assert(kScaleGroup % kPanel == 0, "groups of int8 scales begin with a panel");

// A tile's prefetch into L2 while it multiplies: `step` words for each word of k.
struct Fetch {
  const Word* from;
  size_t step;  // at most kPanel
};

// One panel's part of a GemmTask.
struct PanelTask {
  const Word* x;  // [rows], `x_stride` words apart
  size_t x_stride;
  const RowScale* x_scales;  // int8: [rows][groups]
  const Word* panel;         // [words][kPanel]
  // Not int8: sums of the words before, [rows][kPanel], rows `before_stride` floats apart; or null.
  const float* before;
  size_t before_stride;
  const float* scales;  // int8: [groups][kPanel]
  const int32_t* sums;  // int8: [groups][kPanel]
  size_t rows;
  size_t words;
  const float* bias;  // [kPanel] or null
  program::Activation activation;
  bool multiply;
  float* y;
  size_t y_stride;
  size_t cols;
  const Word* next;  // panel to fetch into L2, or null
};

template <typename Dot, int kRows, int kPhase>
[[gnu::always_inline]] inline void AddProducts(typename Dot::Acc (&sums)[kRows][kTileVecs],
                                               const Word* x, size_t x_stride, const Word* panel) {
  Simd::Words weights[kTileVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kTileVecs; ++c) {
    weights[c] = Dot::template Weights<kPhase>(Simd::LoadWords(panel + c * kLanes));
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Simd::Words row = Dot::template Rows<kPhase>(Simd::SetWord(x[r * x_stride]));
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      sums[r][c] = Dot::Add(sums[r][c], row, weights[c]);
      EndStep<Dot>(&sums[r][c]);
    }
  }
}

// AddProducts over k by blocks of two rows and two columns, two words at a time. Words that are left over
// are added by AddProducts. An odd last row is multiplied twice. Not inlined, so that the sums before
// take no registers from the blocks.
template <typename Dot, int kRows>
[[gnu::noinline]] void MultiplyPairs(typename Dot::Acc (&sums)[kRows][kTileVecs], const Word* x,
                                     size_t x_stride, const Word* panel, size_t words,
                                     Fetch fetch) {
  using Set = typename Dot::Set;
  constexpr int kPairs = (kRows + 1) / 2;
  typename Dot::Acc blocks[kPairs][2 * kTileVecs] = {};
  const bool two = fetch.step > kLineWords;
  size_t k = 0;
  for (; k + 2 <= words; k += 2) {
    __builtin_prefetch(fetch.from, 0, 2);
    __builtin_prefetch(fetch.from + fetch.step, 0, 2);
    if (two) __builtin_prefetch(fetch.from + kLineWords, 0, 2);
    fetch.from += 2 * fetch.step;
    typename Set::Words rows[kPairs];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      const int second = 2 * p + 1 < kRows ? 2 * p + 1 : 2 * p;
      rows[p] = Set::PairRows(x + 2 * p * x_stride + k, x + second * x_stride + k);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      const auto word = Set::LoadWords(panel + k * kPanel + c * kLanes);
      const auto next = Set::LoadWords(panel + (k + 1) * kPanel + c * kLanes);
      const auto low = Set::LowPairs(word, next), high = Set::HighPairs(word, next);
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p) {
        blocks[p][2 * c] = Set::AddPairs(blocks[p][2 * c], rows[p], low);
        blocks[p][2 * c + 1] = Set::AddPairs(blocks[p][2 * c + 1], rows[p], high);
      }
      // Else g++ loads all columns first, for which the registers do not suffice.
      asm volatile("" ::: "memory");
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      const auto low = blocks[r / 2][2 * c], high = blocks[r / 2][2 * c + 1];
      const auto row = r % 2 == 0 ? Set::FirstRow(low, high) : Set::SecondRow(low, high);
      if constexpr (Dot::kInt8) {
        sums[r][c] = Set::AddWords(sums[r][c], row);
      } else {
        sums[r][c] = Set::Add(sums[r][c], row);
      }
    }
  }
  if (k < words) AddProducts<Dot, kRows, 0>(sums, x + k, x_stride, panel + k * kPanel);
}

// A tile of kRows x kPanel sums, held in registers over k. With 14 x 2 AVX-512 accumulators one
// step costs 28 multiply-adds, 2 weight loads and 14 broadcasts: bound by the multipliers (95-99 %
// of their peak on Zen 4 in each type).
template <typename Dot, int kRows>
[[gnu::always_inline]] inline void Multiply(typename Dot::Acc (&sums)[kRows][kTileVecs],
                                            const Word* x, size_t x_stride, const Word* panel,
                                            size_t words, Fetch fetch) {
  if constexpr (Dot::kByPairs) {
    return MultiplyPairs<Dot, kRows>(sums, x, x_stride, panel, words, fetch);
  }
  size_t k = 0;
  if constexpr (Dot::kUnroll > 1) {
    const size_t lines = (Dot::kUnroll * fetch.step + kLineWords - 1) / kLineWords;
    for (; k + Dot::kUnroll <= words; k += Dot::kUnroll) {
      for (size_t line = 0; line < lines; ++line) {
        __builtin_prefetch(fetch.from + line * kLineWords, 0, 2);
      }
      fetch.from += Dot::kUnroll * fetch.step;
#pragma GCC unroll 8
      for (size_t i = 0; i < Dot::kUnroll; ++i) {
        AddProducts<Dot, kRows, 0>(sums, x + k + i, x_stride, panel + (k + i) * kPanel);
      }
    }
  }
  const bool two = fetch.step > kLineWords;
  for (; k < words; ++k) {
    __builtin_prefetch(fetch.from, 0, 2);
    if (two) __builtin_prefetch(fetch.from + kLineWords, 0, 2);
    fetch.from += fetch.step;
    AddProducts<Dot, kRows, 0>(sums, x + k, x_stride, panel + k * kPanel);
    if constexpr (Dot::kPhases == 2) {
      AddProducts<Dot, kRows, 1>(sums, Again(x + k), x_stride, panel + k * kPanel);
    }
  }
}

// A tile of f32 or bf16: sums, after those of the words before, with bias to `out`.
template <typename Dot, int kRows>
inline void FloatTile(const PanelTask& task, size_t first, Fetch fetch, float* out,
                      size_t out_stride) {
  Vec sums[kRows][kTileVecs];
  const float* before = task.before == nullptr ? nullptr : task.before + first * task.before_stride;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      sums[r][c] = before == nullptr ? Simd::Zero()
                                     : Simd::Load(before + r * task.before_stride + c * kLanes);
    }
  }
  Multiply<Dot, kRows>(sums, task.x + first * task.x_stride, task.x_stride, task.panel, task.words,
                       fetch);
  if (task.bias != nullptr) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      const Vec bias = Simd::Load(task.bias + c * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][c] = Simd::Add(sums[r][c], bias);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) Simd::Store(out + r * out_stride + c * kLanes, sums[r][c]);
  }
}

// to = before + the scaled sums of group g; before is the bias for the first group, else `tile`.
template <int kRows, bool kFirst>
[[gnu::always_inline]] inline void AddGroup(const PanelTask& task, size_t g,
                                            const RowScale* row_scales, size_t groups,
                                            DotRows::Acc (&sums)[kRows][kTileVecs],
                                            const float* tile, float* to, size_t to_stride) {
  Vec scales[kTileVecs];
  Vec bias[kTileVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kTileVecs; ++c) {
    scales[c] = Simd::Load(task.scales + g * kPanel + c * kLanes);
    bias[c] = kFirst && task.bias != nullptr ? Simd::Load(task.bias + c * kLanes) : Simd::Zero();
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Vec row_scale = Simd::Set(row_scales[r * groups].scale);
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      const Vec before = kFirst ? bias[c] : Simd::Load(tile + r * kPanel + c * kLanes);
      const Vec product = Simd::Mul(Simd::ToFloat(sums[r][c]), scales[c]);
      Simd::Store(to + r * to_stride + c * kLanes, Simd::Fma(product, row_scale, before));
    }
  }
}

// A tile of int8: sums with bias to `out`. Those over the groups so far lie in `tile`,
// [kRows][kPanel], which stays in L1 (rows of y may not: they are often a multiple of 4 KB apart).
template <int kRows>
inline void Int8Tile(const PanelTask& task, size_t first, Fetch fetch, float* tile, float* out,
                     size_t out_stride) {
  constexpr size_t kGroupWords = kScaleGroup / 4;
  const size_t groups = (task.words + kGroupWords - 1) / kGroupWords;
  const RowScale* row_scales = task.x_scales + first * groups;
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * kGroupWords;
    const size_t words = task.words - begin < kGroupWords ? task.words - begin : kGroupWords;
    DotRows::Acc sums[kRows][kTileVecs];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Simd::Words zero =
          Simd::SetWord(static_cast<uint32_t>(row_scales[r * groups + g].zero));
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        const int32_t* column_sums = task.sums + g * kPanel + c * kLanes;
        sums[r][c] =
            Simd::MulWords(zero, Simd::LoadWords(reinterpret_cast<const Word*>(column_sums)));
      }
    }
    Multiply<DotRows, kRows>(sums, task.x + first * task.x_stride + begin, task.x_stride,
                             task.panel + begin * kPanel, words,
                             {fetch.from + begin * fetch.step, fetch.step});
    float* to = g + 1 == groups ? out : tile;
    const size_t to_stride = g + 1 == groups ? out_stride : kPanel;
    if (g == 0) {
      AddGroup<kRows, true>(task, g, row_scales, groups, sums, tile, to, to_stride);
    } else {
      AddGroup<kRows, false>(task, g, row_scales + g, groups, sums, tile, to, to_stride);
    }
  }
}

// y = activation(tile), while the tile is in L1. A pass of its own keeps the register tile
// free of the activation's constants. `tile` is [rows][kPanel].
template <program::Activation kActivation, bool kCoarse, bool kMultiply = false>
inline void FinishTile(const PanelTask& task, size_t rows, const float* tile, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* from = tile + r * kPanel;
    float* to = y + r * task.y_stride;
    ForVectors(task.cols, [&](size_t i, size_t n) {
      Vec v = LoadN(from + i, n);
      if constexpr (kCoarse && kActivation == program::Activation::kGelu) {
        v = CoarseGelu(v);
      } else {
        v = Activate(v, kActivation);
      }
      if constexpr (kMultiply) v = Simd::Mul(LoadN(to + i, n), v);
      StoreN(to + i, v, n);
    });
  }
}

template <bool kCoarse>
inline void Finish(const PanelTask& task, size_t rows, const float* tile, float* y) {
  switch (task.activation) {
    case program::Activation::kNone:
      if (task.multiply)
        return FinishTile<program::Activation::kNone, kCoarse, true>(task, rows, tile, y);
      return FinishTile<program::Activation::kNone, kCoarse>(task, rows, tile, y);
    case program::Activation::kGelu:
      return FinishTile<program::Activation::kGelu, kCoarse>(task, rows, tile, y);
    case program::Activation::kGeluTanh:
      return FinishTile<program::Activation::kGeluTanh, kCoarse>(task, rows, tile, y);
    case program::Activation::kRelu:
      return FinishTile<program::Activation::kRelu, kCoarse>(task, rows, tile, y);
    case program::Activation::kSilu:
      return FinishTile<program::Activation::kSilu, kCoarse>(task, rows, tile, y);
    case program::Activation::kTanh:
      return FinishTile<program::Activation::kTanh, kCoarse>(task, rows, tile, y);
  }
}

// Rows [first, first + rows), rows <= kRows.
template <typename Dot, int kRows>
void RunTile(const PanelTask& task, size_t first, size_t rows, Fetch fetch) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTile<Dot, kRows - 1>(task, first, rows, fetch);
  }
  alignas(64) float tile[kRows * kPanel];
  float* y = task.y + first * task.y_stride;
  const bool direct =
      task.cols == kPanel && task.activation == program::Activation::kNone && !task.multiply;
  float* out = direct ? y : tile;
  const size_t out_stride = direct ? task.y_stride : kPanel;
  if constexpr (Dot::kInt8) {
    Int8Tile<kRows>(task, first, fetch, tile, out, out_stride);
  } else {
    FloatTile<Dot, kRows>(task, first, fetch, out, out_stride);
  }
  if (!direct) Finish<Dot::kCoarse>(task, kRows, tile, y);
}

// Rows are cut into the fewest tiles, of nearly equal size: a tile of one or two rows would wait
// for its own sums.
template <typename Dot>
void GemmTiles(const PanelTask& task) {
  const size_t tiles = (task.rows + Dot::kTileRows - 1) / Dot::kTileRows;
  // Over as many tiles as it can be: memory gives a panel more slowly than one tile reads it.
  size_t fetching = 1;
  while (2 * fetching <= tiles && 2 * fetching <= kPanel) fetching *= 2;
  const size_t step = kPanel / fetching;
  for (size_t t = 0; t < tiles; ++t) {
    const size_t begin = task.rows * t / tiles;
    const size_t end = task.rows * (t + 1) / tiles;
    // Prefetching a line that is in the cache costs nothing.
    Fetch fetch = {task.panel, kLineWords};
    if (task.next != nullptr && t < fetching) {
      fetch = {task.next + t * task.words * step, step};
    }
    RunTile<Dot, Dot::kTileRows>(task, begin, end - begin, fetch);
  }
}

// Sums of the words before are taken by a copy if the panel has fewer than kPanel columns.
template <typename Dot>
void GemmPanel(const PanelTask& task) {
  if (task.before == nullptr || task.cols == kPanel) return GemmTiles<Dot>(task);
  constexpr size_t kRows = 4 * Dot::kTileRows;
  alignas(64) float before[kRows * kPanel];
  PanelTask part = task;
  part.before = before;
  part.before_stride = kPanel;
  for (size_t first = 0; first < task.rows; first += kRows) {
    part.rows = task.rows - first < kRows ? task.rows - first : kRows;
    for (size_t r = 0; r < part.rows; ++r) {
      __builtin_memcpy(before + r * kPanel, task.before + (first + r) * task.before_stride,
                       task.cols * sizeof(float));
    }
    part.x = task.x + first * task.x_stride;
    part.y = task.y + first * task.y_stride;
    GemmTiles<Dot>(part);
  }
}
