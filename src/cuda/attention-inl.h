// Attention of encoders by tensor cores: softmax(q k^T / sqrt(d)) v, each sequence by itself.
//
// A block takes a head and 64 queries of a sequence, four warps of 16 each; keys come in tiles of 64
// by their position in the sequence, two stages in shared memory. Scores are float, probabilities
// are rounded to the operands' type before they are multiplied; a row's maximum and sum follow the
// tiles in order (online softmax, arXiv 1805.02867). So a row's bits depend on its sequence alone.
#pragma once

#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// What a relative bias adds to the score of a key.
SIMT_FN float BiasOf(const RelativeBias& bias, int head, int query, int key) {
  int apart = key - query;
  if (apart < -bias.reach) apart = -bias.reach;
  if (apart > bias.reach) apart = bias.reach;
  return bias.table[static_cast<int64_t>(head) * (2 * bias.reach + 1) + apart + bias.reach];
}

// Softmax by powers of two: scores are scaled by log2(e) together with `scale`, so that a weight is
// 2^(score - largest), and the multiplication by log2(e) in each exponential is saved.
inline constexpr float kLog2OfE = 1.44269504F;
// 2^a for a up to 0. What is smaller than 2^-126 vanishes beside the largest weight, which is 1.
SIMT_FN float SoftmaxExp2(float a) { return simt::Exp2(a < -126.0F ? -126.0F : a); }

template <int kDepth, bool kHalf, bool kBias>
struct Attention {
  static constexpr int kThreads = 128;
  static constexpr int kTile = 64;  // queries, and keys
  static constexpr int kRowBytes = 2 * kDepth;
  static constexpr int kTileBytes = kTile * kRowBytes;
  static constexpr int kSharedBytes = 5 * kTileBytes;  // queries, two stages of keys and values
  static constexpr int kSteps = kDepth / 16;

  // Where 16 bytes lie in a tile: eight rows that are read at once share no banks.
  static SIMT_FN int Place(int row, int column) {
    const int turn = kRowBytes >= 128 ? row % 8 : row / 2 % 4;
    return row * kRowBytes + 16 * (column ^ turn);
  }

  // A thread's rows are kRowsApart apart, so all of its copies have one place in the swizzle.
  static SIMT_FN void Load(const AttentionArgs& a, char* to, const AttentionTile& tile, int first,
                           int offset) {
    constexpr int kColumns = kDepth / 8, kRowsApart = kThreads / kColumns;
    static_assert(kRowsApart % 8 == 0 && kTile % kRowsApart == 0);
    const int row = simt::ThreadX() / kColumns, column = simt::ThreadX() % kColumns;
    const uint16_t* const from =
        a.qkv + static_cast<int64_t>(tile.first + first + row) * a.stride + offset + 8 * column;
    char* const place = to + Place(row, column);
    SIMT_UNROLL
    for (int i = 0; i < kTile; i += kRowsApart) {
      const bool valid = first + row + i < tile.length;
      simt::CopyAsync16(place + i * kRowBytes,
                        valid ? from + static_cast<int64_t>(i) * a.stride : a.qkv, valid);
    }
  }

  static SIMT_FN void Product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (kHalf) {
      simt::MmaHalf(d, a, b0, b1);
    } else {
      simt::Mma(d, a, b0, b1);
    }
  }
  static SIMT_FN uint32_t Pack(float low, float high) {
    return kHalf ? simt::PackHalf(low, high) : simt::PackBf16(low, high);
  }

  // The scores of a warp's 16 queries and 64 keys: [8 columns each][row g: 0, 1; row g + 8: 2, 3].
  using Scores = float[8][4];
  using Outputs = float[kDepth / 8][4];

  static SIMT_FN void Score(const uint32_t (&q)[kSteps][4], const char* keys, Scores& scores) {
    const int lane = simt::Lane();
    SIMT_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) scores[2 * pair][i] = scores[2 * pair + 1][i] = 0;
      SIMT_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        uint32_t k[4];
        simt::LoadMatrix4(
            k, keys + Place(pair * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
        Product(scores[2 * pair], q[step], k[0], k[1]);
        Product(scores[2 * pair + 1], q[step], k[2], k[3]);
      }
    }
  }

  static SIMT_FN void Weigh(const Scores& weights, const char* values, Outputs& out) {
    const int lane = simt::Lane();
    SIMT_UNROLL
    for (int step = 0; step < 4; ++step) {
      const uint32_t p[4] = {Pack(weights[2 * step][0], weights[2 * step][1]),
                             Pack(weights[2 * step][2], weights[2 * step][3]),
                             Pack(weights[2 * step + 1][0], weights[2 * step + 1][1]),
                             Pack(weights[2 * step + 1][2], weights[2 * step + 1][3])};
      SIMT_UNROLL
      for (int part = 0; part < kSteps; ++part) {
        uint32_t v[4];
        simt::LoadMatrix4Transposed(v, values + Place(step * 16 + lane % 16, 2 * part + lane / 16));
        Product(out[2 * part], p, v[0], v[1]);
        Product(out[2 * part + 1], p, v[2], v[3]);
      }
    }
  }

  static SIMT_FN void Run(const AttentionArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    if (simt::BlockY() >= *a.tile_count) return;
    const AttentionTile& at = a.tiles[simt::BlockY()];
    const AttentionTile tile = {at.first, at.length, at.query, 0, 0};
    const int head = simt::BlockX(), lane = simt::Lane(), warp = simt::WarpIndex();
    char* const queries = simt::Shared<char>();
    char* const stages = queries + kTileBytes;
    const int width = a.heads * kDepth;
    const auto load = [&](int first, int stage) {
      Load(a, stages + 2 * stage * kTileBytes, tile, first, width + head * kDepth);
      Load(a, stages + (2 * stage + 1) * kTileBytes, tile, first, 2 * width + head * kDepth);
    };
    // Keys that some query of the tile sees.
    const int reach = a.window - 1;
    const int begin = a.window > 0 && tile.query > reach ? (tile.query - reach) / kTile * kTile : 0;
    const int last = tile.query + kTile + reach;
    const int end = a.window > 0 && last < tile.length ? last : tile.length;
    Load(a, queries, tile, tile.query, head * kDepth);
    load(begin, 0);
    simt::CommitCopies();

    uint32_t q[kSteps][4];
    Outputs out = {};
    float most[2] = {simt::FloatOf(0xFF800000), simt::FloatOf(0xFF800000)};
    float sums[2] = {0, 0};
    int stage = 0;
    for (int first = begin; first < end; first += kTile, stage ^= 1) {
      if (first + kTile < end) load(first + kTile, stage ^ 1);
      simt::CommitCopies();
      simt::WaitCopies<1>();
      simt::Sync();
      if (first == begin) {
        SIMT_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          simt::LoadMatrix4(q[step], queries + Place(warp * 16 + lane % 16, 2 * step + lane / 16));
        }
      }
      Scores scores;
      Score(q, stages + 2 * stage * kTileBytes, scores);
      if (a.window > 0 || first + kTile > tile.length) {
        Soften<true>(a, tile, head, first, warp, lane, scores, most, sums, out);
      } else {
        Soften<false>(a, tile, head, first, warp, lane, scores, most, sums, out);
      }
      Weigh(scores, stages + (2 * stage + 1) * kTileBytes, out);
      simt::Sync();  // before the stage is written again
    }
    Store(a, head, warp, lane, sums, out);
  }

  // Scores become weights; what was summed before follows the new maximum. kMasked: some keys may not
  // be seen.
  template <bool kMasked>
  static SIMT_FN void Soften(const AttentionArgs& a, const AttentionTile& tile, int head, int first,
                             int warp, int lane, Scores& scores, float (&most)[2], float (&sums)[2],
                             Outputs& out) {
    const float none = simt::FloatOf(0xFF800000), scale = a.scale * kLog2OfE;
    float next[2] = {most[0], most[1]};
    SIMT_UNROLL
    for (int n = 0; n < 8; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int query = tile.query + warp * 16 + lane / 4 + i / 2 * 8;
        const int key = first + n * 8 + 2 * (lane % 4) + i % 2;
        scores[n][i] *= scale;
        if constexpr (kBias) scores[n][i] += BiasOf(a.bias, head, query, key) * kLog2OfE;
        if constexpr (kMasked) {
          const int apart = query > key ? query - key : key - query;
          const bool seen = key < tile.length && (a.window == 0 || apart < a.window);
          if (!seen) scores[n][i] = none;
        }
        next[i / 2] = simt::Max(next[i / 2], scores[n][i]);
      }
    }
    float factor[2];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int mask = 2; mask > 0; mask /= 2) {
        next[half] = simt::Max(next[half], simt::ShuffleXor(next[half], mask));
      }
      factor[half] = next[half] == most[half] ? 1.0F : SoftmaxExp2(most[half] - next[half]);
      most[half] = next[half];
    }
    float more[2] = {0, 0};
    SIMT_UNROLL
    for (int n = 0; n < 8; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float score = scores[n][i];
        const float weight = SoftmaxExp2(score - most[i / 2]);
        scores[n][i] = kMasked && score == none ? 0.0F : weight;
        more[i / 2] += scores[n][i];
      }
    }
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int mask = 2; mask > 0; mask /= 2) more[half] += simt::ShuffleXor(more[half], mask);
      sums[half] = simt::Fma(sums[half], factor[half], more[half]);
    }
    SIMT_UNROLL
    for (int n = 0; n < kDepth / 8; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
    }
  }

  // Reads where the results go only now: registers are short before.
  static SIMT_FN void Store(const AttentionArgs& a, int head, int warp, int lane,
                            const float (&sums)[2], const Outputs& out) {
    const int count = a.tiles[simt::BlockY()].count, first = a.tiles[simt::BlockY()].out;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = warp * 16 + lane / 4 + half * 8;
      if (query >= count) continue;
      auto* const row = reinterpret_cast<uint32_t*>(
          a.y + static_cast<int64_t>(first + query) * a.y_stride + head * a.head_size);
      SIMT_UNROLL
      for (int n = 0; n < kDepth / 8; ++n) {
        if (n * 8 + 2 * (lane % 4) >= a.head_size) continue;
        row[n * 4 + lane % 4] = Pack(simt::Divide(out[n][2 * half], sums[half]),
                                     simt::Divide(out[n][2 * half + 1], sums[half]));
      }
      if (head != a.heads - 1) continue;
      const int width = a.heads * a.head_size;
      for (int i = width + 2 * (lane % 4); i < a.y_stride; i += 8)
        row[(i - head * a.head_size) / 2] = 0;
    }
  }
};

}  // namespace penstock::cuda
