// y = activation(x w^T + bias) + residual for few rows, by tensor cores: operands, gates and sums
// are those of gemm_mma-inl.h, and so are the bits.
//
// A block takes 16 features and 32 rows. Its four warps share k: chunks of 256 are handed out in
// turn, each warp has a ring of stages of its own, and so waits for no other while weights come.
// After each turn the sums of the four chunks are added in order.
//
// Weights are operands in pieces, or blocks of GGUF that become operands in registers.
#pragma once

#include "cuda/block_fragments-inl.h"
#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// How a kernel has weights of 16 features by 64 of k: in shared memory, and as operands.
template <bool kIsHalf>
struct PieceWeights {
  static constexpr bool kHalf = kIsHalf;
  static constexpr int kBytes = 2048;

  static SIMT_FN void Load(const GemmArgs& a, char* to, int block) {
    const int pieces_k = a.k / 64;
    SIMT_UNROLL
    for (int turn = 0; turn < 4; ++turn) {
      const int i = turn * 32 + simt::Lane();
      const uint16_t* from = a.w;
      bool valid;
      if (a.up == nullptr) {
        valid = 16 * simt::BlockX() < a.to.features;
        from += (static_cast<int64_t>(simt::BlockX()) * pieces_k + block) * 1024 + i * 8;
      } else {
        valid = 8 * simt::BlockX() < a.to.features;
        if (i >= 64) from = a.up;
        from += (static_cast<int64_t>(simt::BlockX() / 2) * pieces_k + block) * 1024 +
                (simt::BlockX() % 2 * 64 + i % 64) * 8;
      }
      simt::CopyAsync16(to + i * 16, valid ? from : a.w, valid);
    }
  }

  // What a lane has of a stage; its operands of 16 of k.
  struct Taken {
    const char* at;
  };
  static SIMT_FN Taken Take(const char* at) { return {at}; }
  static SIMT_FN void Fragments(const Taken& taken, int step, uint32_t (&w)[4]) {
    const int lane = simt::Lane();
    const int feature = lane / 16 * 8 + lane % 8, column = 2 * step + lane / 8 % 2;
    simt::LoadMatrix4(w, taken.at + feature * 128 + 16 * (column ^ feature % 8));
  }
};

template <typename Form>
struct BlockWeights {
  static constexpr bool kHalf = true;
  static constexpr int kHalfCopies = Form::kHalfPieceBytes / 16, kCopies = 2 * kHalfCopies;
  static constexpr int kBytes = (16 * kCopies + 127) / 128 * 128;

  static SIMT_FN void Load(const GemmArgs& a, char* to, int block) {
    SIMT_UNROLL
    for (int turn = 0; turn < (kCopies + 31) / 32; ++turn) {
      const int i = turn * 32 + simt::Lane();
      if (i >= kCopies) continue;
      const int half = i / kHalfCopies;
      const bool gated = a.up != nullptr;
      const bool valid = (gated ? 8 : 16) * simt::BlockX() < a.to.features;
      const uint16_t* const matrix = gated && half == 1 ? a.up : a.w;
      const char* const from =
          HalfPieceOf<Form>(reinterpret_cast<const std::byte*>(matrix),
                            gated ? simt::BlockX() : 2 * simt::BlockX() + half, a.k / 64, block) +
          i % kHalfCopies * 16;
      simt::CopyAsync16(to + i * 16, valid ? from : reinterpret_cast<const char*>(a.w), valid);
    }
  }

  struct Taken {
    const char* at;
    typename Form::Codes codes[2];
  };
  static SIMT_FN Taken Take(const char* at) {
    return {at,
            {Form::ReadCodes(at, simt::Lane()),
             Form::ReadCodes(at + Form::kHalfPieceBytes, simt::Lane())}};
  }
  static SIMT_FN void Fragments(const Taken& taken, int step, uint32_t (&w)[4]) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto scales = Form::Read(taken.at + half * Form::kHalfPieceBytes + Form::kCodeBytes,
                                     simt::Lane() / 4, step * 16 / Form::kBlock);
      SIMT_UNROLL
      for (int second = 0; second < 2; ++second) {
        w[2 * half + second] = Form::Weights(
            Form::CodesOf(taken.codes[half].w[step / Form::kStepsOfWord], step, second), scales);
      }
    }
  }
};

template <typename Weights>
struct GemmNarrowOf {
  static constexpr bool kHalf = Weights::kHalf;
  static constexpr int kTileRows = 32, kTileFeatures = 16;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kStages = 3, kChunk = 4;  // of 64 of k, of a warp
  static constexpr int kRowsBytes = kTileRows * 128;
  static constexpr int kStageBytes = kRowsBytes + Weights::kBytes;  // rows of x, weights
  // Floats between rows of sums that warps exchange: four rows share no banks.
  static constexpr int kSumStride = 24;
  static constexpr int kSumBytes = kTileRows * kSumStride * 4;
  static constexpr int kSharedBytes = kWarps * (kStages * kStageBytes + kSumBytes);

  using Sums = float[kTileRows / 16][2][4];  // of 16 rows and 8 features each

  // The slice of 64 of k that a warp's stage holds.
  static SIMT_FN int BlockOf(int stage) {
    return (stage / kChunk * kWarps + simt::WarpIndex()) * kChunk + stage % kChunk;
  }

  static SIMT_FN void LoadWeights(const GemmArgs& a, char* stage, int block) {
    Weights::Load(a, stage + kRowsBytes, block);
  }

  static SIMT_FN void LoadRows(const GemmArgs& a, char* stage, int block, int rows) {
    const int row0 = simt::BlockY() * kTileRows;
    SIMT_UNROLL
    for (int turn = 0; turn < kTileRows / 4; ++turn) {
      const int row = turn * 4 + simt::Lane() / 8, column = simt::Lane() % 8;
      const bool valid = row0 + row < rows;
      const uint16_t* const from =
          a.x + static_cast<int64_t>(row0 + row) * a.stride + block * 64 + column * 8;
      simt::CopyAsync16(stage + row * 128 + 16 * (column ^ row % 8), valid ? from : a.x, valid);
    }
  }

  static SIMT_FN void MulStage(const char* stage, Sums& sums) {
    const int lane = simt::Lane();
    const typename Weights::Taken taken = Weights::Take(stage + kRowsBytes);
    SIMT_UNROLL
    for (int step = 0; step < 4; ++step) {
      uint32_t w[4];
      Weights::Fragments(taken, step, w);
      SIMT_UNROLL
      for (int m = 0; m < kTileRows / 16; ++m) {
        uint32_t x[4];
        const int row = m * 16 + lane % 16, at = 2 * step + lane / 16;
        simt::LoadMatrix4(x, stage + row * 128 + 16 * (at ^ row % 8));
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          if constexpr (kHalf) {
            simt::MmaHalf(sums[m][half], x, w[2 * half], w[2 * half + 1]);
          } else {
            simt::Mma(sums[m][half], x, w[2 * half], w[2 * half + 1]);
          }
        }
      }
    }
  }

  // Moves a chunk's sums to where all warps see them.
  static SIMT_FN void PutSums(float* to, Sums& sums) {
    const int lane = simt::Lane();
    SIMT_UNROLL
    for (int m = 0; m < kTileRows / 16; ++m) {
      SIMT_UNROLL
      for (int half = 0; half < 2; ++half) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = m * 16 + i / 2 * 8 + lane / 4;
          to[row * kSumStride + half * 8 + 2 * (lane % 4) + i % 2] = sums[m][half][i];
          sums[m][half][i] = 0;
        }
      }
    }
  }

  static SIMT_FN void Run(const GemmArgs& a) {
    simt::LaunchDependents();
    char* const ring = simt::Shared<char>() + simt::WarpIndex() * kStages * kStageBytes;
    auto* const exchange =
        reinterpret_cast<float*>(simt::Shared<char>() + kWarps * kStages * kStageBytes);
    const int blocks = a.k / 64, chunks = (blocks + kChunk - 1) / kChunk;
    const int stages = (chunks + kWarps - 1) / kWarps * kChunk;
    // Weights do not depend on the kernel before, so their copies start before it has ended.
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (BlockOf(stage) < blocks) LoadWeights(a, ring + stage * kStageBytes, BlockOf(stage));
    }
    simt::WaitForPrerequisites();
    const int rows = *a.rows;
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (BlockOf(stage) < blocks) LoadRows(a, ring + stage * kStageBytes, BlockOf(stage), rows);
      simt::CommitCopies();
    }
    if (simt::BlockY() * kTileRows >= rows) return simt::WaitCopies<0>();
    Sums sums = {};
    // A thread adds those of one row: two neighbours of the first eight features, and of the others.
    const int row = simt::ThreadX() / 4, pair = 2 * (simt::ThreadX() % 4);
    float totals[4] = {};
    for (int stage = 0; stage < stages; ++stage) {
      simt::WaitCopies<kStages - 2>();
      simt::SyncWarp();  // the stage is there, and the one before is read
      const int next = stage + kStages - 1;
      if (next < stages && BlockOf(next) < blocks) {
        LoadWeights(a, ring + next % kStages * kStageBytes, BlockOf(next));
        LoadRows(a, ring + next % kStages * kStageBytes, BlockOf(next), rows);
      }
      simt::CommitCopies();
      if (BlockOf(stage) < blocks) MulStage(ring + stage % kStages * kStageBytes, sums);
      if (stage % kChunk < kChunk - 1) continue;
      PutSums(exchange + simt::WarpIndex() * kTileRows * kSumStride, sums);
      simt::Sync();
      for (int warp = 0; warp < kWarps && stage / kChunk * kWarps + warp < chunks; ++warp) {
        const float* const from = exchange + (warp * kTileRows + row) * kSumStride + pair;
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) totals[i] += from[i / 2 * 8 + i % 2];
      }
      simt::Sync();  // the sums are read
    }
    float results[1][4] = {{totals[0], totals[1], totals[2], totals[3]}};
    StoreFeatures(a, {simt::BlockY() * kTileRows + row}, rows, simt::BlockX() * kTileFeatures,
                  results);
  }
};

template <bool kHalf>
using GemmNarrow = GemmNarrowOf<PieceWeights<kHalf>>;

}  // namespace penstock::cuda
