// y = activation(x w^T + bias) + residual in f32, for comparison with other processors: each result
// is one chain of Fma over k, so a row's bits depend on that row alone.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// 64 rows x 64 features a block, 16 of k at a time in shared memory; a thread has 4 x 4 results.
struct GemmF32 {
  static constexpr int kTileRows = 64, kTileFeatures = 64, kTileK = 16;
  static constexpr int kThreads = 256;
  static constexpr int kStride = 64 + 1;  // floats between columns of k: neighbours share no banks
  static constexpr int kSharedBytes = 2 * kTileK * kStride * 4;

  // [64, k] at `from`, of which `count` rows are there, transposed into `to`.
  static SIMT_FN void Load(const float* from, int first, int count, int k, int k0, float* to) {
    for (int i = simt::ThreadX(); i < 64 * kTileK; i += kThreads) {
      const int row = i / kTileK, at = i % kTileK;
      const bool valid = first + row < count && k0 + at < k;
      to[at * kStride + row] = valid ? from[static_cast<int64_t>(first + row) * k + k0 + at] : 0.0F;
    }
  }

  static SIMT_FN void Run(const GemmF32Args& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int rows = *a.rows;
    const int row0 = simt::BlockY() * kTileRows, feature0 = simt::BlockX() * kTileFeatures;
    if (row0 >= rows) return;
    float* const x = simt::Shared<float>();
    float* const w = x + kTileK * kStride;
    const int thread_row = simt::ThreadX() / 16 * 4, thread_feature = simt::ThreadX() % 16 * 4;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < a.k; k0 += kTileK) {
      simt::Sync();  // the tiles before are read
      Load(a.x, row0, rows, a.k, k0, x);
      Load(a.w, feature0, a.to.features, a.k, k0, w);
      simt::Sync();
      SIMT_UNROLL
      for (int at = 0; at < kTileK; ++at) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          SIMT_UNROLL
          for (int j = 0; j < 4; ++j) {
            sums[i][j] = simt::Fma(x[at * kStride + thread_row + i],
                                   w[at * kStride + thread_feature + j], sums[i][j]);
          }
        }
      }
    }
    Finish(a, row0 + thread_row, feature0 + thread_feature, rows, sums);
  }

  // Four rows of four features.
  static SIMT_FN void Finish(const GemmF32Args& a, int row0, int feature, int rows,
                             float (&sums)[4][4]) {
    const Epilogue& to = a.to;
    if (to.bias != nullptr) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        AddPair(sums[i], 0, to.bias, feature, to.features);
        AddPair(sums[i], 2, to.bias, feature + 2, to.features);
      }
    }
    Activate<4>(sums, to.activation);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int64_t row = row0 + i;
      if (row >= rows) continue;
      SIMT_UNROLL
      for (int j = 0; j < 4; j += 2) {
        if (to.residual != nullptr) {
          AddPair(sums[i], j, to.residual + row * to.features, feature + j, to.features);
        }
        if (a.multiply) {
          float factors[4] = {};
          AddPair(factors, 0, to.y + row * to.features, feature + j, to.features);
          sums[i][j] *= factors[0];
          sums[i][j + 1] *= factors[1];
        }
        CutPair(sums[i], j, feature + j, to.features);
        StoreForms(to, row, feature + j, sums[i][j], sums[i][j + 1]);
      }
    }
  }
};

}  // namespace penstock::cuda
