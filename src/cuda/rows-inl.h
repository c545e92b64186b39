// Kernels over rows, a warp a row: embedding, norms, rotation of heads, pooling, operands of 16 bits.
#pragma once

#include "cuda/block_fragments-inl.h"
#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/norm-inl.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// What the kernels over rows have in common.
struct RowKernel {
  static constexpr int kTileRows = 4, kTileFeatures = 0;  // a warp each
  static constexpr int kThreads = 32 * kTileRows;
  static constexpr int kSharedBytes = 0;
  static SIMT_FN int Row() { return simt::BlockX() * kTileRows + simt::WarpIndex(); }
};

struct RowsNorm : RowKernel {
  static SIMT_FN void Run(const NormArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    if (Row() < *a.rows) NormRow<1, 32>(a, Row(), NormedRowOf(a, Row()), nullptr);
  }
};

struct RowsEmbed : RowKernel {
  static SIMT_FN int IdOf(const EmbedArgs& a, int row) {
    const int source = a.sources == nullptr ? -1 : a.sources[row];
    return source < 0 ? a.ids[row] : a.drawn[source];
  }
  // A word's value in the matrix in blocks.
  static SIMT_FN float BlockValue(const EmbedArgs& a, int id, int column) {
    float value = 0;
    VisitForm(a.form, [&]<typename Form>() {
      value = BlockWeight<Form>(a.blocks, (a.norm.width + 63) / 64, id, column);
    });
    return value * a.scales[id];
  }
  // A word's value in the matrix in pieces (gemm_mma-inl.h).
  static SIMT_FN float PieceValue(const EmbedArgs& a, int id, int column) {
    const int feature = id % 16;
    const int pieces_k = (a.norm.width + 63) / 64;
    const int64_t piece = static_cast<int64_t>(id / 16) * pieces_k + column / 64;
    const uint16_t operand =
        a.pieces[piece * 1024 + feature * 64 + (column % 64 / 8 ^ feature % 8) * 8 + column % 8];
    const float value =
        a.half ? simt::HalfToFloat(operand) : simt::FloatOf(static_cast<uint32_t>(operand) << 16);
    return a.scales == nullptr ? value : value * a.scales[id];
  }

  static SIMT_FN void Run(const EmbedArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int row = Row(), width = a.norm.width;
    if (row >= *a.norm.rows) return;
    const int id = IdOf(a, row);
    const auto at = [&](const float* table, int index) {
      return table + static_cast<int64_t>(index) * width;
    };
    auto* const y = const_cast<float*>(a.norm.x) + static_cast<int64_t>(row) * width;
    for (int i = simt::Lane(); i < width; i += 32) {
      float value = a.blocks != nullptr   ? BlockValue(a, id, i)
                    : a.pieces != nullptr ? PieceValue(a, id, i)
                                          : at(a.words, id)[i];
      value *= a.factor;
      if (a.kinds != nullptr) value += at(a.kinds, a.types == nullptr ? 0 : a.types[row])[i];
      if (a.places != nullptr) value += at(a.places, a.positions[row])[i];
      y[i] = value;
    }
    NormRow<1, 32>(a.norm, row, NormedRowOf(a.norm, row),
                   nullptr);  // each lane reads what it wrote
  }
};

struct RowsHeads : RowKernel {
  static SIMT_FN float Value(const HeadsArgs& a, int row, int head, int column) {
    if (column >= a.head_size) return 0;
    const float* const x = a.x + (static_cast<int64_t>(row) * 3 * a.heads + head) * a.head_size;
    if (a.cos == nullptr || head >= 2 * a.heads || column >= a.rope_size) return x[column];
    const int half = a.rope_size / 2;
    const int pair = a.interleaved ? column / 2 : column % half;
    const bool second = a.interleaved ? column % 2 == 1 : column >= half;
    const float first_value = x[a.interleaved ? 2 * pair : pair];
    const float second_value = x[a.interleaved ? 2 * pair + 1 : pair + half];
    const int64_t at = static_cast<int64_t>(a.places[row]) * half + pair;
    return second ? second_value * a.cos[at] + first_value * a.sin[at]
                  : first_value * a.cos[at] - second_value * a.sin[at];
  }

  static SIMT_FN void Run(const HeadsArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int row = Row();
    if (row >= *a.rows) return;
    const int width = 3 * a.heads * a.depth;
    for (int i = simt::Lane(); i < width; i += 32) {
      const float value = Value(a, row, i / a.depth, i % a.depth);
      const int64_t at = static_cast<int64_t>(row) * width + i;
      if (a.y != nullptr) a.y[at] = value;
      if (a.y16 != nullptr) a.y16[at] = Operand16(value, a.half);
    }
  }
};

// Weights of the weighted mean are 1, 2, 3, ... by position in the sequence, skipped rows counted.
struct RowsPool : RowKernel {
  static SIMT_FN void Run(const PoolArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int sequence = Row();
    if (sequence >= *a.sequences) return;
    const int begin = a.offsets[sequence], length = a.offsets[sequence + 1] - begin;
    int first = a.skip[sequence], end = length;
    if (a.pooling == program::Pooling::kCls) end = first + 1;
    if (a.pooling == program::Pooling::kLastToken) first = length - 1;
    const bool weighted = a.pooling == program::Pooling::kWeightedMean;
    const auto count = static_cast<float>(end - first);
    float divisor = 1;
    if (a.pooling == program::Pooling::kMean) divisor = count;
    if (a.pooling == program::Pooling::kMeanSqrtLen) divisor = simt::Sqrt(count);
    if (weighted) divisor = count * static_cast<float>(first + 1 + end) * 0.5F;
    for (int i = simt::Lane(); i < a.width; i += 32) {
      float sum = 0;
      for (int t = first; t < end; ++t) {
        const float x = a.x[static_cast<int64_t>(begin + t) * a.width + i];
        if (a.pooling == program::Pooling::kMax) {
          sum = t == first || x > sum ? x : sum;
        } else {
          sum = weighted ? simt::Fma(x, static_cast<float>(t + 1), sum) : sum + x;
        }
      }
      a.y[static_cast<int64_t>(sequence) * a.y_stride + i] = simt::Divide(sum, divisor);
    }
  }
};

}  // namespace penstock::cuda
