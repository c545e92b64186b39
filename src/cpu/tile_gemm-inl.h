// The GEMMs of gemm-inl.h by a tile unit, where the instruction set has one: bf16 always, int8 from
// as many rows on as its task says. Included inside namespace penstock::cpu::<isa>, after
// gemm-inl.h.
//
// A packed panel is what the unit reads: 16 words of k by 16 columns are a tile of weights, 16 rows
// of x by 16 words a tile of rows. Four tiles of results, 32 rows by 32 columns, stay in registers
// over k, so that each word loaded is multiplied twice.
//
// int8: a group's sums are exact, and their scales are applied as AddGroup does, so the bits are
// those of the vector kernels. bf16: sums are rounded in the unit's order (see
// tiles_emulated-inl.h), and the bias comes first.

// The tiles (see Tiles::Configure): sums of 16 rows by 16 columns, rows, weights.
enum TileNumber { kSums00, kSums01, kSums10, kSums11, kRows0, kRows1, kWeights0, kWeights1 };

constexpr size_t kTileEdge = 16;
constexpr size_t kUnitRows = 2 * kTileEdge;
constexpr size_t kPanelStride = kPanel * sizeof(Word);

template <typename Dot>
constexpr bool kByTiles = Tiles::kOffered&& Dot::kCoarse;

// Rows that a GEMM works on at once.
template <typename Dot>
constexpr size_t kGemmRows = kByTiles<Dot> ? kUnitRows : kTileRows;

// Configures the unit for `rows` <= kUnitRows and steps of `words` words of k; nothing without one.
template <typename Dot>
inline void ConfigureTiles(size_t rows, size_t words = kTileEdge) {
  if constexpr (kByTiles<Dot>) {
    Tiles::Configure(rows < kTileEdge ? rows : kTileEdge, rows > kTileEdge ? rows - kTileEdge : 0,
                     words);
  }
}
template <typename Dot>
inline void ReleaseTiles() {
  if constexpr (kByTiles<Dot>) Tiles::Release();
}

template <typename Dot, int kSums, int kRows, int kWeights>
[[gnu::always_inline]] inline void MultiplyTiles() {
  if constexpr (Dot::kInt8) {
    Tiles::template DotInt8<kSums, kRows, kWeights>();
  } else {
    Tiles::template DotBf16<kSums, kRows, kWeights>();
  }
}

// 16 words of k. kTall: more than 16 rows.
template <typename Dot, bool kTall>
[[gnu::always_inline]] inline void TileStep(const Word* x, size_t x_stride, const Word* panel) {
  Tiles::template Load<kWeights0>(panel, kPanelStride);
  Tiles::template Load<kRows0>(x, x_stride * sizeof(Word));
  MultiplyTiles<Dot, kSums00, kRows0, kWeights0>();
  Tiles::template Load<kWeights1>(panel + kTileEdge, kPanelStride);
  MultiplyTiles<Dot, kSums01, kRows0, kWeights1>();
  if constexpr (kTall) {
    Tiles::template Load<kRows1>(x + kTileEdge * x_stride, x_stride * sizeof(Word));
    MultiplyTiles<Dot, kSums10, kRows1, kWeights0>();
    MultiplyTiles<Dot, kSums11, kRows1, kWeights1>();
  }
}

// The last words of k, fewer than 16: copies with zeros behind them, for neither operand need have
// any there, and a NaN times 0 would be one.
template <typename Dot, bool kTall>
[[gnu::noinline]] void TileTail(const Word* x, size_t x_stride, size_t rows, const Word* panel,
                                size_t words) {
  alignas(64) Word x_words[kUnitRows * kTileEdge] = {};
  alignas(64) Word panel_words[kTileEdge * kPanel] = {};
  for (size_t r = 0; r < rows; ++r) {
    __builtin_memcpy(x_words + r * kTileEdge, x + r * x_stride, words * sizeof(Word));
  }
  __builtin_memcpy(panel_words, panel, words * kPanelStride);
  TileStep<Dot, kTall>(x_words, kTileEdge, panel_words);
}

template <typename Dot, bool kTall>
[[gnu::always_inline]] inline void MultiplyByTiles(const Word* x, size_t x_stride, size_t rows,
                                                   const Word* panel, size_t words, Fetch fetch) {
  size_t k = 0;
  for (; k + kTileEdge <= words; k += kTileEdge) {
    for (size_t i = 0; i < kTileEdge * fetch.step / kLineWords; ++i) {
      __builtin_prefetch(fetch.from + i * kLineWords, 0, 2);
    }
    fetch.from += kTileEdge * fetch.step;
    TileStep<Dot, kTall>(x + k, x_stride, panel + k * kPanel);
  }
  if (k < words) {
    TileTail<Dot, kTall>(x + k, x_stride, rows, panel + k * kPanel, words - k);
  }
}

// From rows of floats, `stride` of them apart; a stride of 0 repeats the first.
template <bool kTall>
[[gnu::always_inline]] inline void LoadSums(const float* from, size_t stride) {
  const size_t bytes = stride * sizeof(float);
  Tiles::template Load<kSums00>(from, bytes);
  Tiles::template Load<kSums01>(from + kTileEdge, bytes);
  if constexpr (kTall) {
    Tiles::template Load<kSums10>(from + kTileEdge * stride, bytes);
    Tiles::template Load<kSums11>(from + kTileEdge * stride + kTileEdge, bytes);
  }
}

// The sums begin at `first`, [kPanel] floats for each row; null: at 0.
template <bool kTall>
[[gnu::always_inline]] inline void BeginSums(const float* first) {
  if (first != nullptr) return LoadSums<kTall>(first, 0);
  Tiles::template Zero<kSums00>();
  Tiles::template Zero<kSums01>();
  if constexpr (kTall) {
    Tiles::template Zero<kSums10>();
    Tiles::template Zero<kSums11>();
  }
}

// To rows of 32-bit words, `stride` of them apart.
template <bool kTall>
[[gnu::always_inline]] inline void StoreSums(void* to, size_t stride) {
  Word* words = static_cast<Word*>(to);
  const size_t bytes = stride * sizeof(Word);
  Tiles::template Store<kSums00>(words, bytes);
  Tiles::template Store<kSums01>(words + kTileEdge, bytes);
  if constexpr (kTall) {
    Tiles::template Store<kSums10>(words + kTileEdge * stride, bytes);
    Tiles::template Store<kSums11>(words + kTileEdge * stride + kTileEdge, bytes);
  }
}

// As AddGroup, of sums in memory that lack the rows' zero points.
template <bool kFirst>
inline void AddTileGroup(const PanelTask& task, size_t g, size_t groups, const RowScale* row_scales,
                         size_t rows, const Word* sums, const float* tile, float* to,
                         size_t to_stride) {
  for (int c = 0; c < kTileVecs; ++c) {
    const size_t column = static_cast<size_t>(c) * kLanes;
    const Vec scales = Simd::Load(task.scales + g * kPanel + column);
    // Each is of at most kScaleGroup s8, so it fits the low half of its word.
    const Simd::Words column_sums =
        Simd::LoadWords(reinterpret_cast<const Word*>(task.sums + g * kPanel + column));
    const Vec bias = kFirst && task.bias != nullptr ? Simd::Load(task.bias + column) : Simd::Zero();
    for (size_t r = 0; r < rows; ++r) {
      const RowScale& row = row_scales[r * groups];
      const Simd::Words zero = Simd::SetWord(static_cast<uint32_t>(row.zero));
      const Simd::Words sum = Simd::AddWords(Simd::LoadWords(sums + r * kPanel + column),
                                             Simd::DotHalves(column_sums, zero));
      const Vec before = kFirst ? bias : Simd::Load(tile + r * kPanel + column);
      const Vec product = Simd::Mul(Simd::ToFloat(sum), scales);
      Simd::Store(to + r * to_stride + column, Simd::Fma(product, Simd::Set(row.scale), before));
    }
  }
}
static_assert(kScaleGroup * 128 <= 32768, "AddTileGroup");

template <bool kTall>
inline void Int8Tiles(const PanelTask& task, size_t first, size_t rows, Fetch fetch, float* tile,
                      float* out, size_t out_stride) {
  constexpr size_t kGroupWords = kScaleGroup / 4;
  alignas(64) Word sums[2][kUnitRows * kPanel];
  const size_t groups = (task.words + kGroupWords - 1) / kGroupWords;
  const RowScale* row_scales = task.x_scales + first * groups;
  // While the unit multiplies the next group.
  const auto add = [&](size_t g) {
    float* to = g + 1 == groups ? out : tile;
    const size_t to_stride = g + 1 == groups ? out_stride : kPanel;
    if (g == 0) {
      AddTileGroup<true>(task, g, groups, row_scales, rows, sums[0], tile, to, to_stride);
    } else {
      AddTileGroup<false>(task, g, groups, row_scales + g, rows, sums[g % 2], tile, to, to_stride);
    }
  };
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * kGroupWords;
    const size_t words = task.words - begin < kGroupWords ? task.words - begin : kGroupWords;
    BeginSums<kTall>(nullptr);
    MultiplyByTiles<DotInt8, kTall>(task.x + first * task.x_stride + begin, task.x_stride, rows,
                                    task.panel + begin * kPanel, words,
                                    {fetch.from + begin * fetch.step, fetch.step});
    StoreSums<kTall>(sums[g % 2], kPanel);
    if (g > 0) add(g - 1);
  }
  add(groups - 1);
}

// Rows [first, first + rows), for which the unit is configured.
template <typename Dot, bool kTall>
void RunUnit(const PanelTask& task, size_t first, size_t rows, Fetch fetch) {
  alignas(64) float tile[kUnitRows * kPanel];
  float* y = task.y + first * task.y_stride;
  const bool direct =
      task.cols == kPanel && task.activation == program::Activation::kNone && !task.multiply;
  float* out = direct ? y : tile;
  const size_t out_stride = direct ? task.y_stride : kPanel;
  if constexpr (Dot::kInt8) {
    Int8Tiles<kTall>(task, first, rows, fetch, tile, out, out_stride);
  } else {
    BeginSums<kTall>(task.bias);
    MultiplyByTiles<Dot, kTall>(task.x + first * task.x_stride, task.x_stride, rows, task.panel,
                                task.words, fetch);
    StoreSums<kTall>(out, out_stride);
  }
  if (!direct) Finish<Dot::kCoarse>(task, rows, tile, y);
}

// All rows of a panel in pieces of `rows`, for which the unit is configured.
template <typename Dot>
void UnitPanel(const PanelTask& task, size_t rows) {
  const size_t count = task.rows / rows;
  for (size_t t = 0; t < count; ++t) {
    Fetch fetch = {task.panel, 0};
    if (task.next != nullptr && count == 1) {
      fetch = {task.next, kPanel};
    } else if (task.next != nullptr && t < kPanel / kLineWords) {
      fetch = {task.next + t * task.words * kLineWords, kLineWords};
    }
    if (rows > kTileEdge) {
      RunUnit<Dot, true>(task, t * rows, rows, fetch);
    } else {
      RunUnit<Dot, false>(task, t * rows, rows, fetch);
    }
  }
}

// Calls panel(task) for panels [begin, end) by `rows` rows of x from `first_row` on.
template <typename Panel>
inline void ForPanels(const GemmTask& task, size_t begin, size_t end, size_t first_row, size_t rows,
                      Panel&& panel) {
  const size_t groups = ScaleGroups(task.dtype, task.in);
  const size_t words = RowWords(task.dtype, task.in);
  const size_t end_word = task.end_word < words ? task.end_word : words;
  PanelTask part = {};
  part.x_stride = RowStride(task.dtype, task.in);
  part.x = task.x + first_row * part.x_stride + task.begin_word;
  part.x_scales = task.x_scales + first_row * groups;
  part.rows = rows;
  part.words = end_word - task.begin_word;
  part.before_stride = task.y_stride;
  part.activation = end_word < words ? program::Activation::kNone : task.activation;
  part.multiply = task.multiply;
  part.y_stride = task.y_stride;
  for (size_t p = begin; p < end; ++p) {
    const size_t first = p * kPanel;
    part.panel = task.panels + (p * words + task.begin_word) * kPanel;
    part.next = p + 1 < task.panel_count ? part.panel + words * kPanel : task.next;
    part.scales = task.scales + p * groups * kPanel;
    part.sums = task.sums + p * groups * kPanel;
    part.bias = task.bias == nullptr || end_word < words ? nullptr : task.bias + first;
    part.y = task.y + first_row * task.y_stride + first;
    part.before = task.begin_word == 0 ? nullptr : part.y;
    part.cols = task.cols - first < kPanel ? task.cols - first : kPanel;
    panel(part);
  }
}

template <typename Dot>
inline void GemmByVectors(const GemmTask& task, size_t begin, size_t end, size_t first,
                          size_t rows) {
  ForPanels(task, begin, end, first, rows, [](const PanelTask& part) { GemmPanel<Dot>(part); });
}

// `rows` rows from `first` on, in pieces of `piece`, for which the unit is configured if *configured
// says so.
template <typename Dot>
inline void GemmByUnit(const GemmTask& task, size_t begin, size_t end, size_t first, size_t rows,
                       size_t piece, size_t* configured) {
  if (rows == 0) return;
  if (*configured != piece) ConfigureTiles<Dot>(piece);
  *configured = piece;
  ForPanels(task, begin, end, first, rows,
            [piece](const PanelTask& part) { UnitPanel<Dot>(part, piece); });
}

// A few panels at a time, which are still in L2 when the rows that fill no tile follow.
template <typename Dot>
void GemmOf(const GemmTask& task) {
  if constexpr (Base::Multiplies(Dot::kType)) {
    Base::Table().gemm(task);
  } else if constexpr (!kByTiles<Dot>) {
    GemmByVectors<Dot>(task, 0, task.panel_count, 0, task.rows);
  } else {
    constexpr size_t kPanels = 4;
    const size_t whole = task.rows / kUnitRows * kUnitRows;
    const size_t left = task.rows - whole;
    const bool vectors = Dot::kInt8 && left < task.tile_rows_min;
    size_t configured = 0;
    for (size_t begin = 0; begin < task.panel_count; begin += kPanels) {
      const size_t end = task.panel_count - begin < kPanels ? task.panel_count : begin + kPanels;
      GemmByUnit<Dot>(task, begin, end, 0, whole, kUnitRows, &configured);
      if (vectors) {
        GemmByVectors<Dot>(task, begin, end, whole, left);
      } else {
        GemmByUnit<Dot>(task, begin, end, whole, left, left, &configured);
      }
    }
    if (configured > 0) ReleaseTiles<Dot>();
  }
}

void Gemm(const GemmTask& task) {
  if (task.dtype == numbers::DType::kF32) {
    GemmOf<DotF32>(task);
  } else if (task.dtype == numbers::DType::kBf16) {
    GemmOf<DotBf16>(task);
  } else {
    GemmOf<DotRows>(task);
  }
}
