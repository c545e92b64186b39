// Norms and operands of rows, a row by one warp or by all four of a block: the same bits.
//
// Column c belongs to quarter c / 32 % 4 and to lane c % 32. Sums over a row are those of each
// quarter and lane, in order of the columns; the quarters' are added, then WarpSum adds the lanes'.
// So the bits of a row depend on that row alone.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

SIMT_FN uint16_t Operand16(float value, bool half) {
  return static_cast<uint16_t>(PackOperands(value, 0, half));
}

// A thread's values of a row that kWarps warps share: the first kHeld are loaded together and kept,
// the others are read again by each pass.
template <int kWarps, int kHeld>
struct RowValues {
  static_assert((kWarps == 1 || kWarps == 4) && kHeld % 4 == 0);
  static constexpr int kStep = 32 * kWarps;
  const float* row;
  int width;
  int first;       // column
  float* scratch;  // [kNormScratch], of four warps
  float held[kHeld];

  SIMT_FN RowValues(const float* row_in, int width_in, float* scratch_in)
      : row(row_in),
        width(width_in),
        first(kWarps == 1 ? simt::Lane() : simt::ThreadX()),
        scratch(scratch_in) {
    SIMT_UNROLL
    for (int n = 0; n < kHeld; ++n) {
      const int i = n * kStep + first;
      held[n] = i < width ? row[i] : 0.0F;
    }
  }
  // Calls f(i, value, n % 4) for each column i of the thread, the n-th, in their order.
  template <typename Function>
  SIMT_FN void Each(Function&& f) const {
    SIMT_UNROLL
    for (int n = 0; n < kHeld; ++n) {
      const int i = n * kStep + first;
      if (i < width) f(i, held[n], n % 4);
    }
    for (int begin = kHeld * kStep; begin < width; begin += 4 * kStep) {
      SIMT_UNROLL
      for (int n = 0; n < 4; ++n) {
        const int i = begin + n * kStep + first;
        if (i < width) f(i, row[i], n);
      }
    }
  }
  // The sum of term(value) over the row, the same in all threads.
  template <typename Term>
  SIMT_FN float Sum(Term&& term) const {
    float quarters[4] = {};
    Each([&](int, float value, int quarter) {
      value = term(value);
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (i == (kWarps == 1 ? quarter : 0)) quarters[i] += value;
      }
    });
    if constexpr (kWarps == 4) Share(quarters);
    return simt::WarpSum((quarters[0] + quarters[1]) + (quarters[2] + quarters[3]));
  }
  // The largest value of all threads.
  SIMT_FN float Largest(float largest) const {
    if constexpr (kWarps == 4) {
      float all[4] = {largest};
      Share(all);
      largest = simt::Max(simt::Max(all[0], all[1]), simt::Max(all[2], all[3]));
    }
    return simt::WarpMax(largest);
  }

 private:
  // values[w] becomes values[0] of this lane in warp w.
  SIMT_FN void Share(float (&values)[4]) const {
    scratch[simt::ThreadX()] = values[0];
    simt::Sync();
    SIMT_UNROLL
    for (int warp = 0; warp < 4; ++warp) values[warp] = scratch[32 * warp + simt::Lane()];
    simt::Sync();  // all have read
  }
};

// Where a row's results go; null: not written.
struct NormedRow {
  float* y;
  uint16_t* y16;
  float* scale;  // of y16; null: y16 is not scaled
};
SIMT_FN NormedRow NormedRowOf(const NormArgs& a, int row) {
  const auto at = static_cast<int64_t>(row);
  return {a.y == nullptr ? nullptr : a.y + at * a.width,
          a.y16 == nullptr ? nullptr : a.y16 + at * a.stride16,
          a.scales == nullptr ? nullptr : a.scales + at};
}

// Floats of shared memory that four warps share a row with.
inline constexpr int kNormScratch = 128;

// By one warp, or by all threads of a block of four. Rows of up to 32 kWarps kHeld columns are read
// once.
template <int kWarps, int kHeld>
SIMT_FN void NormRow(const NormArgs& a, int row, const NormedRow& to, float* scratch) {
  const int64_t from = a.picks == nullptr ? row : a.picks[row];
  const RowValues<kWarps, kHeld> x(a.x + from * a.width, a.width, scratch);
  float mean = 0, factor = 1;
  if (a.gamma != nullptr) {
    const float count = static_cast<float>(a.width);
    if (!a.rms) mean = simt::Divide(x.Sum([](float value) { return value; }), count);
    const float square = x.Sum([&](float value) { return (value - mean) * (value - mean); });
    factor = simt::Rsqrt(simt::Divide(square, count) + a.epsilon);
  }
  const int64_t residual = static_cast<int64_t>(row) * a.width;
  const auto result = [&](int i, float value) {
    if (a.gamma != nullptr) value = (value - mean) * factor * a.gamma[i];
    if (a.beta != nullptr) value += a.beta[i];
    return a.residual == nullptr ? value : simt::Fma(a.factor, value, a.residual[residual + i]);
  };
  float scale = 1;
  if (to.scale != nullptr) {
    float largest = 0;
    x.Each([&](int i, float value, int) {
      value = result(i, value);
      largest = simt::Max(largest, value < 0 ? -value : value);
    });
    const OperandScale scales = OperandScaleOf(x.Largest(largest));
    scale = scales.factor;
    if (x.first == 0) *to.scale = scales.inverse;
  }
  x.Each([&](int i, float value, int) {
    value = result(i, value);
    if (to.y != nullptr) to.y[i] = value;
    if (to.y16 != nullptr) to.y16[i] = Operand16(value * scale, a.half);
  });
  if (to.y16 == nullptr) return;
  for (int i = a.width + x.first; i < a.stride16; i += 32 * kWarps) to.y16[i] = 0;
}

}  // namespace penstock::cuda
