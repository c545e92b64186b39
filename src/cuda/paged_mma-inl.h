// Attention of programs with a cache by tensor cores: for caches in f16 and bf16, whose keys and
// values lie as fragments (LayerCache), and heads of a multiple of 16.
//
// A block takes rows of one sequence and a kv head; lines are its rows and query heads, columns of
// two tiles of 8. Warp i of four has the keys 64 i to 64 i + 63 of each chunk of 256: scores are
// keys q^T, weights are transposed in registers, and values^T weights are the sums. What a warp finds
// in a chunk is joined with what it found before (AttendedKeys::Join); at the end the four are, in
// order. So a line's bits depend on its sequence alone, whether one block walks over the chunks or
// each chunk has a block (PagedJoin).
#pragma once

#include "cuda/paged_attention-inl.h"

namespace penstock::cuda {

template <typename Type, int kDepth>
struct PagedMma {
  static constexpr int kThreads = 128, kWarps = 4;
  static constexpr int kTiles = kDepth > 128 ? 1 : 2;  // of 8 lines
  static constexpr int kLines = 8 * kTiles;
  static constexpr int kDims = kDepth / 16;
  static constexpr int kStride = kDepth + 8;  // operands between lines of q: they share no banks
  static constexpr int kUnitKeys = kChunkKeys / kWarps;
  static constexpr int kKeyTiles = kUnitKeys / 16;
  static constexpr int kLineFloats = kDepth + 2;
  static constexpr int kSharedBytes = kWarps * kLines * kLineFloats * 4;
  static_assert(kSharedBytes >= kLines * kStride * 2);

  // What a lane has of its warp's keys: of lines 2 (lane % 4) and the next of each tile the largest
  // score, the sum of weights, and of rows lane / 4 and 8 more of each 16 columns the values' sum.
  struct State {
    float most[kTiles][2], sum[kTiles][2];
    float out[kDims][kTiles][4];
  };
  // Keys that those lines see; none beyond the last line.
  struct Seen {
    int begin[kTiles][2], end[kTiles][2];
  };
  // The keys of a warp in a chunk.
  struct Unit {
    const uint16_t* keys[2];  // of both blocks of the cache; null: no line sees it
    const uint16_t* values[2];
    int first;
  };

  static SIMT_FN float None() { return simt::FloatOf(0xFF800000); }
  static SIMT_FN void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (Type::kHalf) {
      simt::MmaHalf(d, a, b0, b1);
    } else {
      simt::Mma(d, a, b0, b1);
    }
  }
  // A tile's fragment.
  static SIMT_FN void Load(uint32_t (&a)[4], const uint16_t* tiles, int tile) {
    const simt::Words words = simt::Load16(tiles + tile * 256 + simt::Lane() * 8);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = words.w[i];
  }

  // LoadQueries of the one row of a sequence, whose queries are normed and rotated on the way; a warp
  // appends its key and value.
  static SIMT_FN void MakeQueries(const PagedArgs& a, const PagedTile& tile, int base, int group) {
    auto* const q = simt::Shared<uint16_t>();
    const int size = a.heads.cache.head_size, warp = simt::WarpIndex();
    if (base == 0 && warp == kWarps - 1 && Appends(a, tile)) {
      AppendHead<Type>(a.heads, tile.row, simt::BlockY());
    }
    for (int number = warp; number < kLines; number += kWarps) {
      uint16_t* const to = q + number * kStride;
      const int line = base + number;
      int end = 0;
      if (line < group) {
        end = size;
        const KvHead head = KvHead::OfQuery(a.heads, tile.row, simt::BlockY() * group + line);
        for (int i = simt::Lane(); i < size; i += 32) {
          to[i] = Operand16(head.Value(a.heads, i), Type::kHalf);
        }
      }
      for (int i = end + simt::Lane(); i < kDepth; i += 32) to[i] = 0;
    }
  }

  // Operands of q: lines from `base` on, zeros beyond the last one and behind the head.
  static SIMT_FN void LoadQueries(const PagedArgs& a, const PagedTile& tile, int base, int group) {
    auto* const q = simt::Shared<uint16_t>();
    const int size = a.heads.cache.head_size;
    for (int i = simt::ThreadX(); i < kLines * kDepth / 2; i += kThreads) {
      const int number = i / (kDepth / 2), column = i % (kDepth / 2) * 2, line = base + number;
      uint32_t two = 0;
      if (line < tile.count * group && column < size) {
        const int64_t row = tile.row + line / group;
        const int head = simt::BlockY() * group + line % group;
        const float* const from = a.heads.rotated + (row * a.shape.heads + head) * size + column;
        two = PackOperands(from[0], from[1], Type::kHalf);
      }
      *reinterpret_cast<uint32_t*>(q + number * kStride + column) = two;
    }
  }

  // Scores of the unit's keys, none of those that a line does not see.
  static SIMT_FN void Score(const PagedArgs& a, const Unit& unit, const Seen& seen,
                            float (&scores)[kKeyTiles][kTiles][4]) {
    const int lane = simt::Lane(), dims = a.heads.cache.head_size / 16;
    const uint16_t* const q = simt::Shared<uint16_t>();
    for (int dim = 0; dim < dims; ++dim) {
      uint32_t queries[kTiles][2];
      SIMT_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        const uint16_t* const at = q + (8 * n + lane / 4) * kStride + 16 * dim + 2 * (lane % 4);
        queries[n][0] = *reinterpret_cast<const uint32_t*>(at);
        queries[n][1] = *reinterpret_cast<const uint32_t*>(at + 8);
      }
      SIMT_UNROLL
      for (int m = 0; m < kKeyTiles; ++m) {
        if (unit.keys[m / 2] == nullptr) continue;
        uint32_t keys[4];
        Load(keys, unit.keys[m / 2], m % 2 * dims + dim);
        SIMT_UNROLL
        for (int n = 0; n < kTiles; ++n) {
          Multiply(scores[m][n], keys, queries[n][0], queries[n][1]);
        }
      }
    }
    SIMT_UNROLL
    for (int m = 0; m < kKeyTiles; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int key = unit.first + 16 * m + lane / 4 + i / 2 * 8;
          float score = scores[m][n][i] * a.scale;
          if (a.soft_cap != 0) score = a.soft_cap * simt::Tanh(simt::Divide(score, a.soft_cap));
          const bool is = key >= seen.begin[n][i % 2] && key < seen.end[n][i % 2];
          scores[m][n][i] = is ? score * kLog2OfE : None();
        }
      }
    }
  }

  // Scores become weights, as the second factor; returns what the unit's largest score and sum are.
  static SIMT_FN void Weigh(float (&scores)[kKeyTiles][kTiles][4], float (&most)[kTiles][2],
                            float (&sum)[kTiles][2], uint32_t (&weights)[kKeyTiles][kTiles][2]) {
    SIMT_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        float largest = None();
        SIMT_UNROLL
        for (int m = 0; m < kKeyTiles; ++m) {
          largest = simt::Max(largest, simt::Max(scores[m][n][j], scores[m][n][j + 2]));
        }
        SIMT_UNROLL
        for (int mask = 4; mask < 32; mask *= 2) {
          largest = simt::Max(largest, simt::ShuffleXor(largest, mask));
        }
        float all = 0;
        SIMT_UNROLL
        for (int m = 0; m < kKeyTiles; ++m) {
          SIMT_UNROLL
          for (int i = j; i < 4; i += 2) {
            float& score = scores[m][n][i];
            score = score == None() ? 0.0F : SoftmaxExp2(score - largest);
            all += score;
          }
        }
        SIMT_UNROLL
        for (int mask = 4; mask < 32; mask *= 2) all += simt::ShuffleXor(all, mask);
        most[n][j] = largest;
        sum[n][j] = all;
      }
      SIMT_UNROLL
      for (int m = 0; m < kKeyTiles; ++m) {
        const float(&of)[4] = scores[m][n];
        weights[m][n][0] = simt::Transpose(PackOperands(of[0], of[1], Type::kHalf));
        weights[m][n][1] = simt::Transpose(PackOperands(of[2], of[3], Type::kHalf));
      }
    }
  }

  // Zeros the values of slots that no token has: they may hold anything.
  static SIMT_FN void CutValues(uint32_t (&values)[4], int first, int length) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = first + 2 * (simt::Lane() % 4) + i / 2 * 8;
      if (key >= length) values[i] = 0;
      if (key + 1 >= length) values[i] &= 0xFFFF;
    }
  }

  // Joins the unit with the state.
  static SIMT_FN void Attend(const PagedArgs& a, const Unit& unit, const Seen& seen, int length,
                             State* state) {
    float scores[kKeyTiles][kTiles][4] = {};
    Score(a, unit, seen, scores);
    float most[kTiles][2], sum[kTiles][2], old[kTiles][2], fresh[kTiles][2];
    uint32_t weights[kKeyTiles][kTiles][2];
    Weigh(scores, most, sum, weights);
    SIMT_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float before = state->most[n][j], next = most[n][j];
        const float largest = next > before ? next : before;
        old[n][j] = largest == before ? 1.0F : SoftmaxExp2(before - largest);
        fresh[n][j] = largest == next ? 1.0F : SoftmaxExp2(next - largest);
        if (next == None()) continue;
        state->most[n][j] = largest;
        state->sum[n][j] = simt::Fma(state->sum[n][j], old[n][j], sum[n][j] * fresh[n][j]);
      }
    }
    SIMT_UNROLL
    for (int dim = 0; dim < kDims; ++dim) {
      if (16 * dim >= a.heads.cache.head_size) continue;
      float found[kTiles][4] = {};
      SIMT_UNROLL
      for (int m = 0; m < kKeyTiles; ++m) {
        if (unit.values[m / 2] == nullptr) continue;
        uint32_t values[4];
        Load(values, unit.values[m / 2], dim * 2 + m % 2);
        const int first = unit.first + 16 * m;
        if (first + 16 > length) CutValues(values, first, length);
        SIMT_UNROLL
        for (int n = 0; n < kTiles; ++n) {
          Multiply(found[n], values, weights[m][n][0], weights[m][n][1]);
        }
      }
      SIMT_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float joined =
              simt::Fma(state->out[dim][n][i], old[n][i % 2], found[n][i] * fresh[n][i % 2]);
          if (most[n][i % 2] != None()) state->out[dim][n][i] = joined;
        }
      }
    }
  }

  // The state of the lines, each line's in the memory that to(line) gives; null: it is not wanted.
  template <typename To>
  static SIMT_FN void Put(const State& state, int size, To&& to) {
    const int lane = simt::Lane();
    SIMT_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        float* const at = to(8 * n + 2 * (lane % 4) + j);
        if (at == nullptr) continue;
        if (lane / 4 == 0) {
          at[0] = state.most[n][j];
          at[1] = state.sum[n][j];
        }
        SIMT_UNROLL
        for (int dim = 0; dim < kDims; ++dim) {
          const int column = 16 * dim + lane / 4;
          if (column >= size) continue;
          at[2 + column] = state.out[dim][n][j];
          at[2 + column + 8] = state.out[dim][n][j + 2];
        }
      }
    }
  }

  // The four warps' states become results.
  static SIMT_FN void Finish(const PagedArgs& a, const PagedTile& tile, int base, int group) {
    const float* const states = simt::Shared<float>();
    const int size = a.heads.cache.head_size;
    for (int i = simt::ThreadX(); i < kLines * size; i += kThreads) {
      const int number = i / size, column = i % size, line = base + number;
      if (line >= tile.count * group) continue;
      float most = None(), sum = 0, out = 0;
      for (int warp = 0; warp < kWarps; ++warp) {
        const float* const from = states + (warp * kLines + number) * kLineFloats;
        if (from[0] == None()) continue;
        const float largest = from[0] > most ? from[0] : most;
        const float old = largest == most ? 1.0F : SoftmaxExp2(most - largest);
        const float fresh = largest == from[0] ? 1.0F : SoftmaxExp2(from[0] - largest);
        most = largest;
        sum = simt::Fma(sum, old, from[1] * fresh);
        out = simt::Fma(out, old, from[2 + column] * fresh);
      }
      const int64_t row = tile.row + line / group;
      const int head = simt::BlockY() * group + line % group;
      a.y[(row * a.shape.heads + head) * size + column] = simt::Divide(out, sum);
    }
  }

  // The lines from `base` on.
  static SIMT_FN void RunLines(const PagedArgs& a, const PagedTile& tile, int base, int group) {
    const int warp = simt::WarpIndex(), lane = simt::Lane(), size = a.heads.cache.head_size;
    if (a.appends) {
      MakeQueries(a, tile, base, group);
    } else {
      LoadQueries(a, tile, base, group);
    }
    simt::Sync();
    Seen seen = {};
    SIMT_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int line = base + 8 * (i / 2) + 2 * (lane % 4) + i % 2;
      if (line >= tile.count * group) continue;
      const SeenKeys of_row = SeenKeysOf(a.shape, tile.row + line / group);
      seen.begin[i / 2][i % 2] = of_row.begin;
      seen.end[i / 2][i % 2] = of_row.end;
    }
    // Later rows see later keys.
    const int begin = SeenKeysOf(a.shape, tile.row).begin;
    const int end = SeenKeysOf(a.shape, tile.row + tile.count - 1).end;
    const int length = a.shape.lengths[tile.sequence];
    State state = {};
    SIMT_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) state.most[i / 2][i % 2] = None();
    const int last = tile.chunk >= 0 ? tile.chunk + 1 : (end + kChunkKeys - 1) / kChunkKeys;
    for (int chunk = tile.chunk >= 0 ? tile.chunk : begin / kChunkKeys; chunk < last; ++chunk) {
      Unit unit = {};
      unit.first = chunk * kChunkKeys + warp * kUnitKeys;
      bool any = false;
      SIMT_UNROLL
      for (int block = 0; block < 2; ++block) {
        const int first = unit.first + block * kCacheTokens;
        if (first >= end || first + kCacheTokens <= begin) continue;
        unit.keys[block] = KeysOf<Type>(a.heads.cache, tile.sequence, first, simt::BlockY());
        unit.values[block] = unit.keys[block] + kCacheTokens * size;
        any = true;
      }
      if (any) Attend(a, unit, seen, length, &state);
    }
    if (tile.chunk >= 0) {
      const auto part = [&](int number) -> float* {
        const int line = base + number;
        if (line >= tile.count * group) return nullptr;
        const int row = tile.row + line / group, head = simt::BlockY() * group + line % group;
        const int64_t at = (static_cast<int64_t>(a.shape.parts[row]) + tile.chunk) * kWarps + warp;
        return a.y + (at * a.shape.heads + head) * (size + 2);
      };
      Put(state, size, part);
      simt::Sync();  // q is read
      return;
    }
    simt::Sync();  // q is read: states lie in its place
    Put(state, size,
        [&](int number) { return simt::Shared<float>() + (warp * kLines + number) * kLineFloats; });
    simt::Sync();
    Finish(a, tile, base, group);
    simt::Sync();  // before q is written again
  }

  static SIMT_FN void Run(const PagedArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    if (simt::BlockX() >= *a.tile_count) return;
    const PagedTile tile = a.tiles[simt::BlockX()];
    const int group = a.shape.heads / a.heads.cache.kv_heads;
    for (int base = 0; base < tile.count * group; base += kLines) RunLines(a, tile, base, group);
  }
};

}  // namespace penstock::cuda
