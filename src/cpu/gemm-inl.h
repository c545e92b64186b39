// y = activation(x W^T + bias), one weight panel at a time. Included inside namespace
// penstock::cpu::<isa>, after math-inl.h.

constexpr int kTileVecs = Simd::kTileVecs;
constexpr int kTileRows = Simd::kTileRows;
constexpr size_t kPanel = kTileVecs * kLanes;

constexpr size_t kLineFloats = 16;
constexpr size_t kFetchTiles = (kPanel + kLineFloats - 1) / kLineFloats;

// Longest chain of k worked on in one go: a panel of it (128 KB with 32 columns) and the rows'
// share of x stay in a Zen 4's L2. Longer chains go on from the sums stored in y, bit for bit.
constexpr size_t kDepth = 1024;

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

void GemmPanel(const float* x, size_t x_stride, size_t rows, const float* panel,
               const float* next_panel, size_t in, const float* bias, Activation activation,
               float* y, size_t y_stride, size_t cols) {
  for (size_t k = 0; k < in; k += kDepth) {
    const bool last = in - k <= kDepth;
    const size_t depth = last ? in - k : kDepth;
    const float* shift = last ? bias : nullptr;
    const Activation act = last ? activation : Activation::kNone;
    const float* weights = panel + k * kPanel;
    // What is read next: the rest of this panel, then the next one. A line a step, so the first
    // kPanel / kLineFloats tiles fetch all of it.
    const float* fetch = last ? next_panel : weights + kDepth * kPanel;
    size_t fetch_tiles = fetch == nullptr ? 0 : kFetchTiles;
    if (fetch == nullptr) fetch = weights;  // already here: costs next to nothing
    size_t r = 0;
    for (; r + kTileRows <= rows; r += kTileRows) {
      GemmTile<kTileRows>(x + r * x_stride + k, x_stride, weights, depth, k > 0, shift, act,
                          y + r * y_stride, y_stride, cols, fetch);
      if (fetch_tiles > 0) --fetch_tiles;
      fetch = fetch_tiles > 0 ? fetch + depth * kLineFloats : weights;
    }
    if (r < rows) {
      GemmRest<kTileRows - 1>(rows - r, x + r * x_stride + k, x_stride, weights, depth, k > 0,
                              shift, act, y + r * y_stride, y_stride, cols, fetch);
    }
  }
}
