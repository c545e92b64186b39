// y = activation(x w^T + bias) + residual for few rows, by tensor cores: operands, gates and sums
// are those of gemm_mma-inl.h, and so are the bits.
//
// A block takes 16 features, which are the rows of the tensor cores' tile, so that weights fill it
// however few rows of x there are. Its four warps share k: chunks of 256 are handed out in turn, and
// no warp waits for another's weights. After each turn the sums of the four chunks are added in order.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/narrow_rows-inl.h"
#include "cuda/narrow_weights-inl.h"
#include "cuda/simt.h"

namespace penstock::cuda {

template <typename Weights, typename Rows>
struct GemmNarrowOf {
  static constexpr int kTileRows = Rows::kTileRows, kTileFeatures = 16;
  static constexpr int kTiles = kTileRows / 8, kStages = kNarrowStages;
  static constexpr int kWarps = kNarrowWarps, kThreads = 32 * kWarps;
  static constexpr int kSums = kTileRows * kTileFeatures;  // of a warp
  static constexpr int kWeightBytes = kWarps * Weights::kRingBytes;
  static constexpr int kSharedBytes =
      kWeightBytes + Rows::kSharedBytes + 2 * kWarps * kSums * static_cast<int>(sizeof(float));

  // Blocks a multiprocessor holds at least (__launch_bounds__): limits a thread's registers.
  static constexpr int kResident = Rows::kIsRing ? 3 : 4;

  using Sums = float[kTiles][4];  // of 16 features and 8 rows each

  static SIMT_FN void MulStage(const Weights& weights, const Rows& rows, int stage, Sums& sums) {
    SIMT_UNROLL
    for (int second = 0; second < 2; ++second) {
      uint32_t x[kTiles][4];
      SIMT_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) rows.Fragments(stage, second, tile, x[tile]);
      SIMT_UNROLL
      for (int step = 0; step < 2; ++step) {
        uint32_t w[4];
        weights.Fragments(stage, 2 * second + step, w);
        SIMT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          if constexpr (Weights::kHalf) {
            simt::MmaHalf(sums[tile], w, x[tile][2 * step], x[tile][2 * step + 1]);
          } else {
            simt::Mma(sums[tile], w, x[tile][2 * step], x[tile][2 * step + 1]);
          }
        }
      }
    }
  }

  // Multiplies the warp's chunk and loads its next one; `left`, `next`: stages from each to the end
  // of k. Three groups of copies may be pending: in a ring of weights alone the next three stages';
  // in one of rows (two a stage) the next stage's rows and two of later weights.
  static SIMT_FN void MulChunk(Weights* weights, Rows* rows, int left, int next, Sums& sums) {
    SIMT_UNROLL
    for (int stage = 0; stage < kStages; ++stage) {
      if constexpr (kIsRing) {
        simt::WaitCopies<3>();
        simt::SyncWarp();  // the stage is there
      }
      if (stage < left) MulStage(*weights, *rows, stage, sums);
      if constexpr (kIsRing) simt::SyncWarp();  // and is read
      if constexpr (Rows::kIsRing) {
        if (stage < 2) {
          if (stage + 2 < left) rows->template Load<false>(stage + 2);
        } else if (stage - 2 < next) {
          rows->template Load<true>(stage - 2);
        }
        simt::CommitCopies();
      }
      if (stage < next) weights->template Load<true>(stage);
      if constexpr (kIsRing) simt::CommitCopies();
    }
    weights->Advance();
    rows->Advance();
  }
  static constexpr bool kIsRing = Weights::kRingBytes > 0 || Rows::kIsRing;

  // The rows of the first two stages, each with an empty group: MulChunk counts two a stage.
  static SIMT_FN void LoadFirst(Rows* rows, int left) {
    if constexpr (Rows::kIsRing) {
      for (int stage = 0; stage < 2; ++stage) {
        if (stage < left) rows->template Load<false>(stage);
        simt::CommitCopies();
        simt::CommitCopies();
      }
    }
  }

  // Adds the warps' sums in order of the warps; a thread totals one feature and row of each tile.
  // `exchange`: [kWarps][kSums], two by turns, so that one Sync a turn is enough.
  static SIMT_FN void AddSums(float* exchange, Sums& sums, float (&totals)[kTiles]) {
    const int lane = simt::Lane(), at = lane / 4 * 8 + 2 * (lane % 4);
    float* const to = exchange + simt::WarpIndex() * kSums + at;
    SIMT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      float(&four)[4] = sums[tile];
      simt::Store8(to + 128 * tile, {{simt::BitsOf(four[0]), simt::BitsOf(four[1])}});
      simt::Store8(to + 128 * tile + 64, {{simt::BitsOf(four[2]), simt::BitsOf(four[3])}});
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) four[i] = 0;
    }
    simt::Sync();
    // A warp without a chunk gave zeros, which change nothing: a total is never -0.
    SIMT_UNROLL
    for (int warp = 0; warp < kWarps; ++warp) {
      SIMT_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        totals[tile] += exchange[warp * kSums + 128 * tile + simt::ThreadX()];
      }
    }
  }

  static SIMT_FN void Store(const GemmArgs& a, int tile, int rows, float* exchange,
                            const float (&totals)[kTiles]) {
    SIMT_UNROLL
    for (int i = 0; i < kTiles; ++i) exchange[128 * i + simt::ThreadX()] = totals[i];
    simt::Sync();
    const int row = simt::ThreadX() / 4, feature = 2 * (simt::ThreadX() % 4);
    if (row >= kTileRows) return;
    const float* const from = exchange + row / 8 * 128 + row % 8;
    float results[1][4];
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) results[0][i] = from[8 * (feature + i / 2 * 8 + i % 2)];
    StoreFeatures(a, {simt::BlockY() * kTileRows + row}, rows, tile * kTileFeatures, results);
  }

  static SIMT_FN void Run(const GemmNarrowArgs& args) {
    simt::LaunchDependents();
    GemmArgs a = args.gemm;
    int tile = simt::BlockX();
    SIMT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const GemmPart& part = args.more[i];
      if (part.w == nullptr || simt::BlockX() < part.first) continue;
      tile = simt::BlockX() - part.first;
      a.w = part.w;
      a.to.scales = part.scales;
      a.to.bias = part.bias;
      a.to.y = part.y;
      a.to.features = part.features;
    }
    char* const shared = simt::Shared<char>();
    const int warp = simt::WarpIndex(), stages = a.k / 64;
    // Unless the kernel before unpacks them, weights are loaded while it still runs.
    if (!args.early_weights) simt::WaitForPrerequisites();
    Weights weights(a, tile, shared + warp * Weights::kRingBytes);
    int left = stages - kStages * warp;  // from the warp's chunk to the end of k; <= 0: no chunk
    SIMT_UNROLL
    for (int stage = 0; stage < kStages; ++stage) {
      if (stage < left) weights.template Load<false>(stage);
      if constexpr (kIsRing) simt::CommitCopies();
    }
    if (args.early_weights) simt::WaitForPrerequisites();
    const int count = *a.rows;
    if (simt::BlockY() * kTileRows >= count) return simt::WaitCopies<0>();
    Rows rows(args, shared + kWeightBytes, count);
    if constexpr (!Rows::kIsRing) a.to.row_scales = rows.scales();
    LoadFirst(&rows, left);
    auto* const exchange = reinterpret_cast<float*>(shared + kWeightBytes + Rows::kSharedBytes);
    constexpr int kTurn = kWarps * kSums;
    Sums sums = {};
    float totals[kTiles] = {};
    const int turns = (stages + kStages * kWarps - 1) / (kStages * kWarps);
    for (int turn = 0; turn < turns; ++turn, left -= kStages * kWarps) {
      MulChunk(&weights, &rows, left, left - kStages * kWarps, sums);
      AddSums(exchange + turn % 2 * kTurn, sums, totals);
    }
    Store(a, tile, count, exchange + turns % 2 * kTurn, totals);
  }
};

template <bool kHalf>
using GemmNarrow = GemmNarrowOf<PieceWeights<kHalf>, RingRows<4>>;
template <typename Form>
using GemmNarrowBlocks = GemmNarrowOf<BlockWeights<Form>, RingRows<4>>;
// Norm, operands and product in one.
template <typename Weights>
using GemmFused = GemmNarrowOf<Weights, FusedRows>;

}  // namespace penstock::cuda
