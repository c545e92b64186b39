// The types of cached keys and values as attention multiplies by them, and the writing of them.
// Included inside namespace penstock::cpu::<isa>, after dot-inl.h.
//
// Lanes<phase> and Line<phase> give what Add multiplies: lanes of a panel, and one value (bf16: a
// pair) of a row for all lanes. kProducts: the type of the numbers that Add multiplies. kScaled: sums are multiplied by a scale of each key, and weights by
// one of each value.

struct KvF32 {
  static constexpr numbers::DType kType = numbers::DType::kF32;
  static constexpr numbers::DType kProducts = numbers::DType::kF32;
  static constexpr int kPhases = 1;
  static constexpr bool kCoarse = false;
  static constexpr bool kScaled = false;
  template <int kPhase>
  static Vec Lanes(const uint8_t* p) {
    return Simd::AsFloat(Simd::LoadWords(reinterpret_cast<const Word*>(p)));
  }
  template <int kPhase>
  static Vec Line(const Word* x) {
    return Simd::AsFloat(Simd::SetWord(*x));
  }
  static Vec Add(Vec sum, Vec x, Vec lanes) { return Simd::Fma(x, lanes, sum); }
};

struct KvF16 : KvF32 {
  static constexpr numbers::DType kType = numbers::DType::kF16;
  template <int kPhase>
  static Vec Lanes(const uint8_t* p) {
    return Simd::LoadF16(p);
  }
};

struct KvI8 : KvF32 {
  static constexpr numbers::DType kType = numbers::DType::kI8;
  static constexpr bool kScaled = true;
  template <int kPhase>
  static Vec Lanes(const uint8_t* p) {
    return Simd::LoadS8(reinterpret_cast<const int8_t*>(p));
  }
};

struct KvBf16 {
  static constexpr numbers::DType kType = numbers::DType::kBf16;
  static constexpr numbers::DType kProducts = numbers::DType::kBf16;
  static constexpr int kPhases = DotBf16::kPhases;
  static constexpr bool kCoarse = true;
  static constexpr bool kScaled = false;
  template <int kPhase>
  static Simd::Words Lanes(const uint8_t* p) {
    return DotBf16::Weights<kPhase>(Simd::LoadWords(reinterpret_cast<const Word*>(p)));
  }
  template <int kPhase>
  static Simd::Words Line(const Word* x) {
    return DotBf16::Rows<kPhase>(Simd::SetWord(*x));
  }
  static Vec Add(Vec sum, Simd::Words x, Simd::Words lanes) { return DotBf16::Add(sum, x, lanes); }
};

template <typename Kv>
constexpr size_t kLaneBytes = KvLayoutOf(Kv::kType, 2).lane_bytes;
template <typename Kv>
constexpr size_t kLaneValues = KvLayoutOf(Kv::kType, 2).lane_values;

// A row as bytes of s8, values = scale * byte; returns the scale, NaN if a value is not finite.
inline float RoundRowS8(const float* x, size_t n, int8_t* to) {
  Vec high = Simd::Zero();
  Vec odd = Simd::Zero();  // stays 0 where all is finite
  ForVectors(n, [&](size_t i, size_t count) {
    const Vec v = LoadN(x + i, count);
    high = Simd::Max(high, Simd::Max(v, Simd::Sub(Simd::Zero(), v)));
    odd = Simd::Add(odd, Simd::Sub(v, v));
  });
  const float most = Simd::MaxOf(high);
  const float inverse = most > 0 ? 127.0f / most : 0;
  for (size_t i = 0; i < n; ++i) {
    const float steps = x[i] * inverse;
    // Half away from zero; NaN and infinities do not matter, since the scale is NaN.
    const float rounded = steps < 0 ? steps - 0.5f : steps + 0.5f;
    to[i] = rounded > -128 && rounded < 128 ? static_cast<int8_t>(rounded) : int8_t{0};
  }
  return most / 127.0f + Simd::Sum(odd);
}

// A row of keys or values as the cache stores them.
struct KvRow {
  union {
    float floats[kKvHeadSizeMax];
    Half halves[kKvHeadSizeMax];
    int8_t bytes[kKvHeadSizeMax];
  };
  float scale;
};

template <typename Kv>
inline void RoundKvRow(const float* x, size_t n, KvRow* to) {
  if constexpr (Kv::kType == numbers::DType::kI8) {
    to->scale = RoundRowS8(x, n, to->bytes);
  } else {
    ForVectors(n, [&](size_t i, size_t count) {
      const Vec v = LoadN(x + i, count);
      if constexpr (Kv::kType == numbers::DType::kF32) {
        StoreN(to->floats + i, v, count);
      } else if constexpr (Kv::kType == numbers::DType::kBf16) {
        Simd::StoreBf16(to->halves + i, v, count);
      } else {
        const Vec most = Simd::Set(65504);
        const Vec least = Simd::Set(-65504);
        Simd::StoreF16(to->halves + i, Simd::Max(least, Simd::Min(most, v)), count);
      }
    });
  }
}

// Elements of 1, 2 or 4 bytes to every `step`-th place.
template <size_t kBytes>
inline void Scatter(const void* from, size_t n, uint8_t* to, size_t step) {
  for (size_t i = 0; i < n; ++i) {
    if constexpr (kBytes == 4)
      static_cast<Word*>(static_cast<void*>(to))[i * step] = static_cast<const Word*>(from)[i];
    if constexpr (kBytes == 2)
      static_cast<Half*>(static_cast<void*>(to))[i * step] = static_cast<const Half*>(from)[i];
    if constexpr (kBytes == 1) to[i * step] = static_cast<const uint8_t*>(from)[i];
  }
}

template <typename Kv>
void AppendRows(const AppendTask& task) {
  const size_t size = static_cast<size_t>(task.kv.head_size);
  const KvLayout layout = KvLayoutOf(Kv::kType, size);
  KvRow row;
  for (size_t r = 0; r < task.rows; ++r) {
    const size_t position = static_cast<size_t>(task.first_position) + r;
    const size_t j = position % kKvBlock;
    uint8_t* block = task.kv.base + static_cast<size_t>(task.kv.block_ids[position / kKvBlock]) *
                                        task.kv.block_stride;
    if (j == 0) __builtin_memset(block, 0, layout.bytes);
    RoundKvRow<Kv>(task.k + r * task.stride, size, &row);
    uint8_t* keys = block + j * layout.lane_bytes;
    Scatter<kLaneBytes<Kv>>(&row, size / kLaneValues<Kv>, keys, kKvBlock);
    if constexpr (Kv::kScaled) {
      __builtin_memcpy(block + layout.key_scales + j * sizeof(float), &row.scale, sizeof(float));
    }
    RoundKvRow<Kv>(task.v + r * task.stride, size, &row);
    uint8_t* values =
        block + layout.values + j / kLaneValues<Kv> * layout.row_values * layout.lane_bytes;
    if constexpr (kLaneValues<Kv> == 2) {
      Scatter<sizeof(Half)>(&row, size, values + j % 2 * sizeof(Half), 2);
    } else {
      __builtin_memcpy(values, &row, size * layout.lane_bytes);
    }
    if constexpr (Kv::kScaled) {
      __builtin_memcpy(block + layout.value_scales + j * sizeof(float), &row.scale, sizeof(float));
    }
  }
}

void AppendKv(const AppendTask& task) {
  switch (task.kv.type) {
    case numbers::DType::kF32:
      return AppendRows<KvF32>(task);
    case numbers::DType::kF16:
      return AppendRows<KvF16>(task);
    case numbers::DType::kI8:
      return AppendRows<KvI8>(task);
    default:
      return AppendRows<KvBf16>(task);
  }
}
