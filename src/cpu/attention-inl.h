// softmax(q k^T * scale + bias) v for one head of one sequence, its two GEMMs in f32 or bf16.
// Included inside namespace penstock::cpu::<isa>, after gemm-inl.h.
//
// A tile of queries goes over the keys in blocks: the largest score and the sum so far are kept,
// and what was summed up before is scaled down when a larger score comes (online softmax: Milakov
// and Gimelshein, 2018). Blocks begin at multiples of kKeyBlock, so a query's bits do not depend on
// its tile.
//
// k^T and v are packed into panels as a weight matrix would be, so both GEMMs are GemmPanel. In
// words (of one f32 or two bf16, see kernels.h):
//
//   keys    [length / kPanel][head_size words][kPanel]
//   values  [head_size / kPanel][length words][kPanel]
//   row     [head_size]                        one key, rotated
//   queries [rows][head_size words]            rotated or rounded; f32 without rotary: not needed
//   scores  [rows][block of keys]              f32, one tile of queries at a time
//   weights [rows][block's words]              bf16: the scores after softmax; f32: the scores
//   part    [rows][head_size]                  f32: what a further block adds to the result
//
// where a tile has kGemmRows rows.

constexpr size_t kKeyBlock = 512;
static_assert(kKeyBlock % kPanel == 0);
// Keys that are packed at once: half a panel, or a whole one.
constexpr size_t kKeysAtOnce = kPanel < 16 ? kPanel : 16;
static_assert(kPanel % kKeysAtOnce == 0);

inline size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Rows an odd number of cache lines apart (see kernels.h).
inline size_t OddLines(size_t words) {
  return ((words + kLineWords - 1) / kLineWords | 1) * kLineWords;
}

// Words of k that are multiplied at once: whole steps of a tile unit, with zeros behind the last word.
template <typename Dot>
constexpr size_t kWordStep = kByTiles<Dot> ? kTileEdge : 1;

inline void ZeroWordsFrom(Word* words, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) words[i] = 0;
}

// Words of each part of the scratch, in order.
struct AttentionSizes {
  AttentionSizes(numbers::DType dtype, size_t length, size_t head_size) {
    const size_t per_word = WordValues(dtype);
    const size_t rows = dtype == numbers::DType::kF32 ? kGemmRows<DotF32> : kGemmRows<DotBf16>;
    const size_t step = dtype == numbers::DType::kF32 ? kWordStep<DotF32> : kWordStep<DotBf16>;
    key_words = RoundUp((head_size + per_word - 1) / per_word, step);
    length_words = RoundUp((length + per_word - 1) / per_word, step);
    query_stride = OddLines(head_size);  // f32 rotates into it
    const size_t block = length < kKeyBlock ? length : kKeyBlock;
    score_stride = OddLines(RoundUp(block, kPanel));
    weight_stride = dtype == numbers::DType::kF32 ? score_stride : OddLines((block + 1) / 2);
    part_stride = RoundUp(head_size, kLineWords);
    keys = RoundUp(length, kPanel) * key_words;
    values = RoundUp(head_size, kPanel) * length_words;
    row = RoundUp(head_size, kLineWords);
    queries = rows * query_stride;
    // Keys pass through it first.
    if (queries < kKeysAtOnce * key_words) queries = kKeysAtOnce * key_words;
    scores = rows * score_stride;
    weights = dtype == numbers::DType::kF32 ? 0 : rows * weight_stride;
    part = length > kKeyBlock ? rows * part_stride : 0;
  }
  size_t total() const { return keys + values + row + queries + scores + weights + part; }

  size_t key_words, length_words;
  size_t query_stride, score_stride, weight_stride, part_stride;
  size_t keys, values, row, queries, scores, weights, part;
};

size_t AttentionScratchFloats(numbers::DType dtype, size_t length, size_t head_size) {
  return AttentionSizes(dtype, length, head_size).total();
}

// to = from rotated by the tables' angles at `position`.
inline void Rotate(const AttentionTask& task, const float* from, size_t position, float* to) {
  const size_t half = static_cast<size_t>(task.rope_size) / 2;
  const float* cos = task.rope_cos + position * half;
  const float* sin = task.rope_sin + position * half;
  const size_t step = task.rope_interleaved ? 2 : 1;
  const size_t apart = task.rope_interleaved ? 1 : half;
  for (size_t i = 0; i < half; ++i) {
    const float a = from[i * step];
    const float b = from[i * step + apart];
    to[i * step] = a * cos[i] - b * sin[i];
    to[i * step + apart] = b * cos[i] + a * sin[i];
  }
  for (size_t i = 2 * half; i < static_cast<size_t>(task.head_size); ++i) to[i] = from[i];
}

// x as words of the GEMMs' type; `to` has room for them.
template <typename Dot>
inline void RoundRow(const float* x, size_t n, Word* to) {
  if constexpr (Dot::kCoarse) {
    RoundRowBf16(x, n, reinterpret_cast<uint16_t*>(to));
  } else {
    CopyRow(x, n, reinterpret_cast<float*>(to));
  }
}

// to[c][r] = from[r][c] for kKeysAtOnce rows of `words` words.
template <typename Set>
inline void TransposeKeys(const Word* from, size_t stride, size_t words, Word* to) {
  size_t first = 0;
  if constexpr (requires { &Set::Transpose; }) {
    for (; first + kKeysAtOnce <= words; first += kKeysAtOnce) {
      Set::Transpose(from + first, stride, to + first * kPanel, kPanel);
    }
  }
  for (size_t r = 0; r < kKeysAtOnce; ++r) {
    for (size_t d = first; d < words; ++d) to[d * kPanel + r] = from[r * stride + d];
  }
}

// `row` is scratch for a key's floats, `words` for those of kKeysAtOnce keys, key_words each.
template <typename Dot>
inline void PackKeys(const AttentionTask& task, size_t key_words, Word* keys, float* row,
                     Word* words) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t used = Dot::kCoarse ? (size + 1) / 2 : size;  // of key_words
  for (size_t r = 0; r < kKeysAtOnce; ++r) ZeroWordsFrom(words + r * key_words, used, key_words);
  for (size_t first = 0; first < RoundUp(length, kPanel); first += kKeysAtOnce) {
    for (size_t r = 0; r < kKeysAtOnce; ++r) {
      Word* to = words + r * key_words;
      if (first + r >= length) {
        ZeroWordsFrom(to, 0, used);
        continue;
      }
      const float* key = task.k + (first + r) * task.stride;
      if (task.rope_cos != nullptr) {
        Rotate(task, key, first + r, row);
        key = row;
      }
      RoundRow<Dot>(key, size, to);
    }
    Word* panel = keys + first / kPanel * kPanel * key_words;
    TransposeKeys<Simd>(words, key_words, key_words, panel + first % kPanel);
  }
}

template <typename Dot>
inline void PackValues(const AttentionTask& task, size_t length_words, Word* values) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  constexpr size_t kPerWord = Dot::kCoarse ? 2 : 1;
  for (size_t first = 0; first < size; first += kPanel) {
    Word* panel = values + first * length_words;
    const size_t cols = size - first < kPanel ? size - first : kPanel;
    const size_t used = (length + kPerWord - 1) / kPerWord;
    ZeroWordsFrom(panel, used * kPanel, length_words * kPanel);
    for (size_t w = 0; w < used; ++w) {
      const float* value = task.v + w * kPerWord * task.stride + first;
      float* to = reinterpret_cast<float*>(panel + w * kPanel);
      const bool pair = kPerWord == 2 && w * kPerWord + 1 < length;
      ForVectors(cols, [&](size_t i, size_t n) {
        Vec v = LoadN(value + i, n);
        if constexpr (Dot::kCoarse) {
          const Vec next = pair ? LoadN(value + task.stride + i, n) : Simd::Zero();
          v = Simd::AsFloat(Simd::PairBf16(v, next));
        }
        StoreN(to + i, v, n);
      });
      for (size_t i = cols; i < kPanel; ++i) panel[w * kPanel + i] = 0;
    }
  }
}

// One query's softmax so far: the largest scaled score and the sum of e^(score - max).
struct SoftmaxState {
  float max = -3.0e38f;
  float sum = 0;
};

// e^x; where kCoarse, 2^x, roughly.
template <bool kCoarse>
inline Vec WeightOf(Vec x) {
  if constexpr (kCoarse) {
    return RoughExp2(x);
  } else {
    return Exp(x);
  }
}

// What earlier blocks' results are multiplied by, x as of WeightOf. Not roughly: it errs once a block.
template <bool kCoarse>
inline float FactorOf(float x) {
  const Vec v = Simd::Set(x);
  return Simd::MaxOf(kCoarse ? CoarseExp2(v) : Exp(v));
}

// Keys of a block that a query sees, counted from the block's first: [lo, hi), which may be empty.
struct SeenKeys {
  size_t lo, hi;
  size_t count;  // of the block
};

// Keys [begin, end) of a block, of all that the query sees: `window` on both sides.
inline SeenKeys KeysSeen(size_t query, size_t window, size_t length, size_t begin, size_t end) {
  const size_t first = query > window ? query - window : 0;
  const size_t last = query + window + 1 < length ? query + window + 1 : length;
  const size_t lo = first < begin ? begin : first;
  const size_t hi = last > end ? end : last;
  if (lo >= hi) return {end - begin, end - begin, end - begin};
  return {lo - begin, hi - begin, end - begin};
}

// The largest score so far. Adds the bias to the scores first, where there is one: they are then
// scaled. `distance`: of the block's first key from the query.
inline float LargestScore(const AttentionTask& task, int32_t distance, const SeenKeys& seen,
                          float largest, float* scores) {
  if (task.relative_bias != nullptr) {
    const int32_t reach = task.bias_reach;
    for (size_t i = seen.lo; i < seen.hi; ++i) {
      int32_t d = distance + static_cast<int32_t>(i);
      d = d < -reach ? -reach : (d > reach ? reach : d);
      scores[i] = scores[i] * task.scale + task.relative_bias[d + reach];
    }
  }
  Vec high = Simd::Set(largest);
  const float* from = scores + seen.lo;
  ForVectors(seen.hi - seen.lo, [&](size_t i, size_t n) {
    const Vec s = LoadN(from + i, n);
    high = Simd::Max(high, n == kLanes ? s : Simd::KeepPart(s, high, n));
  });
  return Simd::MaxOf(high);
}

// weights[0 .. seen.count) become e^(score - largest), 0 for keys that the query does not see; f32
// weights take the place of the scores. Returns the factor for the results of earlier blocks.
template <bool kCoarse, typename Weight>
inline float WeighKeys(const AttentionTask& task, const SeenKeys& seen, float largest,
                       const float* scores, Weight* weights, SoftmaxState* state) {
  for (size_t j = 0; j < seen.lo; ++j) weights[j] = 0;
  for (size_t j = seen.hi; j < seen.count; ++j) weights[j] = 0;
  // Pairs of bf16 are whole words.
  if (kCoarse && seen.count % 2 != 0) weights[seen.count] = 0;
  if (seen.lo == seen.hi) return 1;
  float factor = task.relative_bias == nullptr ? task.scale : 1;
  if (kCoarse) factor *= 1.44269504f;
  const Vec max = Simd::Set(largest);
  const Vec scale = Simd::Set(factor);
  Vec sum = Simd::Zero();
  scores += seen.lo;
  weights += seen.lo;
  ForVectors(seen.hi - seen.lo, [&](size_t i, size_t n) {
    Vec e = WeightOf<kCoarse>(Simd::Mul(Simd::Sub(LoadN(scores + i, n), max), scale));
    if (n < kLanes) e = Simd::KeepPart(e, Simd::Zero(), n);
    if constexpr (kCoarse) {
      Simd::StoreBf16(weights + i, e, n);
    } else {
      StoreN(weights + i, e, n);
    }
    sum = Simd::Add(sum, e);
  });
  // The first block has nothing before it; a NaN must not get lost here.
  float before = 0;
  if (state->sum != 0) before = FactorOf<kCoarse>((state->max - largest) * factor);
  state->sum = state->sum * before + Simd::Sum(sum);
  state->max = largest;
  return before;
}

// One tile of rows by a panel. A tile unit is configured for task.rows.
template <typename Dot>
inline void PanelProduct(const PanelTask& task) {
  if constexpr (kByTiles<Dot>) {
    UnitPanel<Dot>(task, task.rows);
  } else {
    RunTile<Dot, Dot::kTileRows>(task, 0, task.rows, {task.panel, 0});
  }
}

template <typename Dot>
inline void PackQueries(const AttentionTask& task, size_t first, size_t rows, Word* queries,
                        size_t stride, float* row) {
  for (size_t r = 0; r < rows; ++r) {
    const float* query = task.q + (first + r) * task.stride;
    if (task.rope_cos != nullptr) {
      Rotate(task, query, first + r, row);
      query = row;
    }
    const size_t size = static_cast<size_t>(task.head_size);
    RoundRow<Dot>(query, size, queries + r * stride);
    if constexpr (kByTiles<Dot>) {
      ZeroWordsFrom(queries + r * stride, (size + 1) / 2, RoundUp((size + 1) / 2, kTileEdge));
    }
  }
}

// y = y * factor + x; x may be null.
inline void AddScaled(float* y, float factor, const float* x, size_t n) {
  const Vec scale = Simd::Set(factor);
  ForVectors(n, [&](size_t i, size_t count) {
    const Vec more = x == nullptr ? Simd::Zero() : LoadN(x + i, count);
    StoreN(y + i, Simd::Fma(LoadN(y + i, count), scale, more), count);
  });
}

// Long: the passes over one block of keys share a dozen pointers into the scratch.
template <typename Dot>
void AttendHead(const AttentionTask& task) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t window = task.window > 0 ? static_cast<size_t>(task.window) : length;
  const AttentionSizes sizes(task.dtype, length, size);
  constexpr size_t kPerWord = Dot::kCoarse ? 2 : 1;
  constexpr size_t kRows = kGemmRows<Dot>;
  // Where a block of keys may begin: at a whole word; a tile unit sums kTileEdge words in an order
  // of their own.
  constexpr size_t kAlign = kByTiles<Dot> ? kPerWord * kTileEdge : kPerWord;
  Word* keys = reinterpret_cast<Word*>(task.scratch);
  Word* values = keys + sizes.keys;
  float* row = reinterpret_cast<float*>(values + sizes.values);
  Word* queries = reinterpret_cast<Word*>(row) + sizes.row;
  float* scores = reinterpret_cast<float*>(queries + sizes.queries);
  Word* weights = Dot::kCoarse ? reinterpret_cast<Word*>(scores) + sizes.scores
                               : reinterpret_cast<Word*>(scores);
  float* part = scores + sizes.scores + sizes.weights;

  PackKeys<Dot>(task, sizes.key_words, keys, row, queries);
  PackValues<Dot>(task, sizes.length_words, values);
  PanelTask by_keys = {}, by_values = {};
  by_keys.words = sizes.key_words;
  by_keys.y_stride = sizes.score_stride;
  by_keys.cols = kPanel;
  by_values.x_stride = sizes.weight_stride;
  const size_t query_begin = static_cast<size_t>(task.query_begin);
  const size_t query_end = static_cast<size_t>(task.query_end);
  for (size_t first = query_begin; first < query_end; first += kRows) {
    const size_t rows = query_end - first < kRows ? query_end - first : kRows;
    if (first == query_begin || rows < kRows) ConfigureTiles<Dot>(rows);
    const size_t begin = first > window ? (first - window) / kAlign * kAlign : 0;
    const size_t end = first + rows + window < length ? first + rows + window : length;

    by_keys.rows = by_values.rows = rows;
    by_keys.x = reinterpret_cast<const Word*>(task.q + first * task.stride);
    by_keys.x_stride = task.stride;
    if (Dot::kCoarse || task.rope_cos != nullptr) {
      by_keys.x = queries;
      by_keys.x_stride = sizes.query_stride;
      PackQueries<Dot>(task, first, rows, queries, sizes.query_stride, row);
    }
    float* out = task.out + (first - query_begin) * task.out_stride;
    SoftmaxState states[kRows];
    for (size_t b = begin; b < end;) {
      const size_t next = (b / kKeyBlock + 1) * kKeyBlock;
      const size_t stop = next < end ? next : end;
      // Panels begin at or before b, so scores are counted from the first panel's first key.
      const size_t panel = b / kPanel * kPanel;
      for (size_t j = panel; j < stop; j += kPanel) {
        by_keys.panel = keys + j * sizes.key_words;
        by_keys.y = scores + (j - panel);
        PanelProduct<Dot>(by_keys);
      }
      // All rows' largest scores first: the search in one row runs on while the next begins.
      float before[kRows], largest[kRows];
      SeenKeys seen[kRows];
      for (size_t r = 0; r < rows; ++r) {
        seen[r] = KeysSeen(first + r, window, length, b, stop);
        const auto distance = static_cast<int32_t>(b) - static_cast<int32_t>(first + r);
        largest[r] = LargestScore(task, distance, seen[r], states[r].max,
                                  scores + r * sizes.score_stride + (b - panel));
      }
      for (size_t r = 0; r < rows; ++r) {
        float* line = scores + r * sizes.score_stride + (b - panel);
        if constexpr (Dot::kCoarse) {
          Word* const words = weights + r * sizes.weight_stride;
          before[r] = WeighKeys<true>(task, seen[r], largest[r], line,
                                      reinterpret_cast<uint16_t*>(words), &states[r]);
          const size_t used = (stop - b + 1) / 2;
          ZeroWordsFrom(words, used, RoundUp(used, kWordStep<Dot>));
        } else {
          before[r] = WeighKeys<false>(task, seen[r], largest[r], line, line, &states[r]);
        }
      }
      float* to = b == begin ? out : part;
      by_values.x = Dot::kCoarse ? weights : weights + (b - panel);
      by_values.words = RoundUp((stop - b + kPerWord - 1) / kPerWord, kWordStep<Dot>);
      by_values.y_stride = b == begin ? task.out_stride : sizes.part_stride;
      for (size_t d = 0; d < size; d += kPanel) {
        by_values.panel = values + d * sizes.length_words + b / kPerWord * kPanel;
        by_values.y = to + d;
        by_values.cols = size - d < kPanel ? size - d : kPanel;
        PanelProduct<Dot>(by_values);
      }
      for (size_t r = 0; r < rows && b != begin; ++r) {
        AddScaled(out + r * task.out_stride, before[r], part + r * sizes.part_stride, size);
      }
      b = stop;
    }
    for (size_t r = 0; r < rows; ++r) {
      AddScaled(out + r * task.out_stride, 1.0f / states[r].sum, nullptr, size);
    }
  }
  ReleaseTiles<Dot>();
}

// With a window, some blocks of queries at a time, whose keys and values stay in the cache, each as a
// sequence of its own. It begins at a block of keys, so the bits are those of the whole.
template <typename Dot>
void AttendInParts(const AttentionTask& task) {
  const size_t window = static_cast<size_t>(task.window);
  const size_t queries = RoundUp(4 * window, kKeyBlock);
  if (window == 0 || static_cast<size_t>(task.length) <= queries + 2 * window) {
    return AttendHead<Dot>(task);
  }
  const size_t length = static_cast<size_t>(task.length);
  const size_t query_end = static_cast<size_t>(task.query_end);
  for (size_t first = static_cast<size_t>(task.query_begin); first < query_end;) {
    // The queries that see no key before `key`, and some before.
    const size_t key = first < window ? 0 : (first - window) / kKeyBlock * kKeyBlock;
    const size_t all = key + window + queries;
    const size_t last = all < query_end ? all : query_end;
    AttentionTask part = task;
    part.q += key * task.stride;
    part.k += key * task.stride;
    part.v += key * task.stride;
    part.out += (first - static_cast<size_t>(task.query_begin)) * task.out_stride;
    const size_t key_end = last + window < length ? last + window : length;
    part.length = static_cast<int32_t>(key_end - key);
    part.query_begin = static_cast<int32_t>(first - key);
    part.query_end = static_cast<int32_t>(last - key);
    if (task.rope_cos != nullptr) {
      const size_t angles = static_cast<size_t>(task.rope_size) / 2;
      part.rope_cos += key * angles;
      part.rope_sin += key * angles;
    }
    AttendHead<Dot>(part);
    first = last;
  }
}

template <typename Dot>
void AttentionBy(const AttentionTask& task) {
  if constexpr (Base::Multiplies(Dot::kType)) {
    Base::Table().attention(task);
  } else {
    AttendInParts<Dot>(task);
  }
}

void AttentionHead(const AttentionTask& task) {
  if (task.dtype == numbers::DType::kBf16) {
    AttentionBy<DotBf16>(task);
  } else {
    AttentionBy<DotF32>(task);
  }
}
