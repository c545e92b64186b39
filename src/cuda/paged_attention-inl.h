// Attention of programs with a cache: heads of new tokens are normed, rotated and appended to blocks
// of the cache, by a kernel before or by attention itself; then each row attends to the keys that it
// sees.
//
// Sums of a row: keys come in chunks of 256 by their position, in each of which the largest score
// and the sums follow tiles of 32 keys (online softmax, arXiv 1805.02867) from nothing; chunks are
// joined in order. One block walks over all chunks of its rows, or each chunk has a block and
// PagedJoin joins them: the bits are the same, and depend on the row's sequence alone.
#pragma once

#include "cuda/attention-inl.h"
#include "cuda/kernels.h"
#include "cuda/rows-inl.h"
#include "cuda/simt.h"

namespace penstock::cuda {

// How the cache stores a number.
struct CacheF32 {
  using Stored = float;
  static SIMT_FN float Read(float value) { return value; }
  static SIMT_FN float Write(float value) { return value; }
};
struct CacheF16 {
  using Stored = uint16_t;
  static SIMT_FN float Read(uint16_t value) { return simt::HalfToFloat(value); }
  static SIMT_FN uint16_t Write(float value) { return Operand16(value, true); }
  static constexpr bool kHalf = true;
};
struct CacheBf16 {
  using Stored = uint16_t;
  static SIMT_FN float Read(uint16_t value) {
    return simt::FloatOf(static_cast<uint32_t>(value) << 16);
  }
  static SIMT_FN uint16_t Write(float value) { return Operand16(value, false); }
  static constexpr bool kHalf = false;
};

// The keys of a kv head in the block that has the token at `position` of a sequence; values follow.
template <typename Type>
SIMT_FN typename Type::Stored* KeysOf(const LayerCache& cache, int sequence, int position,
                                      int kv_head) {
  const int block = cache.tables[cache.first[sequence] + position / kCacheTokens];
  return reinterpret_cast<typename Type::Stored*>(cache.blocks + block * cache.block_bytes) +
         static_cast<int64_t>(kv_head) * 2 * kCacheTokens * cache.head_size;
}

// Where a value lies in a tile of 16 x 16 as a fragment of the first factor (simt::Mma).
SIMT_FN int FragmentPlace(int row, int column) {
  const int lane = row % 8 * 4 + column % 8 / 2, word = row / 8 + column / 8 * 2;
  return lane * 8 + word * 2 + column % 2;
}
// Where a token's key and value lie in a block, in the slot that is its place there.
SIMT_FN int KeyPlace(const LayerCache& cache, int slot, int column) {
  if (!cache.fragments) return column * kCacheTokens + slot;
  const int tile = slot / 16 * (cache.head_size / 16) + column / 16;
  return tile * 256 + FragmentPlace(slot % 16, column % 16);
}
SIMT_FN int ValuePlace(const LayerCache& cache, int slot, int column) {
  if (!cache.fragments) return slot * cache.head_size + column;
  const int tile = column / 16 * (kCacheTokens / 16) + slot / 16;
  return tile * 256 + FragmentPlace(column % 16, slot % 16);
}

// A head's values of a row, normed and rotated. By a warp.
struct KvHead {
  const float* x;
  const float* gamma;
  const float* cos;  // of the row's position
  const float* sin;
  float factor;

  SIMT_FN KvHead(const KvHeadsArgs& a, const float* x_in, const float* gamma_in, float epsilon,
                 int row)
      : x(x_in), gamma(gamma_in), cos(nullptr), sin(nullptr), factor(1) {
    if (gamma != nullptr) {
      float squares = 0;
      for (int i = simt::Lane(); i < a.cache.head_size; i += 32) squares += x[i] * x[i];
      const float mean =
          simt::Divide(simt::WarpSum(squares), static_cast<float>(a.cache.head_size));
      factor = simt::Rsqrt(mean + epsilon);
    }
    if (a.cos == nullptr) return;
    const bool is_long = a.long_cos != nullptr && a.is_long[a.sequences[row]] != 0;
    const int64_t at = static_cast<int64_t>(a.positions[row]) * (a.rope_size / 2);
    cos = (is_long ? a.long_cos : a.cos) + at;
    sin = (is_long ? a.long_sin : a.sin) + at;
  }
  // One of a row's query heads.
  static SIMT_FN KvHead OfQuery(const KvHeadsArgs& a, int row, int head) {
    const int64_t at = (static_cast<int64_t>(row) * a.heads + head) * a.cache.head_size;
    return KvHead(a, a.q + at, a.q_gamma, a.q_epsilon, row);
  }

  SIMT_FN float Normed(int column) const {
    return gamma == nullptr ? x[column] : x[column] * factor * gamma[column];
  }
  SIMT_FN float Value(const KvHeadsArgs& a, int column) const {
    if (cos == nullptr || column >= a.rope_size) return Normed(column);
    const int half = a.rope_size / 2;
    const int pair = a.interleaved ? column / 2 : column % half;
    const bool second = a.interleaved ? column % 2 == 1 : column >= half;
    const float first_value = Normed(a.interleaved ? 2 * pair : pair);
    const float second_value = Normed(a.interleaved ? 2 * pair + 1 : pair + half);
    return second ? second_value * cos[pair] + first_value * sin[pair]
                  : first_value * cos[pair] - second_value * sin[pair];
  }
};

// Appends a row's key and value of a head to the cache. By a warp.
template <typename Type>
SIMT_FN void AppendHead(const KvHeadsArgs& a, int row, int kv_head) {
  const int position = a.positions[row], size = a.cache.head_size;
  const int64_t at = (static_cast<int64_t>(row) * a.cache.kv_heads + kv_head) * size;
  const KvHead head(a, a.k + at, a.k_gamma, a.k_epsilon, row);
  typename Type::Stored* const keys = KeysOf<Type>(a.cache, a.sequences[row], position, kv_head);
  typename Type::Stored* const values = keys + kCacheTokens * size;
  const int slot = position % kCacheTokens;
  for (int i = simt::Lane(); i < size; i += 32) {
    keys[KeyPlace(a.cache, slot, i)] = Type::Write(head.Value(a, i));
    values[ValuePlace(a.cache, slot, i)] = Type::Write(a.v[at + i]);
  }
}

// A warp a row and head: query heads, then kv heads. Grid: rows, heads.
template <typename Type>
struct RowsKvHeads : RowKernel {
  static SIMT_FN void Run(const KvHeadsArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int row = Row(), number = simt::BlockY(), size = a.cache.head_size;
    if (row >= *a.rows) return;
    if (number >= a.heads) return AppendHead<Type>(a, row, number - a.heads);
    const KvHead head = KvHead::OfQuery(a, row, number);
    float* const to = a.rotated + (static_cast<int64_t>(row) * a.heads + number) * size;
    for (int i = simt::Lane(); i < size; i += 32) to[i] = head.Value(a, i);
  }
};

// Whether a block of attention appends the newest key of its tile.
SIMT_FN bool Appends(const PagedArgs& a, const PagedTile& tile) {
  return a.appends && (tile.chunk < 0 || tile.chunk == a.heads.positions[tile.row] / kChunkKeys);
}

// The keys that a row sees.
struct SeenKeys {
  int begin, end;
};
SIMT_FN SeenKeys SeenKeysOf(const PagedShape& shape, int row) {
  const int position = shape.positions[row], after = position + 1;
  SeenKeys seen = {0, after};
  if (!shape.causal) {
    seen.end = shape.lengths[shape.sequences[row]];
    if (shape.window > 0 && seen.end > position + shape.window) seen.end = position + shape.window;
  }
  if (shape.window > 0 && after > shape.window) seen.begin = after - shape.window;
  return seen;
}

// What a lane has of a row's head: the largest score, the sum of weights, and every 32nd column of
// the values' sum.
struct AttendedKeys {
  static constexpr int kColumns = kHeadSizeMax / 32;

  float most = simt::FloatOf(0xFF800000), sum = 0;
  float out[kColumns] = {};

  SIMT_FN void Join(const AttendedKeys& next) {
    const float largest = next.most > most ? next.most : most;
    const float old = largest == most ? 1.0F : SoftmaxExp2(most - largest);
    const float fresh = largest == next.most ? 1.0F : SoftmaxExp2(next.most - largest);
    most = largest;
    sum = simt::Fma(sum, old, next.sum * fresh);
    SIMT_UNROLL
    for (int i = 0; i < kColumns; ++i) out[i] = simt::Fma(out[i], old, next.out[i] * fresh);
  }
  SIMT_FN void Store(float* y, int head_size) const {
    SIMT_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const int column = simt::Lane() + 32 * i;
      if (column < head_size) y[column] = simt::Divide(out[i], sum);
    }
  }
};

// A block a tile of rows and a kv head, a warp one row and query head after the other: a lane takes
// every 32nd key, then every 32nd column of the values. Grid: tiles, kv heads.
template <typename Type>
struct PagedAttention {
  using Stored = typename Type::Stored;
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kWarpFloats = kHeadSizeMax + 32;
  static constexpr int kSharedBytes = kWarps * kWarpFloats * 4;

  // The keys [begin, end) of one chunk, from nothing. `q` and `weights` are the warp's memory.
  static SIMT_FN AttendedKeys Attend(const PagedArgs& a, int sequence, const float* q,
                                     float* weights, int begin, int end) {
    const int lane = simt::Lane(), size = a.heads.cache.head_size;
    const float none = simt::FloatOf(0xFF800000);
    AttendedKeys all;
    for (int first = begin / kCacheTokens * kCacheTokens; first < end; first += kCacheTokens) {
      const Stored* const keys = KeysOf<Type>(a.heads.cache, sequence, first, simt::BlockY());
      const Stored* const values = keys + kCacheTokens * size;
      const int key = first + lane;
      const bool seen = key >= begin && key < end;
      float score = none;
      if (seen) {
        float dot = 0;
        for (int i = 0; i < size; ++i) {
          dot = simt::Fma(q[i], Type::Read(keys[i * kCacheTokens + lane]), dot);
        }
        score = dot * a.scale;
        if (a.soft_cap != 0) score = a.soft_cap * simt::Tanh(simt::Divide(score, a.soft_cap));
        score *= kLog2OfE;
      }
      const float tile_most = simt::WarpMax(score);
      const float next = all.most > tile_most ? all.most : tile_most;
      const float factor = next == all.most ? 1.0F : SoftmaxExp2(all.most - next);
      all.most = next;
      const float weight = seen ? SoftmaxExp2(score - next) : 0.0F;
      weights[lane] = weight;
      all.sum = simt::Fma(all.sum, factor, simt::WarpSum(weight));
      simt::SyncWarp();
      // Slots that are not seen may hold anything.
      const int low = begin > first ? begin - first : 0;
      const int high = end - first < kCacheTokens ? end - first : kCacheTokens;
      SIMT_UNROLL
      for (int column = 0; column < AttendedKeys::kColumns; ++column) {
        const int i = lane + 32 * column;
        if (i >= size) continue;
        float value = all.out[column] * factor;
        for (int j = low; j < high; ++j) {
          value = simt::Fma(weights[j], Type::Read(values[j * size + i]), value);
        }
        all.out[column] = value;
      }
      simt::SyncWarp();  // before the weights are written again
    }
    return all;
  }

  static SIMT_FN void Run(const PagedArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    if (simt::BlockX() >= *a.tile_count) return;
    const PagedTile tile = a.tiles[simt::BlockX()];
    const int group = a.shape.heads / a.heads.cache.kv_heads, size = a.heads.cache.head_size;
    float* const q = simt::Shared<float>() + simt::WarpIndex() * kWarpFloats;
    float* const weights = q + kHeadSizeMax;
    if (Appends(a, tile)) {
      if (simt::WarpIndex() == 0) AppendHead<Type>(a.heads, tile.row, simt::BlockY());
      simt::Sync();
    }
    for (int line = simt::WarpIndex(); line < tile.count * group; line += kWarps) {
      const int row = tile.row + line / group, head = simt::BlockY() * group + line % group;
      const int64_t at = (static_cast<int64_t>(row) * a.shape.heads + head) * size;
      if (a.appends) {
        const KvHead query = KvHead::OfQuery(a.heads, row, head);
        for (int i = simt::Lane(); i < size; i += 32) q[i] = query.Value(a.heads, i);
      } else {
        for (int i = simt::Lane(); i < size; i += 32) q[i] = a.heads.rotated[at + i];
      }
      simt::SyncWarp();
      const SeenKeys seen = SeenKeysOf(a.shape, row);
      // The part of a chunk that is seen.
      const auto attend = [&](int chunk) {
        const int first = chunk * kChunkKeys, end = first + kChunkKeys;
        return Attend(a, tile.sequence, q, weights, seen.begin > first ? seen.begin : first,
                      seen.end < end ? seen.end : end);
      };
      if (tile.chunk >= 0) {
        const int first = tile.chunk * kChunkKeys;
        if (first < seen.end && first + kChunkKeys > seen.begin) {
          const AttendedKeys one = attend(tile.chunk);
          const int64_t part = a.shape.parts[row] + tile.chunk;
          float* const to = a.y + (part * a.shape.heads + head) * (size + 2);
          if (simt::Lane() == 0) {
            to[0] = one.most;
            to[1] = one.sum;
          }
          SIMT_UNROLL
          for (int i = 0; i < AttendedKeys::kColumns; ++i) {
            const int column = simt::Lane() + 32 * i;
            if (column < size) to[2 + column] = one.out[i];
          }
        }
      } else {
        AttendedKeys all;
        for (int chunk = seen.begin / kChunkKeys; chunk * kChunkKeys < seen.end; ++chunk) {
          all.Join(attend(chunk));
        }
        all.Store(a.y + at, size);
      }
      simt::SyncWarp();  // before q is written again
    }
  }
};

// A warp a row and head. Grid: rows, heads.
struct PagedJoin : RowKernel {
  static SIMT_FN void Run(const PagedJoinArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int row = Row(), head = simt::BlockY(), size = a.shape.head_size;
    if (row >= *a.rows) return;
    const SeenKeys seen = SeenKeysOf(a.shape, row);
    AttendedKeys all;
    const int unit_keys = kChunkKeys / a.units;
    for (int unit = 0; unit < a.units; ++unit) {
      const AttendedKeys one = JoinUnit(a, row, head, seen, unit, unit_keys);
      if (one.most != simt::FloatOf(0xFF800000)) all.Join(one);
    }
    all.Store(a.y + (static_cast<int64_t>(row) * a.shape.heads + head) * size, size);
  }

  // The keys of one place in all chunks.
  static SIMT_FN AttendedKeys JoinUnit(const PagedJoinArgs& a, int row, int head,
                                       const SeenKeys& seen, int unit, int unit_keys) {
    AttendedKeys all;
    const int size = a.shape.head_size;
    for (int chunk = seen.begin / kChunkKeys; chunk * kChunkKeys < seen.end; ++chunk) {
      const int first = chunk * kChunkKeys + unit * unit_keys;
      if (first >= seen.end || first + unit_keys <= seen.begin) continue;
      const int64_t part = (a.shape.parts[row] + chunk) * static_cast<int64_t>(a.units) + unit;
      const float* const from = a.parts + (part * a.shape.heads + head) * (size + 2);
      AttendedKeys one;
      one.most = from[0];
      one.sum = from[1];
      SIMT_UNROLL
      for (int i = 0; i < AttendedKeys::kColumns; ++i) {
        const int column = simt::Lane() + 32 * i;
        if (column < size) one.out[i] = from[2 + column];
      }
      all.Join(one);
    }
    return all;
  }
};

}  // namespace penstock::cuda
