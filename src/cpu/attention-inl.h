// softmax(q k^T * scale + bias) v for one head of one sequence. Included inside namespace
// penstock::cpu::<isa>, after gemm-inl.h.
//
// k^T and v are packed into panels as a weight matrix would be, so both products are FloatProduct:
//
//   keys    [length / kPanel][head_size][kPanel]
//   values  [head_size / kPanel][length][kPanel]
//   queries [kTileRows][head_size]            rotated copies; only with rotary embedding
//   scores  [kTileRows][length padded]        one block of queries at a time

inline size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

size_t AttentionScratchFloats(size_t length, size_t head_size) {
  const size_t padded = RoundUp(length, kPanel);
  return padded * head_size + length * RoundUp(head_size, kPanel) +
         kTileRows * RoundUp(head_size, kLanes) + kTileRows * padded;
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

// `row` is a scratch row of head_size floats.
inline void PackKeys(const AttentionTask& task, float* keys, float* row) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  for (size_t first = 0; first < length; first += kPanel) {
    float* panel = keys + first * size;
    const size_t rows = length - first < kPanel ? length - first : kPanel;
    for (size_t j = 0; j < rows; ++j) {
      const float* key = task.k + (first + j) * task.stride;
      if (task.rope_cos != nullptr) {
        Rotate(task, key, first + j, row);
        key = row;
      }
      for (size_t d = 0; d < size; ++d) panel[d * kPanel + j] = key[d];
    }
    for (size_t d = 0; d < size && rows < kPanel; ++d) {
      for (size_t j = rows; j < kPanel; ++j) panel[d * kPanel + j] = 0;
    }
  }
}

inline void PackValues(const AttentionTask& task, float* values) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  for (size_t first = 0; first < size; first += kPanel) {
    float* panel = values + first * length;
    const size_t cols = size - first < kPanel ? size - first : kPanel;
    for (size_t j = 0; j < length; ++j) {
      const float* value = task.v + j * task.stride + first;
      float* to = panel + j * kPanel;
      ForVectors(cols, [&](size_t i, size_t n) { StoreN(to + i, LoadN(value + i, n), n); });
      for (size_t i = cols; i < kPanel; ++i) to[i] = 0;
    }
  }
}

// scores[lo, hi) become exp(score - max), what lies beside them in [begin, end) becomes 0.
// Returns 1 / sum.
inline float SoftmaxRow(const AttentionTask& task, size_t query, float* scores, size_t begin,
                        size_t lo, size_t hi, size_t end) {
  const Vec scale = Simd::Set(task.scale);
  float* row = scores + lo;
  const size_t width = hi - lo;
  Vec high = Simd::Set(-3.0e38f);
  if (task.relative_bias == nullptr) {
    ForVectors(width, [&](size_t i, size_t n) {
      const Vec s = Simd::Mul(LoadN(row + i, n), scale);
      StoreN(row + i, s, n);
      high = Simd::Max(high, n == kLanes ? s : Simd::KeepPart(s, high, n));
    });
  } else {
    const int32_t reach = task.bias_reach;
    for (size_t i = 0; i < width; ++i) {
      int32_t distance = static_cast<int32_t>(lo + i) - static_cast<int32_t>(query);
      distance = distance < -reach ? -reach : (distance > reach ? reach : distance);
      row[i] = row[i] * task.scale + task.relative_bias[distance + reach];
    }
    ForVectors(width, [&](size_t i, size_t n) {
      const Vec s = LoadN(row + i, n);
      high = Simd::Max(high, n == kLanes ? s : Simd::KeepPart(s, high, n));
    });
  }
  const Vec max = Simd::Set(Simd::MaxOf(high));
  Vec sum = Simd::Zero();
  ForVectors(width, [&](size_t i, size_t n) {
    Vec e = Exp(Simd::Sub(LoadN(row + i, n), max));
    if (n < kLanes) e = Simd::KeepPart(e, Simd::Zero(), n);
    StoreN(row + i, e, n);
    sum = Simd::Add(sum, e);
  });
  for (size_t j = begin; j < lo; ++j) scores[j] = 0;
  for (size_t j = hi; j < end; ++j) scores[j] = 0;
  return 1.0f / Simd::Sum(sum);
}

void AttentionHead(const AttentionTask& task) {
  const size_t length = static_cast<size_t>(task.length);
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t window = task.window > 0 ? static_cast<size_t>(task.window) : length;
  const size_t padded = RoundUp(length, kPanel);
  float* keys = task.scratch;
  float* values = keys + padded * size;
  float* queries = values + length * RoundUp(size, kPanel);
  float* scores = queries + kTileRows * RoundUp(size, kLanes);

  PackKeys(task, keys, queries);
  PackValues(task, values);
  for (size_t first = 0; first < length; first += kTileRows) {
    const size_t rows = length - first < kTileRows ? length - first : kTileRows;
    const size_t begin = first > window ? first - window : 0;
    const size_t end = first + rows + window < length ? first + rows + window : length;

    const float* q = task.q + first * task.stride;
    size_t q_stride = task.stride;
    if (task.rope_cos != nullptr) {
      for (size_t r = 0; r < rows; ++r)
        Rotate(task, q + r * task.stride, first + r, queries + r * size);
      q = queries;
      q_stride = size;
    }
    for (size_t j = begin / kPanel * kPanel; j < end; j += kPanel) {
      FloatProduct(q, q_stride, rows, keys + j * size, size, scores + j, padded, kPanel);
    }
    float inverse[kTileRows];
    for (size_t r = 0; r < rows; ++r) {
      const size_t query = first + r;
      const size_t lo = query > window ? query - window : 0;
      const size_t hi = query + window + 1 < length ? query + window + 1 : length;
      inverse[r] = SoftmaxRow(task, query, scores + r * padded, begin, lo, hi, end);
    }
    float* out = task.out + first * task.out_stride;
    for (size_t d = 0; d < size; d += kPanel) {
      FloatProduct(scores + begin, padded, rows, values + d * length + begin * kPanel, end - begin,
                   out + d, task.out_stride, size - d < kPanel ? size - d : kPanel);
    }
    for (size_t r = 0; r < rows; ++r) {
      float* row = out + r * task.out_stride;
      const Vec scale = Simd::Set(inverse[r]);
      ForVectors(size, [&](size_t i, size_t n) {
        StoreN(row + i, Simd::Mul(LoadN(row + i, n), scale), n);
      });
    }
  }
}
