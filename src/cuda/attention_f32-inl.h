// Attention of encoders in f32, for comparison with other processors and for heads that tensor cores
// do not take. A warp a query: a lane takes every 32nd key, then every 32nd column of the values. A
// row's maximum and sum follow the keys in tiles of 32 (online softmax, arXiv 1805.02867).
#pragma once

#include "cuda/attention-inl.h"
#include "cuda/epilogue-inl.h"
#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

struct AttentionF32 {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kColumns = kHeadSizeMax / 32;  // of a lane
  static constexpr int kWarpFloats = kHeadSizeMax + 32;
  static constexpr int kSharedBytes = kWarps * kWarpFloats * 4;

  static SIMT_FN void Run(const AttentionF32Args& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    if (simt::BlockY() >= *a.tile_count) return;
    const AttentionTile tile = a.tiles[simt::BlockY()];
    for (int i = simt::WarpIndex(); i < tile.count; i += kWarps) Query(a, tile, i);
  }

  static SIMT_FN void Query(const AttentionF32Args& a, const AttentionTile& tile, int number) {
    const int head = simt::BlockX(), lane = simt::Lane(), query = tile.query + number;
    const int width = a.heads * a.head_size;
    // Columns of a token's row.
    const auto at = [&](int token, int part) {
      return a.qkv + static_cast<int64_t>(tile.first + token) * 3 * width + part * width +
             head * a.head_size;
    };
    float* const q = simt::Shared<float>() + simt::WarpIndex() * kWarpFloats;
    float* const weights = q + kHeadSizeMax;
    for (int i = lane; i < a.head_size; i += 32) q[i] = at(query, 0)[i];
    simt::SyncWarp();
    int begin = 0, end = tile.length;
    if (a.window > 0) {
      if (query >= a.window) begin = (query - a.window + 1) / 32 * 32;
      if (query + a.window < end) end = query + a.window;
    }
    const float none = simt::FloatOf(0xFF800000);
    float most = none, sum = 0, out[kColumns] = {};
    for (int first = begin; first < end; first += 32) {
      const int key = first + lane, apart = query > key ? query - key : key - query;
      float score = none;
      if (key < tile.length && (a.window == 0 || apart < a.window)) {
        const float* const k = at(key, 1);
        float dot = 0;
        for (int i = 0; i < a.head_size; ++i) dot = simt::Fma(q[i], k[i], dot);
        score = dot * (a.scale * kLog2OfE);
        if (a.bias.table != nullptr) score += BiasOf(a.bias, head, query, key) * kLog2OfE;
      }
      const float tile_most = simt::WarpMax(score);
      const float next = most > tile_most ? most : tile_most;
      const float factor = next == most ? 1.0F : SoftmaxExp2(most - next);
      most = next;
      const float weight = score == none ? 0.0F : SoftmaxExp2(score - most);
      weights[lane] = weight;
      sum = simt::Fma(sum, factor, simt::WarpSum(weight));
      simt::SyncWarp();
      const int count = end - first < 32 ? end - first : 32;
      SIMT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        const int i = lane + 32 * column;
        if (i >= a.head_size) continue;
        float value = out[column] * factor;
        for (int j = 0; j < count; ++j) {
          value = simt::Fma(weights[j], at(first + j, 2)[i], value);
        }
        out[column] = value;
      }
      simt::SyncWarp();  // before the weights are written again
    }
    SIMT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      const int i = lane + 32 * column;
      if (i >= a.head_size) continue;
      const float value = simt::Divide(out[column], sum);
      const int64_t row = tile.out + number;
      if (a.y != nullptr) a.y[row * width + head * a.head_size + i] = value;
      if (a.y16 != nullptr) {
        a.y16[row * a.stride16 + head * a.head_size + i] =
            static_cast<uint16_t>(PackOperands(value, 0, a.half));
      }
    }
    if (a.y16 == nullptr || head != a.heads - 1) return;
    for (int i = width + lane; i < a.stride16; i += 32) {
      a.y16[static_cast<int64_t>(tile.out + number) * a.stride16 + i] = 0;
    }
  }
};

}  // namespace penstock::cuda
