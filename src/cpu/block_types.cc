#include "cpu/block_types.h"

#include <cstring>

#include "common/dtype.h"

namespace penstock::cpu {
namespace {

uint8_t At(const std::byte* p, size_t i) { return static_cast<uint8_t>(p[i]); }

uint16_t Half(const std::byte* p) { return static_cast<uint16_t>(At(p, 0) | At(p, 1) << 8); }

float Widen(uint16_t half) {
  float out = 0;
  ConvertToF32(DType::kF16, reinterpret_cast<const std::byte*>(&half), 1, &out);
  return out;
}

// 32 codes of 16 bytes: the low halves, then the high ones.
void ReadHalves(const std::byte* bytes, int8_t* codes) {
  for (size_t j = 0; j < 16; ++j) {
    codes[j] = At(bytes, j) & 15;
    codes[j + 16] = At(bytes, j) >> 4;
  }
}

void ReadBits(const std::byte* bits, int8_t* codes) {
  for (size_t j = 0; j < 32; ++j) {
    codes[j] = static_cast<int8_t>(codes[j] | (At(bits, j / 8) >> (j % 8) & 1) << 4);
  }
}

// 6-bit scales and mins: the first four of each fill the low 6 bits of bytes 0 to 7; of the others,
// the low 4 bits are in bytes 8 to 11 and the high 2 on top of bytes 0 to 7.
void ReadSixBits(const std::byte* p, BlockFields* fields) {
  for (size_t j = 0; j < 4; ++j) {
    fields->scales[j] = At(p, j) & 63;
    fields->mins[j] = At(p, j + 4) & 63;
    fields->scales[j + 4] = static_cast<int8_t>((At(p, j + 8) & 15) | At(p, j) >> 6 << 4);
    fields->mins[j + 4] = static_cast<int8_t>(At(p, j + 8) >> 4 | At(p, j + 4) >> 6 << 4);
  }
}

// `bits`: of Q5_K; null in Q4_K.
void ReadSuperBlock(const std::byte* bits, const std::byte* bytes, int8_t* codes) {
  for (size_t g = 0; g < 8; ++g) {
    const std::byte* from = bytes + g / 2 * 32;
    for (size_t j = 0; j < 32; ++j) {
      const int low = g % 2 == 0 ? At(from, j) & 15 : At(from, j) >> 4;
      const int high = bits == nullptr ? 0 : (At(bits, j) >> g & 1) << 4;
      codes[32 * g + j] = static_cast<int8_t>(low | high);
    }
  }
}

// Halves of 128 elements: 64 bytes of low halves, 32 of high bits; quarter q of a half has the low
// (q < 2) or high halves of bytes 32 (q % 2) + j, and bits 2q and 2q + 1 of byte j.
void ReadQ6K(const std::byte* block, int8_t* codes) {
  for (size_t half = 0; half < 2; ++half) {
    const std::byte* low = block + 64 * half;
    const std::byte* high = block + 128 + 32 * half;
    for (size_t q = 0; q < 4; ++q) {
      for (size_t j = 0; j < 32; ++j) {
        const int byte = At(low, 32 * (q % 2) + j);
        const int code = (q < 2 ? byte & 15 : byte >> 4) | (At(high, j) >> (2 * q) & 3) << 4;
        codes[128 * half + 32 * q + j] = static_cast<int8_t>(code);
      }
    }
  }
}

}  // namespace

void ReadBlock(BlockType type, const std::byte* block, BlockFields* fields) {
  fields->d = Half(block);
  fields->m = FormatOf(type).has_min ? Half(block + 2) : 0;
  switch (type) {
    case BlockType::kF32:
    case BlockType::kF16:
    case BlockType::kBf16:
      return;
    case BlockType::kQ8_0:
      std::memcpy(fields->codes, block + 2, 32);
      return;
    case BlockType::kQ4_0:
      return ReadHalves(block + 2, fields->codes);
    case BlockType::kQ4_1:
      return ReadHalves(block + 4, fields->codes);
    case BlockType::kQ5_0:
      ReadHalves(block + 6, fields->codes);
      return ReadBits(block + 2, fields->codes);
    case BlockType::kQ5_1:
      ReadHalves(block + 8, fields->codes);
      return ReadBits(block + 4, fields->codes);
    case BlockType::kQ4K:
      ReadSixBits(block + 4, fields);
      return ReadSuperBlock(nullptr, block + 16, fields->codes);
    case BlockType::kQ5K:
      ReadSixBits(block + 4, fields);
      return ReadSuperBlock(block + 16, block + 48, fields->codes);
    case BlockType::kQ6K:
      fields->d = Half(block + 208);
      std::memcpy(fields->scales, block + 192, 16);
      return ReadQ6K(block, fields->codes);
  }
}

void DequantizeRow(BlockType type, const std::byte* row, size_t count, float* to) {
  if (IsFloat(type)) {
    const DType dtype = type == BlockType::kF32
                            ? DType::kF32
                            : (type == BlockType::kF16 ? DType::kF16 : DType::kBf16);
    return ConvertToF32(dtype, row, count, to);
  }
  const BlockFormat format = FormatOf(type);
  const size_t scale_elements = type == BlockType::kQ6K ? 16 : 32;
  BlockFields fields;
  for (size_t begin = 0; begin < count; begin += format.elements, row += format.bytes) {
    ReadBlock(type, row, &fields);
    const float d = Widen(fields.d);
    const float m = Widen(fields.m);
    for (size_t k = 0; k < format.elements; ++k) {
      const float scale = format.has_scales ? d * fields.scales[k / scale_elements] : d;
      const float product = scale * static_cast<float>(fields.codes[k] - format.offset);
      const float min = format.has_scales ? -m * fields.mins[k / 32] : m;
      to[begin + k] = format.has_min ? product + min : product;
    }
  }
}

}  // namespace penstock::cpu
