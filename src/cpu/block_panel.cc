#include "cpu/block_panel.h"

#include <algorithm>
#include <cstring>

#include "cpu/block_layout.h"
#include "numbers/block_fields.h"

namespace penstock::cpu {
namespace {

uint32_t LoadWord(const void* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void StoreWord(uint8_t* to, size_t index, uint32_t word) {
  std::memcpy(to + index * sizeof(word), &word, sizeof(word));
}

// Where things lie in a panel, in bytes.
struct BlockPlaces {
  explicit BlockPlaces(const BlockPanelShape& shape)
      : format(numbers::FormatOf(shape.stored)),
        scales((format.has_min ? 4 : 2) * shape.width),
        codes(scales + scale_words() * shape.width * sizeof(Word)),
        group(static_cast<size_t>(format.low_bits + format.high_bits) * sizeof(Word) *
              shape.width) {}

  size_t scale_words() const { return format.has_scales ? (format.has_min ? 3 : 4) : 0; }
  size_t groups() const { return format.elements / kBlockGroup; }

  numbers::BlockFormat format;
  size_t scales;  // of a head
  size_t codes;   // the head's end
  size_t group;   // of each group
};

// 32 codes of a column into a group's words, from `to` on, `width` words apart.
void StoreCodes(const numbers::BlockFormat& format, const int8_t* codes, size_t width,
                uint8_t* to) {
  uint32_t words[kGroupWords];
  for (size_t w = 0; w < kGroupWords; ++w) words[w] = LoadWord(codes + 4 * w);
  if (format.low_bits == 8) {
    for (size_t w = 0; w < kGroupWords; ++w) StoreWord(to, w * width, words[w]);
    return;
  }
  uint32_t high[2] = {0, 0};
  for (size_t w = 0; w < kGroupWords; ++w) {
    if (format.high_bits == 1) high[0] |= (words[w] >> 4 & 0x01010101) << w;
    if (format.high_bits == 2) high[w / 4] |= (words[w] >> 4 & 0x03030303) << (2 * (w % 4));
  }
  const auto planes = static_cast<size_t>(format.high_bits);
  for (size_t i = 0; i < planes; ++i) StoreWord(to, i * width, high[i]);
  for (size_t p = 0; p < kGroupWords / 2; ++p) {
    const uint32_t low = words[2 * p] & 0x0f0f0f0f;
    const uint32_t upper = words[2 * p + 1] & 0x0f0f0f0f;
    StoreWord(to, (planes + p) * width, low | upper << 4);
  }
}

// Words of a head's scales, `width` words apart.
void StoreScales(const numbers::BlockFormat& format, const numbers::BlockFields& fields,
                 size_t width, uint8_t* to) {
  if (!format.has_min) {
    for (size_t i = 0; i < 4; ++i) StoreWord(to, i * width, LoadWord(fields.scales + 4 * i));
    return;
  }
  uint32_t words[3] = {0, 0, 0};
  for (size_t g = 0; g < 8; ++g) {
    const auto scale = static_cast<uint32_t>(fields.scales[g]);
    const auto min = static_cast<uint32_t>(fields.mins[g]);
    words[0] |= (scale & 15) << (4 * g);
    words[1] |= (min & 15) << (4 * g);
    words[2] |= scale >> 4 << (2 * g) | min >> 4 << (16 + 2 * g);
  }
  for (size_t i = 0; i < 3; ++i) StoreWord(to, i * width, words[i]);
}

void ReadCodes(const numbers::BlockFormat& format, const uint8_t* from, size_t width,
               int8_t* codes) {
  const auto planes = static_cast<size_t>(format.high_bits);
  uint32_t high[2] = {0, 0};
  for (size_t i = 0; i < planes; ++i) high[i] = LoadWord(from + i * width * sizeof(Word));
  for (size_t w = 0; w < kGroupWords; ++w) {
    uint32_t word = 0;
    if (format.low_bits == 8) {
      word = LoadWord(from + w * width * sizeof(Word));
    } else {
      const uint32_t pair = LoadWord(from + (planes + w / 2) * width * sizeof(Word));
      word = pair >> (w % 2 * 4) & 0x0f0f0f0f;
    }
    if (planes == 1) word |= (high[0] >> w & 0x01010101) << 4;
    if (planes == 2) word |= (high[w / 4] >> (2 * (w % 4)) & 0x03030303) << 4;
    std::memcpy(codes + 4 * w, &word, sizeof(word));
  }
}

void ReadScales(const numbers::BlockFormat& format, const uint8_t* from, size_t width,
                numbers::BlockFields* fields) {
  uint32_t words[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < (format.has_min ? 3 : 4); ++i) {
    words[i] = LoadWord(from + i * width * sizeof(Word));
  }
  if (!format.has_min) {
    std::memcpy(fields->scales, words, sizeof(words));
    return;
  }
  for (size_t g = 0; g < 8; ++g) {
    const auto six_bits = [&](uint32_t low, size_t shift) {
      return static_cast<int8_t>((low >> (4 * g) & 15) | (words[2] >> (2 * g + shift) & 3) << 4);
    };
    fields->scales[g] = six_bits(words[0], 0);
    fields->mins[g] = six_bits(words[1], 16);
  }
}

void WriteFloats(const BlockPanelShape& shape, std::span<const std::byte* const> rows,
                 uint8_t* panel) {
  const size_t bytes = numbers::StoredBytes(shape.stored, shape.in);
  const size_t words = numbers::StoredBytes(shape.stored, BlockGroups(shape.in) * kBlockGroup) / 4;
  for (size_t c = 0; c < rows.size(); ++c) {
    for (size_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      const size_t begin = w * sizeof(word);
      if (begin < bytes) {
        std::memcpy(&word, rows[c] + begin, std::min(sizeof(word), bytes - begin));
      }
      StoreWord(panel, w * shape.width + c, word);
    }
  }
}

void ReadFloats(const BlockPanelShape& shape, const uint8_t* panel, size_t column, float* to) {
  const size_t word_values = sizeof(Word) / numbers::BlockOf(shape.stored).bytes;
  uint32_t words[kBlockGroup];
  for (size_t k = 0; k < shape.in; k += kBlockGroup) {
    const size_t count = std::min(kBlockGroup, shape.in - k);
    for (size_t w = 0; w < kBlockGroup / word_values; ++w) {
      words[w] = LoadWord(panel + ((k / word_values + w) * shape.width + column) * sizeof(Word));
    }
    numbers::ConvertToF32(shape.stored, reinterpret_cast<const std::byte*>(words), count, to + k);
  }
}

}  // namespace

void WriteBlockPanel(const BlockPanelShape& shape, std::span<const std::byte* const> rows,
                     uint8_t* panel) {
  if (!numbers::IsBlockType(shape.stored)) return WriteFloats(shape, rows, panel);
  const BlockPlaces places(shape);
  const numbers::BlockFormat& format = places.format;
  const size_t width = shape.width;
  numbers::BlockFields fields;
  uint8_t* to = panel;
  for (size_t b = 0; b < shape.in / format.elements; ++b, to += format.bytes * width) {
    for (size_t c = 0; c < rows.size(); ++c) {
      numbers::ReadBlock(shape.stored, rows[c] + b * format.bytes, &fields);
      std::memcpy(to + 2 * c, &fields.d, sizeof(fields.d));
      if (format.has_min) std::memcpy(to + 2 * (width + c), &fields.m, sizeof(fields.m));
      const size_t word = c * sizeof(Word);
      if (format.has_scales) StoreScales(format, fields, width, to + places.scales + word);
      for (size_t g = 0; g < places.groups(); ++g) {
        StoreCodes(format, fields.codes + g * kBlockGroup, width,
                   to + places.codes + g * places.group + word);
      }
    }
  }
}

void ReadBlockPanelRow(const BlockPanelShape& shape, const uint8_t* panel, size_t column,
                       float* to) {
  if (!numbers::IsBlockType(shape.stored)) return ReadFloats(shape, panel, column, to);
  const BlockPlaces places(shape);
  const numbers::BlockFormat& format = places.format;
  const size_t width = shape.width;
  const size_t word = column * sizeof(Word);
  numbers::BlockFields fields;
  const uint8_t* from = panel;
  for (size_t k = 0; k < shape.in; k += format.elements, from += format.bytes * width) {
    std::memcpy(&fields.d, from + 2 * column, sizeof(fields.d));
    if (format.has_min) std::memcpy(&fields.m, from + 2 * (width + column), sizeof(fields.m));
    if (format.has_scales) ReadScales(format, from + places.scales + word, width, &fields);
    for (size_t g = 0; g < places.groups(); ++g) {
      ReadCodes(format, from + places.codes + g * places.group + word, width,
                fields.codes + g * kBlockGroup);
    }
    numbers::FieldsToF32(shape.stored, fields, to + k);
  }
}

}  // namespace penstock::cpu
