// y = activation(x w^T + bias) + residual by the tensor cores of compute capability 9.0, for many
// rows: operands, gates and sums are those of gemm_mma-inl.h, and so are the bits.
//
// A block takes tiles of 128 rows and 192 features, one after the other. A thread of each of the first
// four warps copies slices of 64 of k into a ring of stages: rows of x by tile copies, weights, whose
// pieces lie as wgmma reads them, by bulk copies. Two groups of four warps take 64 rows each, the
// second one two slices later: while one adds chunks or writes results, the other one multiplies.
#pragma once

#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

template <bool kHalf>
struct GemmWgmma {
  static constexpr int kTileRows = 128, kTileFeatures = 192;
  static constexpr int kGroups = 2;  // of four warps, 64 rows each
  static constexpr int kGroupThreads = 128;
  static constexpr int kThreads = (1 + kGroups) * kGroupThreads;
  static constexpr int kStages = 5, kChunk = 4;  // slices of a chain of sums
  static constexpr int kLead = 2;                // slices between the two groups
  static constexpr int kRowsBytes = kTileRows * 128;
  static constexpr int kStageBytes = kRowsBytes + kTileFeatures * 128;
  static constexpr int kSharedBytes =
      kStages * (kStageBytes + 2 * static_cast<int>(sizeof(simt::Barrier)));

  using Sums = float[kTileFeatures / 8][4];  // of 8 features: row g: 0, 1; row g + 8: 2, 3

  // Walks the ring: a stage and the parity of its phase.
  struct Place {
    int stage = 0, parity = 0;
    SIMT_FN void Next() {
      if (++stage < kStages) return;
      stage = 0;
      parity ^= 1;
    }
  };
  struct Ring {
    char* stages;
    simt::Barrier* full;   // [kStages]: the copies are there
    simt::Barrier* empty;  // [kStages]: all warps have read it
  };
  struct Tiles {
    int across, count;  // tiles of features; all
    SIMT_FN Tiles(const GemmArgs& a, int rows) {
      const int columns = a.to.y16 != nullptr ? a.to.stride16 : a.to.features;
      const int features = a.up != nullptr ? 2 * columns : columns;
      across = (features + kTileFeatures - 1) / kTileFeatures;
      count = across * ((rows + kTileRows - 1) / kTileRows);
    }
  };

  // What lane 0 of a warp copies of a stage: three of the twelve pieces of weights; warp 0 copies the
  // rows of x too.
  static SIMT_FN void Load(const GemmWgmmaArgs& a, char* stage, simt::Barrier* full, int warp,
                           int row0, int feature0, int block) {
    constexpr int kPieces = kTileFeatures / 16, kWarpPieces = kPieces / 4;
    const int pieces_k = a.gemm.k / 64, first = feature0 / 16;
    const int features = a.gemm.up != nullptr ? 2 * a.gemm.to.features : a.gemm.to.features;
    int pieces = (features + 15) / 16 - first;
    if (pieces > kPieces) pieces = kPieces;
    if (pieces < 0) pieces = 0;
    if (warp == 0) {
      simt::BarrierExpect(full, static_cast<uint32_t>(kRowsBytes + pieces * 2048));
      simt::CopyTile(stage, a.x, block * 64, row0, full);
    }
    SIMT_UNROLL
    for (int n = 0; n < kWarpPieces; ++n) {
      const int i = warp * kWarpPieces + n, piece = first + i;
      if (i >= pieces) break;
      char* const to = stage + kRowsBytes + i * 2048;
      if (a.gemm.up == nullptr) {
        simt::CopyBulk(to, a.gemm.w + (static_cast<int64_t>(piece) * pieces_k + block) * 1024, 2048,
                       full);
        continue;
      }
      const int64_t from =
          (static_cast<int64_t>(piece / 2) * pieces_k + block) * 1024 + piece % 2 * 512;
      simt::CopyBulk(to, a.gemm.w + from, 1024, full);
      simt::CopyBulk(to + 1024, a.gemm.up + from, 1024, full);
    }
  }

  static SIMT_FN void Produce(const GemmWgmmaArgs& a, const Ring& ring, const Tiles& tiles,
                              int warp) {
    Place place;
    for (int tile = simt::BlockX(); tile < tiles.count; tile += simt::GridX()) {
      const int row0 = tile / tiles.across * kTileRows;
      const int feature0 = tile % tiles.across * kTileFeatures;
      for (int block = 0; block < a.gemm.k / 64; ++block, place.Next()) {
        simt::BarrierWait(ring.empty + place.stage, place.parity ^ 1);
        Load(a, ring.stages + place.stage * kStageBytes, ring.full + place.stage, warp, row0,
             feature0, block);
      }
    }
  }

  // Starts the four steps of a stage, once it is there.
  static SIMT_FN void Multiply(const Ring& ring, const Place& place, int group, bool begins,
                               Sums& sums) {
    const char* const stage = ring.stages + place.stage * kStageBytes;
    simt::BarrierWait(ring.full + place.stage, place.parity);
    simt::WgmmaFence();
    SIMT_UNROLL
    for (int step = 0; step < 4; ++step) {
      simt::Wgmma<kHalf>(sums, simt::TileDescriptor(stage + group * 64 * 128 + step * 32),
                         simt::TileDescriptor(stage + kRowsBytes + step * 32),
                         !begins || step != 0);
    }
    simt::WgmmaCommit();
  }
  static SIMT_FN void Consume(const GemmWgmmaArgs& a, const Ring& ring, const Tiles& tiles,
                              int group, int rows) {
    const int blocks = a.gemm.k / 64;
    // Slices after which the first group lets the second one begin.
    int lead = blocks < kLead ? blocks : kLead;
    if (group == 1 && simt::BlockX() < tiles.count) simt::SyncBarrier(1, kGroups * kGroupThreads);
    const auto release = [&](const Place& read) {
      if (simt::Lane() == 0) simt::BarrierArrive(ring.empty + read.stage);
      if (group == 0 && --lead == 0) simt::SyncBarrier(1, kGroups * kGroupThreads);
    };
    Place place;
    for (int tile = simt::BlockX(); tile < tiles.count; tile += simt::GridX()) {
      Sums totals = {};
      for (int block = 0; block < blocks;) {
        const int end = block + kChunk < blocks ? block + kChunk : blocks;
        Sums sums;
        Multiply(ring, place, group, true, sums);
        for (++block; block < end; ++block) {
          const Place before = place;
          place.Next();
          Multiply(ring, place, group, false, sums);
          simt::WgmmaWait<1>();
          release(before);
        }
        simt::WgmmaWait<0>();
        simt::WgmmaTake(sums);
        release(place);
        place.Next();
        SIMT_UNROLL
        for (int n = 0; n < kTileFeatures / 8; ++n) {
          SIMT_UNROLL
          for (int i = 0; i < 4; ++i) totals[n][i] += sums[n][i];
        }
      }
      const int row = tile / tiles.across * kTileRows + group * 64 + simt::WarpIndex() % 4 * 16 +
                      simt::Lane() / 4;
      StoreTile(a.gemm, row, rows, tile % tiles.across * kTileFeatures, totals);
    }
  }

  static SIMT_FN void Run(const GemmWgmmaArgs& a) {
    if constexpr (simt::kHasWgmma) RunHere(a);
  }

 private:
  static SIMT_FN void RunHere(const GemmWgmmaArgs& a) {
    simt::LaunchDependents();
    Ring ring;
    ring.stages = simt::Shared<char>();
    ring.full = reinterpret_cast<simt::Barrier*>(ring.stages + kStages * kStageBytes);
    ring.empty = ring.full + kStages;
    if (simt::ThreadX() == 0) {
      for (int i = 0; i < kStages; ++i) {
        simt::BarrierInit(ring.full + i, 1);
        simt::BarrierInit(ring.empty + i, kGroups * 4);
      }
      simt::FenceBarrierInit();
    }
    simt::Sync();
    simt::WaitForPrerequisites();
    // All lanes take part in WarpIndex, so it stands before the branch that lane 0 takes alone.
    const int rows = *a.gemm.rows, warp = simt::WarpIndex(), group = warp / 4;
    const Tiles tiles(a.gemm, rows);
    if (group == 0) {
      simt::GiveRegisters<24>();
      if (simt::Lane() == 0) Produce(a, ring, tiles, warp);
    } else {
      simt::TakeRegisters<240>();
      Consume(a, ring, tiles, group - 1, rows);
    }
  }
};

}  // namespace penstock::cuda
