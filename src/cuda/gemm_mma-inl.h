// y = activation(x w^T + bias) + residual by tensor cores, from compute capability 8.0 on.
//
// Operands are 16 bits wide. x has a row of k values each; w lies in pieces of 16 features by 64 of
// k, 2,048 bytes as shared memory wants them: feature r, 16-byte column c at byte
// 128 r + 16 (c ^ r % 8), piece (feature / 16) (k_all / 64) + k / 64. Tiles of x are put into the
// same order, so that the eight rows that LoadMatrix4 reads at once never share banks. With a gate
// eight features of each of the two matrices make a piece: both sums of a feature are one thread's.
//
// Sums: k in chunks of 256, each a chain of steps of 16 from zero; the chunks are added in order,
// rounded to nearest. So the bits of a row depend on that row alone, whatever the tile.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// kRows x kFeatures a block, kStages of 64 of k in shared memory, kWarpRows x kWarpFeatures warps.
template <int kRows, int kFeatures, int kStages, int kWarpRows, int kWarpFeatures, bool kHalf>
struct GemmMma {
  static constexpr int kTileRows = kRows, kTileFeatures = kFeatures;
  static constexpr int kThreads = kWarpRows * kWarpFeatures * 32;
  static constexpr int kStageBytes = (kRows + kFeatures) * 128;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  // Tiles of 16 rows and of 16 features a warp.
  static constexpr int kTilesM = kRows / kWarpRows / 16;
  static constexpr int kTilesN = kFeatures / kWarpFeatures / 16;
  static constexpr int kChunk = 4;  // stages of a chain of sums

  using Sums = float[kTilesM][kTilesN][2][4];

  // Copies of one stage, 16 bytes each. A thread's rows are kThreads / 8 apart, so all of its copies
  // have one column and one place in the swizzle.
  static SIMT_FN void Load(const GemmArgs& a, char* stage, int block, int rows) {
    static_assert(kThreads % 64 == 0 && kRows * 8 % kThreads == 0 && kFeatures * 8 % kThreads == 0);
    const int row0 = simt::BlockY() * kRows, feature0 = simt::BlockX() * kFeatures;
    const int first = simt::ThreadX() / 8, column = simt::ThreadX() % 8;
    const uint16_t* const x =
        a.x + static_cast<int64_t>(row0 + first) * a.stride + block * 64 + column * 8;
    char* const to = stage + first * 128 + 16 * (column ^ first % 8);
    SIMT_UNROLL
    for (int i = 0; i < kRows * 8 / kThreads; ++i) {
      const int row = i * (kThreads / 8);
      const bool valid = row0 + first + row < rows;
      simt::CopyAsync16(to + row * 128, valid ? x + static_cast<int64_t>(row) * a.stride : a.x,
                        valid);
    }
    const int pieces_k = a.k / 64;
    SIMT_UNROLL
    for (int i = 0; i < kFeatures * 8 / kThreads; ++i) {
      const int at = simt::ThreadX() + i * kThreads;
      const int piece = feature0 / 16 + at / 128, part = at % 128;
      const uint16_t* from = a.w;
      bool valid;
      if (a.up == nullptr) {
        valid = 16 * piece < a.to.features;
        from += (static_cast<int64_t>(piece) * pieces_k + block) * 1024 + part * 8;
      } else {
        valid = 8 * piece < a.to.features;
        if (part >= 64) from = a.up;
        from += (static_cast<int64_t>(piece / 2) * pieces_k + block) * 1024 +
                (piece % 2 * 64 + part % 64) * 8;
      }
      simt::CopyAsync16(stage + kRows * 128 + at * 16, valid ? from : a.w, valid);
    }
  }

  static SIMT_FN void MulStage(const char* stage, Sums& sums) {
    const int lane = simt::Lane(), warp = simt::WarpIndex();
    const int row0 = warp / kWarpFeatures * kTilesM * 16;
    const int piece0 = warp % kWarpFeatures * kTilesN;
    const char* const weights = stage + kRows * 128;
    SIMT_UNROLL
    for (int step = 0; step < 4; ++step) {
      uint32_t x[kTilesM][4], w[kTilesN][4];
      SIMT_UNROLL
      for (int m = 0; m < kTilesM; ++m) {
        const int row = row0 + m * 16 + lane % 16, column = 2 * step + lane / 16;
        simt::LoadMatrix4(x[m], stage + row * 128 + 16 * (column ^ row % 8));
      }
      SIMT_UNROLL
      for (int n = 0; n < kTilesN; ++n) {
        const int feature = lane / 16 * 8 + lane % 8, column = 2 * step + lane / 8 % 2;
        simt::LoadMatrix4(
            w[n], weights + (piece0 + n) * 2048 + feature * 128 + 16 * (column ^ feature % 8));
      }
      SIMT_UNROLL
      for (int m = 0; m < kTilesM; ++m) {
        SIMT_UNROLL
        for (int n = 0; n < kTilesN; ++n) {
          SIMT_UNROLL
          for (int half = 0; half < 2; ++half) {
            if constexpr (kHalf) {
              simt::MmaHalf(sums[m][n][half], x[m], w[n][2 * half], w[n][2 * half + 1]);
            } else {
              simt::Mma(sums[m][n][half], x[m], w[n][2 * half], w[n][2 * half + 1]);
            }
          }
        }
      }
    }
  }

  static SIMT_FN void AddChunk(Sums& sums, Sums& totals) {
    SIMT_UNROLL
    for (int m = 0; m < kTilesM; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kTilesN; ++n) {
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          SIMT_UNROLL
          for (int i = 0; i < 4; ++i) {
            totals[m][n][half][i] += sums[m][n][half][i];
            sums[m][n][half][i] = 0;
          }
        }
      }
    }
  }

  static SIMT_FN void Store(const GemmArgs& a, const Sums& totals, int rows) {
    const int lane = simt::Lane(), warp = simt::WarpIndex();
    const int row0 = simt::BlockY() * kRows + warp / kWarpFeatures * kTilesM * 16 + lane / 4;
    const int feature0 = simt::BlockX() * kFeatures + warp % kWarpFeatures * kTilesN * 16;
    SIMT_UNROLL
    for (int m = 0; m < kTilesM; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kTilesN; ++n) {
        const float(&one)[4] = totals[m][n][0];
        const float(&other)[4] = totals[m][n][1];
        float sums[2][4] = {{one[0], one[1], other[0], other[1]},
                            {one[2], one[3], other[2], other[3]}};
        StoreFeatures(a, {row0 + m * 16, row0 + m * 16 + 8}, rows, feature0 + n * 16, sums);
      }
    }
  }

  static SIMT_FN void Run(const GemmArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int rows = *a.rows;
    if (simt::BlockY() * kRows >= rows) return;
    char* const stages = simt::Shared<char>();
    const int blocks = a.k / 64;
    Sums sums = {}, totals = {};
    for (int block = 0; block < kStages - 1; ++block) {
      if (block < blocks) Load(a, stages + block * kStageBytes, block, rows);
      simt::CommitCopies();
    }
    for (int block = 0; block < blocks; ++block) {
      simt::WaitCopies<kStages - 2>();
      simt::Sync();  // stage `block` is there, and `block - 1` is read
      const int next = block + kStages - 1;
      if (next < blocks) Load(a, stages + next % kStages * kStageBytes, next, rows);
      simt::CommitCopies();
      MulStage(stages + block % kStages * kStageBytes, sums);
      if (block % kChunk == kChunk - 1 || block == blocks - 1) AddChunk(sums, totals);
    }
    Store(a, totals, rows);
  }
};

// Two of the tiles that launches choose from (GemmOf in lowering.cc); the others are in
// gemm_narrow-inl.h and gemm_wgmma-inl.h.
template <bool kHalf>
using GemmMmaLarge = GemmMma<128, 128, 3, 2, 4, kHalf>;
template <bool kHalf>
using GemmMmaMiddle = GemmMma<64, 64, 3, 2, 2, kHalf>;

}  // namespace penstock::cuda
