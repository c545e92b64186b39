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

// The least and the largest of values and of 0, by their bits: a positive float is larger than
// another as an integer, too; a negative one is the lower, the larger its bits are without a sign.
// An infinity or a NaN is larger than all else.
class RangeBits {
 public:
  void Add(Vec v) {
    high_ = Simd::MaxSigned(Simd::AsWords(v), high_);
    low_ = Simd::MaxWords(Simd::AsWords(v), low_);
  }
  // Quantisation of the values. `inverse`: of the scale, 0 where all values are as good as 0.
  RowScale Scale(float* inverse) const {
    const uint32_t high = Simd::MaxWordOf(high_);
    const uint32_t low = Simd::MaxWordOf(low_);
    const float lowest = __builtin_bit_cast(float, low);
    const float range = __builtin_bit_cast(float, high) - lowest;
    RowScale out;
    const bool flat = !(range > 1e-30f);
    *inverse = flat ? 0 : 255 / range;
    out.scale = flat ? 0 : range * (1.0f / 255);
    if (high >= kInfinity || low >= kNegative + kInfinity) out.scale = __builtin_nanf("");
    // -lowest <= range: at most 255, and 0 where lowest is not finite.
    const float zero = -lowest * *inverse + 0.5f;
    out.zero = zero > 0 && zero < 256 ? static_cast<int32_t>(zero) : 0;
    return out;
  }

 private:
  static constexpr uint32_t kNegative = 0x80000000;
  static constexpr uint32_t kInfinity = 0x7f800000;
  Simd::Words high_ = Simd::ZeroWords();
  Simd::Words low_ = Simd::SetWord(kNegative);
};

// Four vectors of codes as bytes: s8 if the set has signed rows, else u8.
template <typename S>
inline void StoreCodes(uint8_t* to, const typename S::Vec (&q)[4]) {
  if constexpr (DotRowsOf<S>::Dot::kSignedRows) {
    S::StoreSignedBytes(to, q);
  } else {
    S::StoreBytes(to, q);
  }
}

// `factors`: [in], or null where kFactors is false.
// The range is widened to hold 0, which is then exact and so is its zero point.
template <bool kFactors>
inline void QuantizeGroup(const float* x, const float* factors, size_t in, uint8_t* to,
                          RowScale* out) {
  RangeBits bits;
  ForFour<kFactors>(x, factors, in, [&](const Vec(&v)[4], size_t, size_t) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) bits.Add(v[j]);
  });
  float inverse = 0;
  *out = bits.Scale(&inverse);
  const Vec factor = Simd::Set(inverse);
  const Vec shift = Simd::Set(static_cast<float>(out->zero));
  ForFour<kFactors>(x, factors, in, [&](const Vec(&v)[4], size_t i, size_t n) {
    Vec q[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) q[j] = Simd::Fma(v[j], factor, shift);
    if (n == 4 * kLanes) {
      StoreCodes<Simd>(to + i, q);
    } else {
      uint8_t bytes[4 * kLanes];
      StoreCodes<Simd>(bytes, q);
      __builtin_memcpy(to + i, bytes, n);
    }
  });
  if (DotRows::kSignedRows) out->zero -= 128;
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
