#include "numbers/block_fields.h"

#include <cstring>

#include "base/status.h"

namespace penstock::numbers {
namespace {

uint8_t At(const std::byte* p, size_t i) { return static_cast<uint8_t>(p[i]); }

uint16_t Half(const std::byte* p) { return static_cast<uint16_t>(At(p, 0) | At(p, 1) << 8); }

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

void ReadBlock(DType type, const std::byte* block, BlockFields* fields) {
  fields->d = Half(block);
  fields->m = FormatOf(type).has_min ? Half(block + 2) : 0;
  switch (type) {
    case DType::kQ8_0:
      std::memcpy(fields->codes, block + 2, 32);
      return;
    case DType::kQ4_0:
      return ReadHalves(block + 2, fields->codes);
    case DType::kQ4_1:
      return ReadHalves(block + 4, fields->codes);
    case DType::kQ5_0:
      ReadHalves(block + 6, fields->codes);
      return ReadBits(block + 2, fields->codes);
    case DType::kQ5_1:
      ReadHalves(block + 8, fields->codes);
      return ReadBits(block + 4, fields->codes);
    case DType::kQ4K:
      ReadSixBits(block + 4, fields);
      return ReadSuperBlock(nullptr, block + 16, fields->codes);
    case DType::kQ5K:
      ReadSixBits(block + 4, fields);
      return ReadSuperBlock(block + 16, block + 48, fields->codes);
    case DType::kQ6K:
      fields->d = Half(block + 208);
      std::memcpy(fields->scales, block + 192, 16);
      return ReadQ6K(block, fields->codes);
    default:
      PENSTOCK_CHECK(false);  // a type with blocks and no case here
  }
}

void FieldsToF32(DType type, const BlockFields& fields, float* to) {
  const BlockFormat format = FormatOf(type);
  const size_t run = format.scale_elements;
  const float d = HalfToFloat(fields.d);
  const float m = HalfToFloat(fields.m);
  for (size_t begin = 0; begin < format.elements; begin += run) {
    const int8_t* codes = fields.codes + begin;
    const auto factor = [&](const int8_t* of) { return static_cast<float>(of[begin / run]); };
    const float scale = format.has_scales ? d * factor(fields.scales) : d;
    for (size_t k = 0; k < run; ++k) {
      to[begin + k] = scale * static_cast<float>(codes[k] - format.offset);
    }
    if (!format.has_min) continue;
    const float min = format.has_scales ? -(m * factor(fields.mins)) : m;
    for (size_t k = 0; k < run; ++k) to[begin + k] += min;
  }
}

void BlocksToF32(DType type, const std::byte* from, size_t count, float* to) {
  const DTypeBlock block = BlockOf(type);
  BlockFields fields;
  for (size_t b = 0; b < count; ++b) {
    ReadBlock(type, from + b * block.bytes, &fields);
    FieldsToF32(type, fields, to + b * block.elements);
  }
}

}  // namespace penstock::numbers
