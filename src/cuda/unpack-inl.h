// Matrices of blocks as pieces of operands in f16, for products of many rows.
#pragma once

#include "cuda/block_fragments-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// A warp a piece.
template <typename Form>
struct Unpack {
  static constexpr int kTileRows = 4, kTileFeatures = 0;
  static constexpr int kThreads = 32 * kTileRows;
  static constexpr int kSharedBytes = 0;

  static SIMT_FN void Run(const UnpackArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int piece = simt::BlockX() * kTileRows + simt::WarpIndex(), lane = simt::Lane();
    if (piece >= a.pieces) return;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const char* const from = reinterpret_cast<const char*>(a.blocks) +
                               (2 * static_cast<int64_t>(piece) + half) * Form::kHalfPieceBytes;
      const typename Form::Codes codes = Form::ReadCodes(from, lane);
      const auto words = Form::ReadScales(from + Form::kCodeBytes, lane / 4);
      const int feature = 8 * half + lane / 4;
      uint16_t* const to = a.to + static_cast<int64_t>(piece) * 1024 + feature * 64;
      SIMT_UNROLL
      for (int step = 0; step < 4; ++step) {
        const auto scales = Form::PairOf(words, step * 16 / Form::kBlock);
        SIMT_UNROLL
        for (int second = 0; second < 2; ++second) {
          const uint32_t two = Form::Weights(
              Form::CodesOf(codes.w[step / Form::kStepsOfWord], step, second), scales);
          const int column = (2 * step + second) ^ feature % 8;
          *reinterpret_cast<uint32_t*>(to + column * 8 + lane % 4 * 2) = two;
        }
      }
    }
  }
};

}  // namespace penstock::cuda
