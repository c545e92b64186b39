// Attention of a few query lines over one chunk of cached keys (see kv_layout.h). Included inside
// namespace penstock::cpu::<isa>, after kv_types-inl.h and attention-inl.h.
//
// A tile of lines goes over the chunk twice: scores of all its blocks, then, after the softmax, the
// sums of values. Blocks are taken whole; keys that a line does not see have the weight 0, so that
// neither the tile nor later keys change a line's sums. A score is one chain of additions over the
// head, a sum of values one chain over the keys, whatever the shape of the tile.
//
//   queries [kTileRows][head_size lanes]   scaled, bf16 with a bf16 cache, else f32
//   scores  [kTileRows][kKvChunk]          f32
//   weights [kTileRows][kKvChunk lanes]    bf16 with a bf16 cache; else in the scores' place

constexpr size_t kChunkBlocks = kKvChunk / kKvBlock;
static_assert(kKvBlock % kPanel == 0);
// How far ahead halves of blocks (keys, or values) are fetched where the next task is not known.
constexpr size_t kFetchHalves = 4;

struct AttendSizes {
  AttendSizes(numbers::DType type, size_t head_size) {
    const bool bf16 = type == numbers::DType::kBf16;
    query_stride = OddLines(bf16 ? head_size / 2 : head_size);
    score_stride = OddLines(kKvChunk);
    weight_stride = bf16 ? OddLines(kKvChunk / 2) : score_stride;
    queries = kTileRows * query_stride;
    scores = kTileRows * score_stride;
    weights = bf16 ? kTileRows * weight_stride : 0;
  }
  size_t total() const { return queries + scores + weights; }

  size_t query_stride, score_stride, weight_stride;
  size_t queries, scores, weights;
};

size_t AttendScratchFloats(numbers::DType type, size_t head_size) {
  return AttendSizes(type, head_size).total();
}

// Vectors of values that a tile of `rows` lines takes at once: as many sums as a GEMM tile has.
constexpr int ValueVecs(int rows) {
  const int sums = kTileRows * kTileVecs;
  return rows * 8 <= sums ? 8 : (rows * 4 <= sums ? 4 : kTileVecs);
}

// sums += the lines' values at x times kVecs vectors of lanes.
template <typename Kv, int kRows, int kVecs, int kPhase>
[[gnu::always_inline]] inline void AddLanes(Vec (&sums)[kRows][kVecs], const Word* x,
                                            size_t x_stride, const uint8_t* lanes) {
  decltype(Kv::template Lanes<kPhase>(lanes)) panel[kVecs];
#pragma GCC unroll 8
  for (int c = 0; c < kVecs; ++c) {
    panel[c] = Kv::template Lanes<kPhase>(lanes + c * kLanes * kLaneBytes<Kv>);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const auto row = Kv::template Line<kPhase>(x + r * x_stride);
#pragma GCC unroll 8
    for (int c = 0; c < kVecs; ++c) sums[r][c] = Kv::Add(sums[r][c], row, panel[c]);
  }
}

// What a tile works on.
struct Tile {
  const Word* queries;
  float* scores;
  void* weights;
  size_t query_steps;  // lanes of a head
  size_t value_row;    // bytes of a row of values
  float* parts;
  size_t part_stride;
  size_t key_scales, value_scales;  // bytes from a block's beginning
  size_t count;                     // blocks
  // Block i's keys, then block i - count's values: where they lie, and how far from there what is
  // fetched meanwhile.
  const uint8_t* order[2 * kChunkBlocks];
  ptrdiff_t ahead[2 * kChunkBlocks];
};

// Fetches kVecs vectors of lanes into L2.
template <typename Kv, int kVecs>
[[gnu::always_inline]] inline void FetchLanes(const uint8_t* lanes) {
  constexpr size_t kBytes = kVecs * kLanes * kLaneBytes<Kv>;
#pragma GCC unroll 8
  for (size_t b = 0; b < kBytes; b += 64) __builtin_prefetch(lanes + b, 0, 2);
}

// Blocks whose keys a tile of `rows` lines takes side by side: with few lines one block's chains of
// additions would wait for themselves.
constexpr int ScoreBlocks(int rows) {
  const int sums = kTileRows * kTileVecs;
  const int block = rows * kTileVecs;
  return block * 2 <= sums ? 2 : 1;
}

// Scores of the keys of kBlocks blocks, b and following.
template <typename Kv, int kRows, int kBlocks>
inline void ScoreTile(const Tile& tile, const AttendSizes& sizes, size_t b) {
  for (size_t j = 0; j < kKvBlock; j += kPanel) {
    Vec sums[kBlocks][kRows][kTileVecs];
    const uint8_t* lanes[kBlocks];
#pragma GCC unroll 4
    for (int n = 0; n < kBlocks; ++n) {
      lanes[n] = tile.order[b + n] + j * kLaneBytes<Kv>;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int c = 0; c < kTileVecs; ++c) sums[n][r][c] = Simd::Zero();
      }
    }
    for (size_t k = 0; k < tile.query_steps; ++k) {
      const Word* x = tile.queries + k;
#pragma GCC unroll 4
      for (int n = 0; n < kBlocks; ++n) {
        FetchLanes<Kv, kTileVecs>(lanes[n] + tile.ahead[b + n]);
        AddLanes<Kv, kRows, kTileVecs, 0>(sums[n], x, sizes.query_stride, lanes[n]);
        if constexpr (Kv::kPhases == 2) {
          AddLanes<Kv, kRows, kTileVecs, 1>(sums[n], x, sizes.query_stride, lanes[n]);
        }
        lanes[n] += kKvBlock * kLaneBytes<Kv>;
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < kBlocks; ++n) {
      const auto* scales = reinterpret_cast<const float*>(tile.order[b + n] + tile.key_scales) + j;
      float* scores = tile.scores + (b + n) * kKvBlock + j;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int c = 0; c < kTileVecs; ++c) {
          Vec sum = sums[n][r][c];
          if constexpr (Kv::kScaled) sum = Simd::Mul(sum, Simd::Load(scales + c * kLanes));
          Simd::Store(scores + r * sizes.score_stride + c * kLanes, sum);
        }
      }
    }
  }
}

// Scores of blocks [b, count), as many at once as remain.
template <typename Kv, int kRows, int kBlocks>
inline void ScoreColumns(const Tile& tile, const AttendSizes& sizes, size_t b) {
  for (; b + kBlocks <= tile.count; b += kBlocks) ScoreTile<Kv, kRows, kBlocks>(tile, sizes, b);
  if constexpr (kBlocks > 1) ScoreColumns<Kv, kRows, kBlocks / 2>(tile, sizes, b);
}

// Sums of the values of blocks [begin, end), kVecs vectors from column d on.
template <typename Kv, int kRows, int kVecs>
inline void ValueTile(const Tile& tile, size_t weight_stride, size_t d, size_t begin, size_t end) {
  constexpr size_t kSteps = kKvBlock / kLaneValues<Kv>;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVecs; ++c) {
      sums[r][c] = begin == 0 ? Simd::Zero()
                              : Simd::Load(tile.parts + r * tile.part_stride + d + c * kLanes);
    }
  }
  for (size_t b = begin; b < end; ++b) {
    const Word* x = static_cast<const Word*>(tile.weights) + b * kSteps;
    const uint8_t* lanes = tile.order[tile.count + b] + d * kLaneBytes<Kv>;
    const ptrdiff_t ahead = tile.ahead[tile.count + b];
    for (size_t k = 0; k < kSteps; ++k) {
      FetchLanes<Kv, kVecs>(lanes + ahead);
      AddLanes<Kv, kRows, kVecs, 0>(sums, x + k, weight_stride, lanes);
      if constexpr (Kv::kPhases == 2)
        AddLanes<Kv, kRows, kVecs, 1>(sums, x + k, weight_stride, lanes);
      lanes += tile.value_row;
    }
  }
  // Adding 0 turns -0 into 0, as the weights of unseen keys would.
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVecs; ++c) {
      Simd::Store(tile.parts + r * tile.part_stride + d + c * kLanes,
                  Simd::Add(sums[r][c], Simd::Zero()));
    }
  }
}

// All columns, as many vectors at once as remain.
template <typename Kv, int kRows, int kVecs>
inline size_t ValueColumns(const Tile& tile, size_t weight_stride, size_t d, size_t begin,
                           size_t end) {
  constexpr size_t kColumns = kVecs * kLanes;
  for (; d + kColumns <= tile.part_stride; d += kColumns) {
    ValueTile<Kv, kRows, kVecs>(tile, weight_stride, d, begin, end);
  }
  // Rows of values are whole groups of 16.
  if constexpr (kColumns > 16 && kVecs > 1) {
    d = ValueColumns<Kv, kRows, kVecs / 2>(tile, weight_stride, d, begin, end);
  }
  return d;
}

// The first `rows` lines of the tile: scores of all blocks, or sums of all values.
template <typename Kv, int kRows>
void TileScores(const Tile& tile, const AttendSizes& sizes, size_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileScores<Kv, kRows - 1>(tile, sizes, rows);
  }
  ScoreColumns<Kv, kRows, ScoreBlocks(kRows)>(tile, sizes, 0);
}

template <typename Kv, int kRows>
void TileValues(const Tile& tile, const AttendSizes& sizes, size_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileValues<Kv, kRows - 1>(tile, sizes, rows);
  }
  // Few lines are bound by memory: a block at a time, in the order it lies there. Many keep their
  // sums in registers.
  const size_t run = ValueVecs(kRows) > kTileVecs ? 1 : kChunkBlocks;
  for (size_t b = 0; b < tile.count; b += run) {
    const size_t end = b + run < tile.count ? b + run : tile.count;
    ValueColumns<Kv, kRows, ValueVecs(kRows)>(tile, sizes.weight_stride, 0, b, end);
  }
}

// v in lanes [from, to), `other` in the rest.
inline Vec KeepRange(Vec v, Vec other, size_t from, size_t to) {
  if (to < kLanes) v = Simd::KeepPart(v, other, to);
  if (from > 0) v = from < kLanes ? Simd::KeepPart(other, v, from) : other;
  return v;
}

// Runs body(i, from, to) over the vectors of [0, count); lanes [from, to) are in [lo, hi).
template <typename Body>
inline void ForSeen(size_t lo, size_t hi, Body&& body) {
  for (size_t i = lo / kLanes * kLanes; i < hi; i += kLanes) {
    body(i, lo > i ? lo - i : 0, hi - i < kLanes ? hi - i : kLanes);
  }
}

// Weights of the tile's keys for one line, which sees keys [lo, hi) of them: e^(score - max), 0 for
// the others; lo == hi: sees none.
template <typename Kv>
inline ScorePart SoftmaxLine(const Tile& tile, float soft_cap, float* scores, void* weights,
                             size_t lo, size_t hi) {
  const size_t count = tile.count * kKvBlock;
  if (lo == hi) {
    __builtin_memset(weights, 0, count * (Kv::kCoarse ? sizeof(Half) : sizeof(float)));
    return {-3.0e38f, 0};
  }
  Vec high = Simd::Set(-3.0e38f);
  ForSeen(lo, hi, [&](size_t i, size_t from, size_t to) {
    Vec s = Simd::Load(scores + i);
    if (soft_cap > 0) {
      s = Simd::Mul(Tanh(Simd::Div(s, Simd::Set(soft_cap))), Simd::Set(soft_cap));
      Simd::Store(scores + i, s);
    }
    if (to - from < kLanes) s = KeepRange(s, high, from, to);
    high = Simd::Max(high, s);
  });
  const float most = Simd::MaxOf(high);
  const Vec max = Simd::Set(most);
  Vec sum = Simd::Zero();
  const auto store = [&](size_t i, Vec e) {
    if constexpr (Kv::kCoarse) {
      Simd::StoreBf16(static_cast<Half*>(weights) + i, e, kLanes);
    } else {
      Simd::Store(static_cast<float*>(weights) + i, e);
    }
  };
  for (size_t i = 0; i < lo / kLanes * kLanes; i += kLanes) store(i, Simd::Zero());
  ForSeen(lo, hi, [&](size_t i, size_t from, size_t to) {
    Vec e = Simd::Sub(Simd::Load(scores + i), max);
    if constexpr (Kv::kCoarse) {
      e = CoarseExp2(Simd::Mul(e, Simd::Set(1.44269504f)));
    } else {
      e = Exp(e);
    }
    if (to - from < kLanes) e = KeepRange(e, Simd::Zero(), from, to);
    sum = Simd::Add(sum, e);
    if constexpr (Kv::kScaled) {
      const auto* scales =
          reinterpret_cast<const float*>(tile.order[i / kKvBlock] + tile.value_scales) +
          i % kKvBlock;
      e = Simd::Mul(e, Simd::Load(scales));
    }
    store(i, e);
  });
  for (size_t i = (hi + kLanes - 1) / kLanes * kLanes; i < count; i += kLanes) {
    store(i, Simd::Zero());
  }
  return {most, Simd::Sum(sum)};
}

// to = x * scale as the type's words.
template <typename Kv>
inline void PackLine(const float* x, size_t n, float scale, Word* to) {
  const Vec factor = Simd::Set(scale);
  ForVectors(n, [&](size_t i, size_t count) {
    const Vec v = Simd::Mul(LoadN(x + i, count), factor);
    if constexpr (Kv::kCoarse) {
      Simd::StoreBf16(reinterpret_cast<Half*>(to) + i, v, count);
    } else {
      StoreN(reinterpret_cast<float*>(to) + i, v, count);
    }
  });
}

// Positions [lo, hi) that a row at `position` sees.
struct Seen {
  Seen(const AttendTask& task, size_t row) {
    const size_t position = static_cast<size_t>(task.first_position) + row;
    const size_t window = task.window > 0 ? static_cast<size_t>(task.window) : position + 1;
    lo = position + 1 > window ? position + 1 - window : 0;
    hi = position + 1;
    if (task.length > 0) {
      const size_t length = static_cast<size_t>(task.length);
      hi = task.window > 0 && position + window < length ? position + window : length;
    }
  }
  // Those in [begin, end), counted from begin.
  void Cut(size_t begin, size_t end) {
    lo = (lo < begin ? begin : lo) - begin;
    hi = hi < begin ? 0 : (hi < end ? hi : end) - begin;
    if (lo > hi) lo = hi;
  }
  size_t lo, hi;
};

// The chunk's blocks with keys that rows [begin, end) see.
struct SeenBlocks {
  SeenBlocks(const AttendTask& task, size_t begin, size_t end) {
    const size_t chunk = task.chunk * kKvChunk;
    Seen seen(task, begin);
    seen.hi = Seen(task, end - 1).hi;
    seen.Cut(chunk, chunk + kKvChunk);
    first = (chunk + seen.lo) / kKvBlock;
    count = seen.lo == seen.hi ? 0 : (chunk + seen.hi - 1) / kKvBlock + 1 - first;
  }
  size_t first, count;
};

inline const uint8_t* BlockAt(const KvView& kv, size_t i) {
  return kv.base + static_cast<size_t>(kv.block_ids[i]) * kv.block_stride;
}

// The tile's blocks, and what is fetched during each half of one: the same half of the next task's
// blocks in the order they lie in memory; without a next task, what comes a few halves later.
inline void ListBlocks(const AttendTask& task, const KvLayout& layout, const SeenBlocks& seen,
                       const AttendTask* next, Tile* tile) {
  const size_t count = seen.count;
  tile->count = count;
  for (size_t b = 0; b < count; ++b) {
    tile->order[b] = BlockAt(task.kv, seen.first + b);
    tile->order[count + b] = tile->order[b] + layout.values;
  }
  for (size_t i = 0; i < 2 * count; ++i) {
    tile->ahead[i] =
        i + kFetchHalves < 2 * count ? tile->order[i + kFetchHalves] - tile->order[i] : 0;
  }
  if (next == nullptr) return;
  const SeenBlocks blocks(*next, 0, next->rows);
  for (size_t i = 0; i < 2 * count && i < 2 * blocks.count; ++i) {
    const uint8_t* half = BlockAt(next->kv, blocks.first + i / 2) + i % 2 * layout.values;
    tile->ahead[i] = half - tile->order[i];
  }
}

// Lines [begin, begin + lines), at most kTileRows.
template <typename Kv>
void AttendTile(const AttendTask& task, const KvLayout& layout, const AttendSizes& sizes,
                size_t begin, size_t lines) {
  const size_t size = static_cast<size_t>(task.kv.head_size);
  const SeenBlocks seen(task, begin / task.heads, (begin + lines - 1) / task.heads + 1);
  float* parts = task.parts + begin * layout.row_values;
  if (seen.count == 0) {
    for (size_t l = 0; l < lines; ++l) task.scores[begin + l] = {-3.0e38f, 0};
    __builtin_memset(parts, 0, lines * layout.row_values * sizeof(float));
    return;
  }
  Tile tile;
  const bool last = begin + lines == task.rows * task.heads;
  ListBlocks(task, layout, seen, last ? task.next : nullptr, &tile);
  Word* queries = reinterpret_cast<Word*>(task.scratch);
  tile.queries = queries;
  tile.scores = task.scratch + sizes.queries;
  tile.weights = Kv::kCoarse ? tile.scores + sizes.scores : tile.scores;
  tile.query_steps = size / layout.lane_values;
  tile.value_row = layout.row_values * layout.lane_bytes;
  tile.parts = parts;
  tile.part_stride = layout.row_values;
  tile.key_scales = layout.key_scales;
  tile.value_scales = layout.value_scales;
  for (size_t l = 0; l < lines; ++l) {
    const size_t row = (begin + l) / task.heads;
    const size_t head = (begin + l) % task.heads;
    PackLine<Kv>(task.q + row * task.q_stride + head * size, size, task.scale,
                 queries + l * sizes.query_stride);
  }
  TileScores<Kv, kTileRows>(tile, sizes, lines);
  for (size_t l = 0; l < lines; ++l) {
    Seen keys(task, (begin + l) / task.heads);
    keys.Cut(seen.first * kKvBlock, (seen.first + seen.count) * kKvBlock);
    task.scores[begin + l] = SoftmaxLine<Kv>(
        tile, task.soft_cap, tile.scores + l * sizes.score_stride,
        static_cast<float*>(tile.weights) + l * sizes.weight_stride, keys.lo, keys.hi);
  }
  TileValues<Kv, kTileRows>(tile, sizes, lines);
}

template <typename Kv>
void AttendLines(const AttendTask& task) {
  if constexpr (Base::Multiplies(Kv::kProducts)) {
    Base::Table().attend_chunk(task);
  } else {
    const size_t size = static_cast<size_t>(task.kv.head_size);
    const KvLayout layout = KvLayoutOf(Kv::kType, size);
    const AttendSizes sizes(Kv::kType, size);
    const size_t lines = task.rows * task.heads;
    const size_t tiles = (lines + kTileRows - 1) / kTileRows;
    for (size_t t = 0; t < tiles; ++t) {
      const size_t begin = lines * t / tiles;
      AttendTile<Kv>(task, layout, sizes, begin, lines * (t + 1) / tiles - begin);
    }
  }
}

void AttendChunk(const AttendTask& task) {
  switch (task.kv.type) {
    case numbers::DType::kF32:
      return AttendLines<KvF32>(task);
    case numbers::DType::kF16:
      return AttendLines<KvF16>(task);
    case numbers::DType::kI8:
      return AttendLines<KvI8>(task);
    default:
      return AttendLines<KvBf16>(task);
  }
}

// e^x, the same as in vectors.
inline float ExpOne(float x) { return Simd::MaxOf(Exp(Simd::Set(x))); }

void JoinParts(const JoinTask& task) {
  const size_t width = KvRowValues(static_cast<size_t>(task.head_size));
  for (size_t l = 0; l < task.lines; ++l) {
    ScorePart* scores = task.scores + l;
    const ScorePart chunk = task.chunk_scores[l];
    float* sums = task.sums + l * width;
    const float* parts = task.chunk_parts + l * width;
    if (chunk.sum == 0) continue;
    if (scores->sum == 0) {
      *scores = chunk;
      ForVectors(width, [&](size_t i, size_t n) { StoreN(sums + i, LoadN(parts + i, n), n); });
      continue;
    }
    const float max = scores->max > chunk.max ? scores->max : chunk.max;
    const float before = ExpOne(scores->max - max);
    const float more = ExpOne(chunk.max - max);
    const Vec a = Simd::Set(before);
    const Vec b = Simd::Set(more);
    ForVectors(width, [&](size_t i, size_t n) {
      const Vec sum = Simd::Mul(LoadN(sums + i, n), a);
      StoreN(sums + i, Simd::Fma(LoadN(parts + i, n), b, sum), n);
    });
    *scores = {max, scores->sum * before + chunk.sum * more};
  }
}

void FinishLines(const FinishTask& task) {
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t width = KvRowValues(size);
  for (size_t l = 0; l < task.rows * task.heads; ++l) {
    const Vec inverse = Simd::Set(1.0f / task.scores[l].sum);
    const float* from = task.sums + l * width;
    float* to = task.out + l / task.heads * task.out_stride + l % task.heads * size;
    ForVectors(size, [&](size_t i, size_t n) {
      StoreN(to + i, Simd::Mul(LoadN(from + i, n), inverse), n);
    });
  }
}
