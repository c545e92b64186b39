// Row-wise operations: norms, embeddings, pooling. Included inside namespace
// penstock::cpu::<isa>, after math-inl.h.

// The sum of value(offset, n) over [0, width), n as in ForVectors; lanes from n on must be 0. Four
// chains side by side hide the latency of an addition.
template <typename Value>
inline float SumOver(size_t width, Value&& value) {
  Vec sums[4] = {Simd::Zero(), Simd::Zero(), Simd::Zero(), Simd::Zero()};
  size_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) sums[j] = Simd::Add(sums[j], value(i + j * kLanes, kLanes));
  }
  ForVectors(width - i,
             [&](size_t rest, size_t n) { sums[0] = Simd::Add(sums[0], value(i + rest, n)); });
  return Simd::Sum(Simd::Add(Simd::Add(sums[0], sums[1]), Simd::Add(sums[2], sums[3])));
}

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, where x adds up to `sum`; the variance
// has a pass of its own, so that it does not cancel.
inline void NormRow(const float* x, float sum, size_t width, const NormWeights& norm, float* y) {
  const Vec means = Simd::Set(sum / static_cast<float>(width));
  const float squares = SumOver(width, [&](size_t i, size_t n) {
    Vec d = Simd::Sub(LoadN(x + i, n), means);
    if (n < kLanes) d = Simd::KeepPart(d, Simd::Zero(), n);
    return Simd::Mul(d, d);
  });
  const float variance = squares / static_cast<float>(width);
  const Vec inverse = Simd::Set(1.0f / __builtin_sqrtf(variance + norm.epsilon));
  ForVectors(width, [&](size_t i, size_t n) {
    const Vec d = Simd::Mul(Simd::Sub(LoadN(x + i, n), means), inverse);
    const Vec gamma = LoadN(norm.gamma + i, n);
    StoreN(
        y + i,
        norm.beta != nullptr ? Simd::Fma(d, gamma, LoadN(norm.beta + i, n)) : Simd::Mul(d, gamma),
        n);
  });
}

void AddNorm(const float* x, const float* residual, size_t rows, size_t width,
             const NormWeights& norm, float* sum, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    const float* other = residual == nullptr ? nullptr : residual + r * width;
    float* to = (sum != nullptr ? sum : y) + r * width;
    // Also without a residual: `sum` may have to hold x.
    const float total = SumOver(width, [&](size_t i, size_t n) {
      Vec v = LoadN(row + i, n);
      if (other != nullptr) v = Simd::Add(v, LoadN(other + i, n));
      StoreN(to + i, v, n);
      return v;
    });
    if (norm.gamma != nullptr) {
      NormRow(to, total, width, norm, y + r * width);
    } else if (sum != nullptr) {
      ForVectors(width,
                 [&](size_t i, size_t n) { StoreN(y + r * width + i, LoadN(to + i, n), n); });
    }
  }
}

void EmbedTokens(const EmbedTask& task, size_t begin, size_t end, float* x) {
  const size_t width = static_cast<size_t>(task.width);
  for (size_t t = begin; t < end; ++t) {
    float* row = x + t * width;
    const float* word = task.words + static_cast<size_t>(task.ids[t]) * width;
    const float* position =
        task.positions == nullptr
            ? nullptr
            : task.positions + static_cast<size_t>(task.position_ids[t]) * width;
    const size_t type_id = task.type_ids == nullptr ? 0 : static_cast<size_t>(task.type_ids[t]);
    const float* type = task.types == nullptr ? nullptr : task.types + type_id * width;
    const float total = SumOver(width, [&](size_t i, size_t n) {
      Vec v = LoadN(word + i, n);
      if (type != nullptr) v = Simd::Add(v, LoadN(type + i, n));
      if (position != nullptr) v = Simd::Add(v, LoadN(position + i, n));
      StoreN(row + i, v, n);
      return v;
    });
    if (task.norm.gamma != nullptr) NormRow(row, total, width, task.norm, row);
  }
}

// Weights of the weighted mean are 1, 2, 3, ... by position in the sequence, skipped rows counted.
void PoolRows(const float* x, size_t skip, size_t tokens, size_t width, program::Pooling pooling,
              float* out) {
  if (pooling == program::Pooling::kCls || pooling == program::Pooling::kLastToken) {
    const float* row = x + (pooling == program::Pooling::kCls ? skip : tokens - 1) * width;
    ForVectors(width, [&](size_t i, size_t n) { StoreN(out + i, LoadN(row + i, n), n); });
    return;
  }
  const float count = static_cast<float>(tokens - skip);
  float scale = 1;
  if (pooling == program::Pooling::kMean) scale = 1.0f / count;
  if (pooling == program::Pooling::kMeanSqrtLen) scale = 1.0f / __builtin_sqrtf(count);
  if (pooling == program::Pooling::kWeightedMean) {
    scale = 2.0f / (count * static_cast<float>(skip + 1 + tokens));
  }
  const bool weighted = pooling == program::Pooling::kWeightedMean;
  ForVectors(width, [&](size_t i, size_t n) {
    Vec v = LoadN(x + skip * width + i, n);
    if (weighted) v = Simd::Mul(v, Simd::Set(static_cast<float>(skip + 1)));
    for (size_t t = skip + 1; t < tokens; ++t) {
      const Vec row = LoadN(x + t * width + i, n);
      if (pooling == program::Pooling::kMax) {
        v = Simd::Max(v, row);
      } else if (weighted) {
        v = Simd::Fma(row, Simd::Set(static_cast<float>(t + 1)), v);
      } else {
        v = Simd::Add(v, row);
      }
    }
    StoreN(out + i, pooling == program::Pooling::kMax ? v : Simd::Mul(v, Simd::Set(scale)), n);
  });
}
