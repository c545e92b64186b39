// y = activation(x W^T + bias), one weight panel at a time. Included inside namespace
// penstock::cpu::<isa>, after math-inl.h.

constexpr int kTileVecs = Simd::kTileVecs;
constexpr int kTileRows = Simd::kTileRows;
constexpr size_t kPanel = kTileVecs * kLanes;

// `kRows` x kPanel products held in registers over the whole of k. With 14 x 2 AVX-512
// accumulators one step costs 28 FMAs, 2 weight loads and 14 broadcasts: FMA-bound.
template <int kRows>
inline void GemmTile(const float* x, size_t x_stride, const float* panel, size_t in,
                     const float* bias, Activation activation, float* y, size_t y_stride,
                     size_t cols) {
  Vec sums[kRows][kTileVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kTileVecs; ++c) sums[r][c] = Simd::Zero();
  }
  for (size_t k = 0; k < in; ++k) {
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
                     const float* bias, Activation activation, float* y, size_t y_stride,
                     size_t cols) {
  if (rows == kRows) {
    GemmTile<kRows>(x, x_stride, panel, in, bias, activation, y, y_stride, cols);
  } else if constexpr (kRows > 1) {
    GemmRest<kRows - 1>(rows, x, x_stride, panel, in, bias, activation, y, y_stride, cols);
  }
}

void GemmPanel(const float* x, size_t x_stride, size_t rows, const float* panel, size_t in,
               const float* bias, Activation activation, float* y, size_t y_stride, size_t cols) {
  size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    GemmTile<kTileRows>(x + r * x_stride, x_stride, panel, in, bias, activation, y + r * y_stride,
                        y_stride, cols);
  }
  if (r < rows) {
    GemmRest<kTileRows - 1>(rows - r, x + r * x_stride, x_stride, panel, in, bias, activation,
                            y + r * y_stride, y_stride, cols);
  }
}
