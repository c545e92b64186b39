// Packs activations in groups of 32 (see block_layout.h). Included inside namespace
// penstock::cpu::<isa>, after pack_rows-inl.h.

constexpr size_t kGroupVecs = kBlockGroup / kLanes;

// Three passes, each with independent steps, over a row that stays in L1. `in`: whole groups.
inline void QuantizeBlocks(const float* x, size_t in, uint8_t* to, BlockScale* scales) {
  const size_t groups = in / kBlockGroup;
  for (size_t g = 0; g < groups; ++g) {
    RangeBits bits;
#pragma GCC unroll 8
    for (size_t j = 0; j < kGroupVecs; ++j) {
      bits.Add(Simd::Load(x + g * kBlockGroup + j * kLanes));
    }
    float inverse = 0;
    const RowScale range = bits.Scale(&inverse);
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

// Part of a row, as it is before it goes to its place.
constexpr size_t kRowPiece = 1024;
struct RowPiece {
  alignas(64) Word words[kRowPiece];
  BlockScale scales[kRowPiece / kBlockGroup];
};

// `count` values, zero-padded to whole groups.
inline void PackRowPiece(numbers::DType dtype, const float* x, size_t count, RowPiece* piece) {
  const size_t end = BlockGroups(count) * kBlockGroup;
  if (dtype == numbers::DType::kF32) {
    CopyRow(x, count, reinterpret_cast<float*>(piece->words));
    __builtin_memset(piece->words + count, 0, (end - count) * sizeof(float));
  } else if (dtype == numbers::DType::kBf16) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(piece->words);
    RoundRowBf16(x, count, halves);
    __builtin_memset(halves + count, 0, (end - count) * sizeof(uint16_t));
  } else {
    QuantizeBlocks(x, count, reinterpret_cast<uint8_t*>(piece->words), piece->scales);
  }
}

// x[in] to its place in `packed`.
inline void PackTileRow(numbers::DType dtype, const float* x, size_t in, const BlockRowPlace& place,
                        Word* packed) {
  const size_t words = BlockRowWords(dtype);
  const size_t codes = dtype == numbers::DType::kI8 ? kGroupWords : words;
  const size_t width = place.width;
  const size_t step = place.for_unit ? 1 : width;
  Word* to = packed + BlockWordAt(dtype, place, 0, 0);
  Word* scales = packed + BlockWordAt(dtype, place, 0, codes);
  RowPiece piece;
  for (size_t begin = 0; begin < in; begin += kRowPiece) {
    const size_t count = in - begin < kRowPiece ? in - begin : kRowPiece;
    PackRowPiece(dtype, x + begin, count, &piece);
    for (size_t g = 0; g < BlockGroups(count); ++g) {
      for (size_t w = 0; w < codes; ++w) to[w * step] = piece.words[g * codes + w];
      if (dtype == numbers::DType::kI8) {
        const Word* scale = reinterpret_cast<const Word*>(&piece.scales[g]);
        for (size_t w = 0; w < 3; ++w) scales[w * width] = scale[w];
      }
      to += words * width;
      scales += words * width;
    }
  }
}

void PackBlockRows(const PackBlockRowsTask& task) {
  const BlockRowCut cut =
      CutBlockRows(task.dtype, task.rows, kTileRows, kGemmRows<DotBf16>, task.tile_rows_min);
  const size_t words = BlockRowWords(task.dtype);
  const size_t begin = BlockTileBegin(task.rows, kTileRows, task.first_tile);
  const size_t end = BlockTileBegin(task.rows, kTileRows, task.first_tile + task.tiles);
  for (size_t r = begin; r < end; ++r) {
    const BlockRowPlace place = BlockRowAt(task.dtype, task.in, task.rows, cut, r);
    if (r < task.rows) {
      PackTileRow(task.dtype, task.x + r * task.x_stride, task.in, place, task.packed);
      continue;
    }
    for (size_t g = 0; g < BlockGroups(task.in); ++g) {
      for (size_t w = 0; w < words; ++w) task.packed[BlockWordAt(task.dtype, place, g, w)] = 0;
    }
  }
}
