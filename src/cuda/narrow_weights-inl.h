// Weights of a warp of the narrow product (gemm_narrow-inl.h): 16 features, or 8 of each matrix of a
// gate, by chunks of 256 of k in turn. A chunk is four stages of 64; those of the next chunk are on
// their way while one is multiplied.
#pragma once

#include "cuda/block_fragments-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

inline constexpr int kNarrowWarps = 4;   // that share k
inline constexpr int kNarrowStages = 4;  // of a chunk

// Where a tile's two groups of eight features begin: its lower and upper half, or with a gate those
// of w and of `up`. Half pieces of one group lie 2 `half_bytes` apart along k.
struct NarrowHalves {
  const char* from[2];

  SIMT_FN NarrowHalves(const GemmArgs& a, int tile, int half_bytes) {
    const bool gated = a.up != nullptr;
    const int pieces_k = a.k / 64, last = (a.to.features + 15) / 16 * 2 - 1;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      // A tile beyond the features reads those of the last one, and its results are zeros.
      int eighth = gated ? tile : 2 * tile + half;
      eighth = eighth < last ? eighth : last;
      const int64_t piece = static_cast<int64_t>(eighth / 2) * pieces_k;
      from[half] = reinterpret_cast<const char*>(gated && half == 1 ? a.up : a.w) +
                   (2 * piece + eighth % 2) * half_bytes;
    }
  }
};

// Operands in pieces, through a ring in shared memory.
template <bool kIsHalf>
class PieceWeights {
 public:
  static constexpr bool kHalf = kIsHalf;
  static constexpr int kStageBytes = 2048;
  static constexpr int kRingBytes = kNarrowStages * kStageBytes;  // of a warp

  SIMT_FN PieceWeights(const GemmArgs& a, int tile, char* ring) : ring_(ring) {
    const NarrowHalves halves(a, tile, kStageBytes / 2);
    const int lane = simt::Lane();
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      from_[half] = halves.from[half] + kChunkBytes * simt::WarpIndex() + 16 * lane;
    }
    const int feature = lane % 16;
    SIMT_UNROLL
    for (int step = 0; step < 4; ++step) {
      places_[step] = feature * 128 + 16 * ((2 * step + lane / 16) ^ feature % 8);
    }
  }
  // Stage `stage` of the chunk that is multiplied, or of the warp's next one.
  template <bool kNext>
  SIMT_FN void Load(int stage) {
    constexpr int kAhead = kNext ? kNarrowWarps * kChunkBytes : 0;
    char* const to = ring_ + stage * kStageBytes + 16 * simt::Lane();
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      simt::CopyAsync16(to + 512 * i, from_[i / 2] + kAhead + stage * kStageBytes + i % 2 * 512,
                        true);
    }
  }
  SIMT_FN void Advance() {
    from_[0] += kNarrowWarps * kChunkBytes;
    from_[1] += kNarrowWarps * kChunkBytes;
  }
  // As tensor cores take 16 features by 16 of k.
  SIMT_FN void Fragments(int stage, int step, uint32_t (&w)[4]) const {
    simt::LoadMatrix4(w, ring_ + stage * kStageBytes + places_[step]);
  }

 private:
  static constexpr int kChunkBytes = kNarrowStages * kStageBytes;

  char* const ring_;
  const char* from_[2];
  int places_[4];
};

// Codes, which become operands in registers.
template <typename Form>
class BlockWeights {
 public:
  static constexpr bool kHalf = true;
  static constexpr int kRingBytes = 0;

  SIMT_FN BlockWeights(const GemmArgs& a, int tile, char*) {
    const NarrowHalves halves(a, tile, Form::kHalfPieceBytes);
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      from_[half] = halves.from[half] + kChunkBytes * simt::WarpIndex();
    }
  }
  template <bool kNext>
  SIMT_FN void Load(int stage) {
    constexpr int kAhead = kNext ? kNarrowWarps * kChunkBytes : 0;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const char* const at = from_[half] + kAhead + stage * 2 * Form::kHalfPieceBytes;
      codes_[stage][half] = Form::ReadCodes(at, simt::Lane());
      scales_[stage][half] = Form::ReadScales(at + Form::kCodeBytes, simt::Lane() / 4);
    }
  }
  SIMT_FN void Advance() {
    from_[0] += kNarrowWarps * kChunkBytes;
    from_[1] += kNarrowWarps * kChunkBytes;
  }
  SIMT_FN void Fragments(int stage, int step, uint32_t (&w)[4]) const {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto pair = Form::PairOf(scales_[stage][half], step * 16 / Form::kBlock);
      const uint32_t word = codes_[stage][half].w[step / Form::kStepsOfWord];
      SIMT_UNROLL
      for (int second = 0; second < 2; ++second) {
        w[2 * second + half] = Form::Weights(Form::CodesOf(word, step, second), pair);
      }
    }
  }

 private:
  static constexpr int kChunkBytes = kNarrowStages * 2 * Form::kHalfPieceBytes;

  const char* from_[2];
  typename Form::Codes codes_[kNarrowStages][2];
  typename Form::ScaleWords scales_[kNarrowStages][2];
};

}  // namespace penstock::cuda
