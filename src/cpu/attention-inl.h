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

// `row` is scratch for a key's floats, `words` for its words.
template <typename Dot>
inline void PackKeys(const AttentionTask& task, size_t key_words, Word* keys, float* row,
                     Word* words) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t used = Dot::kCoarse ? (size + 1) / 2 : size;  // of key_words
  for (size_t first = 0; first < length; first += kPanel) {
    Word* panel = keys + first * key_words;
    const size_t rows = length - first < kPanel ? length - first : kPanel;
    for (size_t j = 0; j < rows; ++j) {
      const float* key = task.k + (first + j) * task.stride;
      if (task.rope_cos != nullptr) {
        Rotate(task, key, first + j, row);
        key = row;
      }
      const Word* from = reinterpret_cast<const Word*>(key);
      if constexpr (Dot::kCoarse) {
        RoundRow<Dot>(key, size, words);
        from = words;
      }
      for (size_t d = 0; d < used; ++d) panel[d * kPanel + j] = from[d];
    }
    ZeroWordsFrom(panel, used * kPanel, key_words * kPanel);
    for (size_t d = 0; d < key_words && rows < kPanel; ++d) {
      for (size_t j = rows; j < kPanel; ++j) panel[d * kPanel + j] = 0;
    }
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

template <bool kCoarse>
inline Vec ExpOf(Vec x) {
  if constexpr (kCoarse) {
    return CoarseExp2(x);
  } else {
    return Exp(x);
  }
}

// Keys [begin, end) of a block, of which the query sees [lo, hi); row[0] is the score of `begin`.
// weights[0 .. end - begin) become e^(score - max), 0 for keys that the query does not see; f32
// weights take the place of the scores. Returns the factor for the results of earlier blocks.
template <bool kCoarse, typename Weight>
inline float SoftmaxBlock(const AttentionTask& task, size_t query, float* row, Weight* weights,
                          size_t begin, size_t lo, size_t hi, size_t end, SoftmaxState* state) {
  lo = lo < begin ? begin : lo;
  hi = hi > end ? end : hi;
  if (lo > hi) lo = hi = end;
  for (size_t j = 0; j < lo - begin; ++j) weights[j] = 0;
  for (size_t j = hi - begin; j < end - begin; ++j) weights[j] = 0;
  // Pairs of bf16 are whole words.
  if (kCoarse && (end - begin) % 2 != 0) weights[end - begin] = 0;
  if (lo == hi) return 1;
  row += lo - begin;
  weights += lo - begin;
  const size_t width = hi - lo;
  float factor = task.scale;
  if (task.relative_bias != nullptr) {
    const int32_t reach = task.bias_reach;
    for (size_t i = 0; i < width; ++i) {
      int32_t distance = static_cast<int32_t>(lo + i) - static_cast<int32_t>(query);
      distance = distance < -reach ? -reach : (distance > reach ? reach : distance);
      row[i] = row[i] * task.scale + task.relative_bias[distance + reach];
    }
    factor = 1;
  }
  Vec high = Simd::Set(state->max);
  ForVectors(width, [&](size_t i, size_t n) {
    const Vec s = LoadN(row + i, n);
    high = Simd::Max(high, n == kLanes ? s : Simd::KeepPart(s, high, n));
  });
  const float most = Simd::MaxOf(high);
  const Vec max = Simd::Set(most);
  const Vec scale = Simd::Set(kCoarse ? factor * 1.44269504f : factor);
  Vec sum = Simd::Zero();
  ForVectors(width, [&](size_t i, size_t n) {
    Vec e = ExpOf<kCoarse>(Simd::Mul(Simd::Sub(LoadN(row + i, n), max), scale));
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
  if (state->sum != 0) {
    const Vec shift = Simd::Mul(Simd::Sub(Simd::Set(state->max), max), scale);
    before = Simd::MaxOf(ExpOf<kCoarse>(shift));
  }
  state->sum = state->sum * before + Simd::Sum(sum);
  state->max = most;
  return before;
}

// y[rows, cols] = x panel. A tile unit is configured for `rows`.
template <typename Dot>
inline void PanelProduct(const Word* x, size_t x_stride, size_t rows, const Word* panel,
                         size_t words, float* y, size_t y_stride, size_t cols) {
  PanelTask task = {};
  task.x = x;
  task.x_stride = x_stride;
  task.panel = panel;
  task.rows = rows;
  task.words = words;
  task.y = y;
  task.y_stride = y_stride;
  task.cols = cols;
  if constexpr (kByTiles<Dot>) {
    UnitPanel<Dot>(task, rows);
  } else {
    GemmPanel<Dot>(task);
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
  const size_t query_begin = static_cast<size_t>(task.query_begin);
  const size_t query_end = static_cast<size_t>(task.query_end);
  for (size_t first = query_begin; first < query_end; first += kRows) {
    const size_t rows = query_end - first < kRows ? query_end - first : kRows;
    if (first == query_begin || rows < kRows) ConfigureTiles<Dot>(rows);
    const size_t begin = first > window ? (first - window) / kAlign * kAlign : 0;
    const size_t end = first + rows + window < length ? first + rows + window : length;

    const Word* q = reinterpret_cast<const Word*>(task.q + first * task.stride);
    size_t q_stride = task.stride;
    if (Dot::kCoarse || task.rope_cos != nullptr) {
      q = queries;
      q_stride = sizes.query_stride;
      PackQueries<Dot>(task, first, rows, queries, q_stride, row);
    }
    float* out = task.out + (first - query_begin) * task.out_stride;
    SoftmaxState states[kRows];
    for (size_t b = begin; b < end;) {
      const size_t next = (b / kKeyBlock + 1) * kKeyBlock;
      const size_t stop = next < end ? next : end;
      // Panels begin at or before b, so scores are counted from the first panel's first key.
      const size_t panel = b / kPanel * kPanel;
      for (size_t j = panel; j < stop; j += kPanel) {
        PanelProduct<Dot>(q, q_stride, rows, keys + j * sizes.key_words, sizes.key_words,
                          scores + (j - panel), sizes.score_stride, kPanel);
      }
      float before[kRows];
      for (size_t r = 0; r < rows; ++r) {
        const size_t query = first + r;
        const size_t lo = query > window ? query - window : 0;
        const size_t hi = query + window + 1 < length ? query + window + 1 : length;
        float* line = scores + r * sizes.score_stride + (b - panel);
        if constexpr (Dot::kCoarse) {
          auto* to = reinterpret_cast<uint16_t*>(weights + r * sizes.weight_stride);
          before[r] = SoftmaxBlock<true>(task, query, line, to, b, lo, hi, stop, &states[r]);
          if constexpr (kByTiles<Dot>) {
            const size_t used = (stop - b + 1) / 2;
            ZeroWordsFrom(weights + r * sizes.weight_stride, used, RoundUp(used, kTileEdge));
          }
        } else {
          before[r] = SoftmaxBlock<false>(task, query, line, line, b, lo, hi, stop, &states[r]);
        }
      }
      const Word* w = Dot::kCoarse ? weights : weights + (b - panel);
      float* to = b == begin ? out : part;
      const size_t to_stride = b == begin ? task.out_stride : sizes.part_stride;
      for (size_t d = 0; d < size; d += kPanel) {
        PanelProduct<Dot>(w, sizes.weight_stride, rows,
                          values + d * sizes.length_words + b / kPerWord * kPanel,
                          RoundUp((stop - b + kPerWord - 1) / kPerWord, kWordStep<Dot>), to + d,
                          to_stride, size - d < kPanel ? size - d : kPanel);
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

void AttentionHead(const AttentionTask& task) {
  if (task.dtype == numbers::DType::kBf16) {
    AttendHead<DotBf16>(task);
  } else {
    AttendHead<DotF32>(task);
  }
}
