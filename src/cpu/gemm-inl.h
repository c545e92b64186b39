// y = activation(x W^T + bias), one weight panel at a time. Included inside namespace
// penstock::cpu::<isa>, after math-inl.h.

constexpr int kTileVecs = Simd::kTileVecs;
constexpr int kTileRows = Simd::kTileRows;
constexpr size_t kPanel = kTileVecs * kLanes;

constexpr size_t kLineFloats = 16;
constexpr size_t kFetchTiles = (kPanel + kLineFloats - 1) / kLineFloats;

// Longest piece of the chain of k worked on in one go: a panel's piece (64 KB with 32 columns) and
// that of a block of rows stay in L2. The next piece goes on from the sums in y, bit for bit.
constexpr size_t kDepth = 512;

// `kRows` x kPanel products held in registers over k. With 14 x 2 AVX-512 accumulators one step
// costs 28 FMAs, 2 weight loads and 14 broadcasts: FMA-bound. `resume`: y holds the sums so far.
// Each step asks for one cache line from `fetch` on.
template <int kRows>
inline void GemmTile(const float* x, size_t x_stride, const float* panel, size_t in, bool resume,
                     const float* bias, Activation activation, float* y, size_t y_stride,
                     size_t cols, const float* fetch) {
  Vec sums[kRows][kTileVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::Zero();
  }
  if (resume) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        const size_t begin = c * kLanes;
        if (begin < cols) {
          sums[r][c] =
              LoadN(y + r * y_stride + begin, cols - begin < kLanes ? cols - begin : kLanes);
        }
      }
    }
  }
  for (size_t k = 0; k < in; ++k) {
    __builtin_prefetch(fetch + k * kLineFloats, 0, 2);
    Vec weights[kTileVecs];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) weights[c] = Simd::Load(panel + k * kPanel + c * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Simd::Set(x[r * x_stride + k]);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::Fma(value, weights[c], sums[r][c]);
    }
  }
  if (bias != nullptr) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) {
      const Vec b = Simd::Load(bias + c * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][c] = Simd::Add(sums[r][c], b);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (cols == kPanel) {
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) Simd::Store(y + r * y_stride + c * kLanes, sums[r][c]);
    } else {
#pragma GCC unroll 4
      for (int c = 0; c < kTileVecs; ++c) {
        const size_t begin = c * kLanes;
        if (begin < cols) {
          StoreN(y + r * y_stride + begin, sums[r][c],
                 cols - begin < kLanes ? cols - begin : kLanes);
        }
      }
    }
  }
  if (activation == Activation::kNone) return;
  // The tile is in L1; a second pass keeps the register tile free of the activation's constants.
  for (int r = 0; r < kRows; ++r) {
    float* row = y + r * y_stride;
    ForVectors(cols, [&](size_t i, size_t n) {
      StoreN(row + i, Activate(LoadN(row + i, n), activation), n);
    });
  }
}

template <int kRows>
inline void GemmRest(size_t rows, const float* x, size_t x_stride, const float* panel, size_t in,
                     bool resume, const float* bias, Activation activation, float* y,
                     size_t y_stride, size_t cols, const float* fetch) {
  if (rows == kRows) {
    GemmTile<kRows>(x, x_stride, panel, in, resume, bias, activation, y, y_stride, cols, fetch);
  } else if constexpr (kRows > 1) {
    GemmRest<kRows - 1>(rows, x, x_stride, panel, in, resume, bias, activation, y, y_stride, cols,
                        fetch);
  }
}

// One panel: y[rows, cols] = activation(x panel + bias), going on from y where `resume`. The first
// tiles fetch `next` into L2, a line a step; null: nothing to fetch.
void GemmPanel(const float* x, size_t x_stride, size_t rows, const float* panel, const float* next,
               size_t in, bool resume, const float* bias, Activation activation, float* y,
               size_t y_stride, size_t cols) {
  size_t fetch_tiles = next == nullptr ? 0 : kFetchTiles;
  const float* fetch = next == nullptr ? panel : next;  // what is here already costs nothing
  size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    GemmTile<kTileRows>(x + r * x_stride, x_stride, panel, in, resume, bias, activation,
                        y + r * y_stride, y_stride, cols, fetch);
    if (fetch_tiles > 0) --fetch_tiles;
    fetch = fetch_tiles > 0 ? fetch + in * kLineFloats : panel;
  }
  if (r < rows) {
    GemmRest<kTileRows - 1>(rows - r, x + r * x_stride, x_stride, panel, in, resume, bias,
                            activation, y + r * y_stride, y_stride, cols, fetch);
  }
}

size_t GemmScratchFloats(size_t rows) { return rows * (kDepth + kLineFloats); }

// The chain of k is cut into pieces of kDepth. A piece of x is copied to rows an odd number of
// cache lines apart: at x's own stride, often a multiple of 2 KB, a tile's rows would fall into few
// of the L1's 64 sets and push each other out.
void GemmBlock(const GemmTask& task) {
  const size_t panels = task.panel_count;
  for (size_t k = 0; k < task.in; k += kDepth) {
    const size_t depth = task.in - k < kDepth ? task.in - k : kDepth;
    const bool last = k + depth == task.in;
    const size_t lines = (depth + kLineFloats - 1) / kLineFloats;
    const size_t stride = (lines | 1) * kLineFloats;
    for (size_t r = 0; r < task.rows; ++r) {
      const float* from = task.x + r * task.in + k;
      float* to = task.scratch + r * stride;
      ForVectors(depth, [&](size_t i, size_t n) { StoreN(to + i, LoadN(from + i, n), n); });
    }
    for (size_t p = 0; p < panels; ++p) {
      const float* panel = task.panels + (p * task.in + k) * kPanel;
      const float* next = nullptr;
      if (p + 1 < panels) {
        next = panel + task.in * kPanel;
      } else if (!last) {
        next = task.panels + (k + depth) * kPanel;
      }
      const size_t first = p * kPanel;
      const size_t cols = task.cols - first < kPanel ? task.cols - first : kPanel;
      GemmPanel(task.scratch, stride, task.rows, panel, next, depth, k > 0,
                last && task.bias != nullptr ? task.bias + first : nullptr,
                last ? task.activation : Activation::kNone, task.y + first, task.y_stride, cols);
    }
  }
}
