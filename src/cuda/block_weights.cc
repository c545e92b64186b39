#include "cuda/block_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/int_math.h"
#include "cuda/block_fragments-inl.h"
#include "numbers/block_fields.h"

namespace penstock::cuda {
namespace {

using numbers::DType;

// A row's numbers before they are divided: codes, and a scale and an offset for each `block` of them.
struct Row {
  std::vector<int8_t> codes;
  std::vector<float> scales, offsets;
  float largest = 0;  // that any product, offset or sum may have
};

// Elements that share a scale.
size_t ScaledBlock(DType type) {
  const numbers::BlockFormat format = numbers::FormatOf(type);
  return format.has_scales ? format.scale_elements : format.elements;
}

void ReadRow(DType type, const std::byte* bytes, size_t k, Row* row) {
  const numbers::BlockFormat format = numbers::FormatOf(type);
  const size_t shared = ScaledBlock(type);
  // A signed code has its offset taken off; else the offset is a number's.
  const bool signed_codes =
      BlockFormOf(type) == BlockForm::kCodes8 || BlockFormOf(type) == BlockForm::kCodes8Short;
  numbers::BlockFields fields;
  row->codes.resize(k);
  row->scales.resize(CeilDiv(k, shared));
  row->offsets.assign(row->scales.size(), 0);
  row->largest = 0;
  for (size_t block = 0; block < k / format.elements; ++block) {
    numbers::ReadBlock(type, bytes + block * format.bytes, &fields);
    const float d = numbers::HalfToFloat(fields.d);
    for (size_t part = 0; part < format.elements / shared; ++part) {
      const size_t first = block * format.elements + part * shared, at = first / shared;
      const float scale = format.has_scales ? d * static_cast<float>(fields.scales[part]) : d;
      float offset = 0;
      if (format.has_min) {
        const float m = numbers::HalfToFloat(fields.m);
        offset = format.has_scales ? -m * static_cast<float>(fields.mins[part]) : m;
      } else if (!signed_codes) {
        offset = -scale * static_cast<float>(format.offset);
      }
      int most = 0;
      for (size_t i = 0; i < shared; ++i) {
        const int code = fields.codes[part * shared + i] - (signed_codes ? format.offset : 0);
        row->codes[first + i] = static_cast<int8_t>(code);
        most = std::max(most, std::abs(code));
      }
      row->scales[at] = scale;
      row->offsets[at] = offset;
      row->largest = std::max({row->largest, std::fabs(scale) * static_cast<float>(most),
                               std::fabs(offset), std::fabs(scale)});
    }
  }
}

uint16_t HalfBits(float value) { return static_cast<uint16_t>(PackOperands(value, 0, true)); }

template <typename Form>
void WriteRow(const Row& row, float factor, int feature, std::byte* to) {
  const size_t blocks = CeilDiv(row.codes.size(), size_t{64});
  for (size_t block = 0; block < blocks; ++block) {
    std::byte* const half =
        to + (2 * block + static_cast<size_t>(feature / 8)) * Form::kHalfPieceBytes;
    const auto code = [&](int k) {
      const size_t at = 64 * block + static_cast<size_t>(k);
      return at < row.codes.size() ? static_cast<int>(row.codes[at]) : 0;
    };
    for (int k = 0; k < 64; ++k) Form::PutCode(half, feature % 8, k, code(k));
    for (int part = 0; part < 64 / Form::kBlock; ++part) {
      const size_t at = 64 / Form::kBlock * block + static_cast<size_t>(part);
      const bool is = at < row.scales.size();
      Form::PutScale(half, feature % 8, part, HalfBits(is ? row.scales[at] * factor : 0),
                     HalfBits(is ? row.offsets[at] * factor : 0));
    }
  }
}

}  // namespace

BlockForm BlockFormOf(DType stored) {
  if (!numbers::IsBlockType(stored)) return BlockForm::kNone;
  const numbers::BlockFormat format = numbers::FormatOf(stored);
  if (format.low_bits == 4 && format.high_bits == 0) return BlockForm::kCodes4;
  if (format.has_min) return BlockForm::kCodes8Offsets;
  return ScaledBlock(stored) == 16 ? BlockForm::kCodes8Short : BlockForm::kCodes8;
}

uint64_t BlockRowBytes(BlockForm form, int64_t k) {
  uint64_t bytes = 0;
  VisitForm(form, [&]<typename Form>() {
    bytes = RoundUp(static_cast<size_t>(k), 64) / 64 * 2 * Form::kHalfPieceBytes;
  });
  return bytes;
}

uint64_t BlockBytes(BlockForm form, int64_t features, int64_t k) {
  return CeilDiv(static_cast<size_t>(features), 16) * BlockRowBytes(form, k);
}

void WriteBlocks(const program::TensorView& from, int64_t first, int64_t count, std::byte* to,
                 float* scales) {
  const BlockForm form = BlockFormOf(from.dtype);
  std::memset(to, 0, BlockRowBytes(form, from.columns));
  Row row;
  for (int64_t r = 0; r < count; ++r) {
    ReadRow(from.dtype, from.data + static_cast<size_t>(first + r) * from.row_bytes(),
            static_cast<size_t>(from.columns), &row);
    const OperandScale scale = OperandScaleOf(row.largest);
    scales[r] = scale.inverse;
    VisitForm(form,
              [&]<typename Form>() { WriteRow<Form>(row, scale.factor, static_cast<int>(r), to); });
  }
}

}  // namespace penstock::cuda
