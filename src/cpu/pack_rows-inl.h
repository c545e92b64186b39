// Packs activations as words of the GEMM's data type (see kernels.h). Included inside namespace
// penstock::cpu::<isa>, after math-inl.h.

inline void CopyRow(const float* x, size_t in, float* to) {
  ForVectors(in, [&](size_t i, size_t n) { StoreN(to + i, LoadN(x + i, n), n); });
}

inline void RoundRowBf16(const float* x, size_t in, uint16_t* to) {
  ForVectors(in, [&](size_t i, size_t n) { Simd::StoreBf16(to + i, LoadN(x + i, n), n); });
  if (in % 2 != 0) to[in] = 0;
}

inline Vec LoadUpTo(const float* p, size_t n) {
  return n < kLanes ? Simd::LoadPart(p, n) : Simd::Load(p);
}

// Runs body(vectors, offset, n) over four vectors of x, times `factors` if kFactors, at a time; the
// last may hold fewer than 4 kLanes values, the others read as 0.
template <bool kFactors, typename Body>
inline void ForFour(const float* x, const float* factors, size_t width, Body&& body) {
  Vec v[4];
  size_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      v[j] = Simd::Load(x + i + j * kLanes);
      if constexpr (kFactors) v[j] = Simd::Mul(v[j], Simd::Load(factors + i + j * kLanes));
    }
    body(v, i, 4 * kLanes);
  }
  if (i == width) return;
  for (size_t j = 0; j < 4; ++j) {
    const size_t begin = i + j * kLanes;
    const size_t rest = begin < width ? width - begin : 0;
    v[j] = LoadUpTo(x + begin, rest);
    if constexpr (kFactors) v[j] = Simd::Mul(v[j], LoadUpTo(factors + begin, rest));
  }
  body(v, i, width - i);
}

// Quantisation of values in [lowest, lowest + range], which holds 0. `bad`: one of them is a NaN or
// an infinity. `inverse`: of the scale, 0 where all values are as good as 0.
inline RowScale ScaleOfRange(float lowest, float range, bool bad, float* inverse) {
  RowScale out;
  const bool flat = !(range > 1e-30f);
  *inverse = flat ? 0 : 255 / range;
  out.scale = flat ? 0 : range * (1.0f / 255);
  if (bad) out.scale = __builtin_nanf("");
  // -lowest <= range: at most 255, and at least 0 even where lowest is infinite (NaN compares so).
  const float zero = -lowest * *inverse + 0.5f;
  out.zero = zero > 0 && zero < 256 ? static_cast<int32_t>(zero) : 0;
  return out;
}

// `factors`: [in], or null where kFactors is false.
// The range is widened to hold 0, which is then exact and so is its zero point. Four chains of each
// kind side by side hide the latency of an operation.
template <bool kFactors>
inline void QuantizeGroup(const float* x, const float* factors, size_t in, uint8_t* to,
                          RowScale* out) {
  Vec low[4], high[4];
  Vec check[4];  // stays 0 unless there is a NaN or an infinity
  for (int j = 0; j < 4; ++j) low[j] = high[j] = check[j] = Simd::Zero();
  ForFour<kFactors>(x, factors, in, [&](const Vec(&v)[4], size_t, size_t) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      low[j] = Simd::Min(v[j], low[j]);
      high[j] = Simd::Max(v[j], high[j]);
      check[j] = Simd::Fma(v[j], Simd::Zero(), check[j]);
    }
  });
  const Vec lows = Simd::Min(Simd::Min(low[0], low[1]), Simd::Min(low[2], low[3]));
  const Vec highs = Simd::Max(Simd::Max(high[0], high[1]), Simd::Max(high[2], high[3]));
  const Vec checks = Simd::Add(Simd::Add(check[0], check[1]), Simd::Add(check[2], check[3]));
  const float lowest = -Simd::MaxOf(Simd::Sub(Simd::Zero(), lows));
  const float range = Simd::MaxOf(highs) - lowest;
  float inverse = 0;
  *out = ScaleOfRange(lowest, range, Simd::AnyNan(checks), &inverse);
  const Vec factor = Simd::Set(inverse);
  const Vec shift = Simd::Set(static_cast<float>(out->zero));
  ForFour<kFactors>(x, factors, in, [&](const Vec(&v)[4], size_t i, size_t n) {
    Vec q[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) q[j] = Simd::Fma(v[j], factor, shift);
    if (n == 4 * kLanes) {
      Simd::StoreBytes(to + i, q);
    } else {
      uint8_t bytes[4 * kLanes];
      Simd::StoreBytes(bytes, q);
      __builtin_memcpy(to + i, bytes, n);
    }
  });
}

inline void QuantizeRow(const float* x, const float* factors, size_t in, uint8_t* to,
                        RowScale* scales) {
  for (size_t k = 0; k < in; k += kScaleGroup) {
    const size_t n = in - k < kScaleGroup ? in - k : kScaleGroup;
    RowScale* scale = scales + k / kScaleGroup;
    if (factors == nullptr) {
      QuantizeGroup<false>(x + k, nullptr, n, to + k, scale);
    } else {
      QuantizeGroup<true>(x + k, factors + k, n, to + k, scale);
    }
  }
  for (size_t k = in; k % 4 != 0; ++k) to[k] = 0;
}

void PackRows(const PackRowsTask& task) {
  for (size_t r = 0; r < task.rows; ++r) {
    const float* from = task.x + r * task.x_stride;
    Word* to = task.words + r * task.stride;
    if (task.dtype == numbers::DType::kF32) {
      CopyRow(from, task.columns, reinterpret_cast<float*>(to));
    } else if (task.dtype == numbers::DType::kBf16) {
      RoundRowBf16(from, task.columns, reinterpret_cast<uint16_t*>(to));
    } else {
      QuantizeRow(from, task.factors, task.columns, reinterpret_cast<uint8_t*>(to),
                  task.scales + r * task.scale_stride);
    }
  }
}
