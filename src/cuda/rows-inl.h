// Kernels over rows, a warp a row: embedding, norms, pooling, operands of 16 bits.
//
// A lane takes every 32nd value of its row; sums over a row are those of the lanes, in order of the
// columns, joined by WarpSum. So the bits of a row depend on that row alone.
#pragma once

#include "cuda/simt.h"

namespace penstock::cuda {

// Warps of a block.
inline constexpr int kRowsABlock = 4;

struct NormArgs {
  const float* x;      // [rows, width]
  const float* gamma;  // [width]
  const float* beta;   // [width]; null: the root of the mean square, nothing is subtracted
  float* y;            // [rows, width], may be x; null: not written
  uint16_t* y16;       // [rows, stride16] of the operands' type; null: not written
  const int* rows;     // on the device
  int width;
  int stride16;
  float epsilon;
  bool half;
};

// Sums of a row, the same in all lanes.
template <typename Term>
SIMT_FN float RowSum(int width, Term&& term) {
  float sum = 0;
  for (int i = simt::Lane(); i < width; i += 32) sum += term(i);
  return simt::WarpSum(sum);
}

SIMT_FN uint16_t Operand16(float value, bool half) {
  return static_cast<uint16_t>(half ? simt::PackHalf(value, 0) : simt::PackBf16(value, 0));
}

SIMT_FN void NormRow(const NormArgs& a, int row) {
  const float* const x = a.x + static_cast<int64_t>(row) * a.width;
  const float count = static_cast<float>(a.width);
  const float mean =
      a.beta == nullptr ? 0.0F : simt::Divide(RowSum(a.width, [&](int i) { return x[i]; }), count);
  const float square = RowSum(a.width, [&](int i) { return (x[i] - mean) * (x[i] - mean); });
  const float factor = simt::Rsqrt(simt::Divide(square, count) + a.epsilon);
  for (int i = simt::Lane(); i < a.width; i += 32) {
    float value = (x[i] - mean) * factor * a.gamma[i];
    if (a.beta != nullptr) value += a.beta[i];
    if (a.y != nullptr) a.y[static_cast<int64_t>(row) * a.width + i] = value;
    if (a.y16 != nullptr) {
      a.y16[static_cast<int64_t>(row) * a.stride16 + i] = Operand16(value, a.half);
    }
  }
}

SIMT_FN void RunNorm(const NormArgs& a) {
  simt::LaunchDependents();
  simt::WaitForPrerequisites();
  const int row = simt::BlockX() * kRowsABlock + simt::WarpIndex();
  if (row < *a.rows) NormRow(a, row);
}

struct EmbedArgs {
  const int* ids;        // [rows]
  const int* positions;  // [rows]
  const float* words;    // [vocabulary, width]
  const float* places;   // [positions, width]; null: none
  const float* type;     // [width]; null: none
  float* y;              // [rows, width]; the norm's x
  NormArgs norm;
};

SIMT_FN void RunEmbed(const EmbedArgs& a) {
  simt::LaunchDependents();
  simt::WaitForPrerequisites();
  const int row = simt::BlockX() * kRowsABlock + simt::WarpIndex(), width = a.norm.width;
  if (row >= *a.norm.rows) return;
  const float* const word = a.words + static_cast<int64_t>(a.ids[row]) * width;
  for (int i = simt::Lane(); i < width; i += 32) {
    float value = word[i];
    if (a.places != nullptr) value += a.places[static_cast<int64_t>(a.positions[row]) * width + i];
    if (a.type != nullptr) value += a.type[i];
    a.y[static_cast<int64_t>(row) * width + i] = value;
  }
  NormRow(a.norm, row);  // each lane reads what it wrote
}

struct PoolArgs {
  const float* x;             // [rows, width]
  const int* offsets;         // [sequences + 1], rows
  const int* sequence_count;  // on the device
  float* y;                   // [sequences, width]
  int width;
  bool first;       // the first token's row; else the mean of all
  bool normalizes;  // to length 1
};

SIMT_FN void RunPool(const PoolArgs& a) {
  simt::LaunchDependents();
  simt::WaitForPrerequisites();
  const int sequence = simt::BlockX() * kRowsABlock + simt::WarpIndex();
  if (sequence >= *a.sequence_count) return;
  const int begin = a.offsets[sequence];
  const int end = a.first ? begin + 1 : a.offsets[sequence + 1];
  float* const y = a.y + static_cast<int64_t>(sequence) * a.width;
  for (int i = simt::Lane(); i < a.width; i += 32) {
    float sum = 0;
    for (int row = begin; row < end; ++row) sum += a.x[static_cast<int64_t>(row) * a.width + i];
    y[i] = simt::Divide(sum, static_cast<float>(end - begin));
  }
  if (!a.normalizes) return;
  const float square = RowSum(a.width, [&](int i) { return y[i] * y[i]; });
  const float length = simt::Sqrt(square);
  const float divisor = length > 1e-12F ? length : 1e-12F;
  for (int i = simt::Lane(); i < a.width; i += 32) y[i] = simt::Divide(y[i], divisor);
}

}  // namespace penstock::cuda
