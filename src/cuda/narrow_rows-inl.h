// The rows of x of a warp of the narrow product (gemm_narrow-inl.h), stages of 64 of k: through a
// ring, or as the block made them.
#pragma once

#include "cuda/narrow_weights-inl.h"
#include "cuda/norm-inl.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// 8 kTiles rows of operands, through a ring of two stages a warp.
template <int kTiles>
class RingRows {
 public:
  static constexpr int kTileRows = 8 * kTiles;
  static constexpr bool kIsRing = true;
  static constexpr int kStageBytes = kTileRows * 128, kSlots = 2;
  static constexpr int kSharedBytes = kNarrowWarps * kSlots * kStageBytes;

  // Rows from `rows` on are those of the last one, and their results are not stored.
  SIMT_FN RingRows(const GemmNarrowArgs& args, char* shared, int rows)
      : ring_(shared + simt::WarpIndex() * kSlots * kStageBytes) {
    const int lane = simt::Lane(), first = simt::BlockY() * kTileRows;
    SIMT_UNROLL
    for (int turn = 0; turn < kTurns; ++turn) {
      int row = first + 4 * turn + lane / 8;
      row = row < rows ? row : rows - 1;
      from_[turn] = args.gemm.x + static_cast<int64_t>(row) * args.gemm.stride +
                    kChunk * simt::WarpIndex() + lane % 8 * 8;
    }
    SIMT_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      const int row = 4 * odd + lane / 8;
      to_[odd] = row * 128 + 16 * (lane % 8 ^ row);
      places_[odd] = lane % 8 * 128 + 16 * ((4 * odd + lane / 8) ^ lane % 8);
    }
  }
  template <bool kNext>
  SIMT_FN void Load(int stage) {
    char* const to = ring_ + stage % kSlots * kStageBytes;
    SIMT_UNROLL
    for (int turn = 0; turn < kTurns; ++turn) {
      simt::CopyAsync16(to + turn / 2 * 1024 + to_[turn % 2],
                        from_[turn] + (kNext ? kNarrowWarps * kChunk : 0) + 64 * stage, true);
    }
  }
  SIMT_FN void Advance() {
    SIMT_UNROLL
    for (int turn = 0; turn < kTurns; ++turn) from_[turn] += kNarrowWarps * kChunk;
  }
  // As tensor cores take 8 rows by 32 of k, the first or the second 32 of a stage.
  SIMT_FN void Fragments(int stage, int second, int tile, uint32_t (&x)[4]) const {
    simt::LoadMatrix4(x, ring_ + stage % kSlots * kStageBytes + tile * 1024 + places_[second]);
  }

 private:
  static constexpr int kTurns = 2 * kTiles, kChunk = 64 * kNarrowStages;

  char* const ring_;
  const uint16_t* from_[kTurns];
  int to_[2], places_[2];
};

// Up to four rows, which each block norms and makes operands of.
class FusedRows {
 public:
  static constexpr int kTileRows = 8;  // of tensor cores
  static constexpr bool kIsRing = false;
  static constexpr int kHeld = 16;  // more would take the registers of weights that come in
  // Values between rows, so that the rows that LoadMatrix4 reads share no banks.
  static constexpr int kPadding = 8;
  static constexpr int kOperandBytes = (kFusedValues + kFusedRows * kPadding) * 2;
  static constexpr int kSharedBytes =
      kOperandBytes + (kFusedRows + kNormScratch) * static_cast<int>(sizeof(float));

  // By all threads of the block.
  SIMT_FN FusedRows(const GemmNarrowArgs& args, char* shared, int rows) : shared_(shared) {
    auto* const operands = reinterpret_cast<uint16_t*>(shared);
    const int stride = args.gemm.k + kPadding, warp = simt::WarpIndex();
    if (rows == 1) {
      NormRow<4, kHeld>(args.norm, 0, {nullptr, operands, scales()}, scales() + kFusedRows);
    } else if (warp < rows) {
      NormRow<1, kHeld>(args.norm, warp, {nullptr, operands + warp * stride, scales() + warp},
                        nullptr);
    }
    simt::Sync();
    const int row = simt::Lane() % 8 < rows ? simt::Lane() % 8 : 0;
    from_ = shared + 2 * (row * stride + 64 * kNarrowStages * warp) + simt::Lane() / 8 * 16;
  }
  SIMT_FN float* scales() const { return reinterpret_cast<float*>(shared_ + kOperandBytes); }
  SIMT_FN void Advance() { from_ += 2 * 64 * kNarrowStages * kNarrowWarps; }
  SIMT_FN void Fragments(int stage, int second, int /*tile*/, uint32_t (&x)[4]) const {
    simt::LoadMatrix4(x, from_ + 128 * stage + 64 * second);
  }

 private:
  char* const shared_;
  const char* from_;
};

}  // namespace penstock::cuda
