// Packs activations in groups of 32 (see block_layout.h). Included inside namespace
// penstock::cpu::<isa>, after pack_rows-inl.h.

constexpr size_t kGroupVecs = kBlockGroup / kLanes;

// Range of 32 values, widened to hold 0. `inverse`: see ScaleOfRange.
inline RowScale BlockRange(const float* x, float* inverse) {
  Vec low = Simd::Zero(), high = Simd::Zero();
  Vec check = Simd::Zero();  // stays 0 unless there is a NaN or an infinity
#pragma GCC unroll 8
  for (size_t j = 0; j < kGroupVecs; ++j) {
    const Vec v = Simd::Load(x + j * kLanes);
    low = Simd::Min(v, low);
    high = Simd::Max(v, high);
    check = Simd::Fma(v, Simd::Zero(), check);
  }
  const float lowest = -Simd::MaxOf(Simd::Sub(Simd::Zero(), low));
  return ScaleOfRange(lowest, Simd::MaxOf(high) - lowest, Simd::AnyNan(check), inverse);
}

// Three passes, each with independent steps, over a row that stays in L1. `in`: whole groups.
inline void QuantizeBlocks(const float* x, size_t in, uint8_t* to, BlockScale* scales) {
  const size_t groups = in / kBlockGroup;
  for (size_t g = 0; g < groups; ++g) {
    float inverse = 0;
    const RowScale range = BlockRange(x + g * kBlockGroup, &inverse);
    scales[g].scale = range.scale;
    scales[g].zero = static_cast<int16_t>(range.zero);
    scales[g].sum = inverse;  // until the last pass
  }
  for (size_t i = 0; i < in; i += 4 * kLanes) {
    const size_t vecs = in - i < 4 * kLanes ? kGroupVecs : 4;
    Vec q[4] = {Simd::Zero(), Simd::Zero(), Simd::Zero(), Simd::Zero()};
    for (size_t j = 0; j < vecs; ++j) {
      const BlockScale& scale = scales[(i + j * kLanes) / kBlockGroup];
      q[j] = Simd::Fma(Simd::Load(x + i + j * kLanes), Simd::Set(scale.sum),
                       Simd::Set(static_cast<float>(scale.zero)));
    }
    if (vecs == 4) {
      Simd::StoreBytes(to + i, q);
    } else {
      uint8_t bytes[4 * kLanes];
      Simd::StoreBytes(bytes, q);
      __builtin_memcpy(to + i, bytes, kBlockGroup);
    }
  }
  for (size_t g = 0; g < groups; ++g) {
    const int steps = Simd::SumBytes(to + g * kBlockGroup) - 32 * scales[g].zero;
    scales[g].steps = static_cast<int16_t>(steps);
    scales[g].sum = scales[g].scale * static_cast<float>(steps);
  }
}

void PackBlockRows(const PackBlockRowsTask& task) {
  const size_t stride = BlockRowStride(task.mode, task.in);
  const size_t groups = BlockGroups(task.in);
  const size_t rest = groups * kBlockGroup - task.in;
  for (size_t r = 0; r < task.rows; ++r) {
    const float* from = task.x + r * task.x_stride;
    Word* to = task.words + r * stride;
    if (task.mode == BlockMode::kF32) {
      CopyRow(from, task.in, reinterpret_cast<float*>(to));
      __builtin_memset(to + task.in, 0, rest * sizeof(Word));
    } else if (task.mode == BlockMode::kBf16) {
      uint16_t* halves = reinterpret_cast<uint16_t*>(to);
      RoundRowBf16(from, task.in, halves);
      __builtin_memset(halves + task.in, 0, rest * sizeof(uint16_t));
    } else {
      QuantizeBlocks(from, task.in, reinterpret_cast<uint8_t*>(to), task.scales + r * groups);
    }
  }
}
