// How GGUF blocks lie in memory once repacked, and the table entries that multiply them.
//
// Panels. As in kernels.h, a [out, in] matrix is cut into panels of `panel` output columns, the
// last one padded with zeros; k is cut into groups of 32. A panel is read front to back and has as
// many bytes as its columns have in the file. For each block of the file, 1 or 8 groups:
//
//   head:  d of each column, f16 | m of each column, f16 | words of scales:
//          Q4_K, Q5_K  [3][panel]: the low 4 bits of scales 0 .. 7; those of mins; the high 2 bits
//                      of the scales, then of the mins
//          Q6_K        [4][panel]: 16 s8
//   group: words of high bits: 1 bit: [1][panel], bit 8 j + w is of value j of word w (see
//          kernels.h: word w holds k = 4 w + j); 2 bits: [2][panel], bits 8 j + 2 (w % 4) of [w /
//          4] codes: 4 bits: [4][panel], low halves word 2 p, high halves word 2 p + 1; 8 bits:
//          [8][panel], as in kernels.h
//
// So a load of 16 lanes, a shift and a mask give two words of 16 columns. F32, F16 and BF16 have no
// head, and their words are in order of k; `in` is padded with zeros to whole groups.
//
// Rows. They are cut into the fewest tiles of at most tile_rows, of nearly equal size, and a tile
// of n rows lies in the order its kernel reads it (BlockRowAt and BlockWordAt give a word's place):
//
//   group:  words [8 int8, 16 bf16 or 32 f32][n] | int8: scale [n], f32 | sum [n], f32 |
//           zero and steps [n], s16 each: BlockScale
//
// For a tile unit the words are [n][8 or 16], and all tiles but the last are full.
//
// In each group an int8 row is u8 with a scale and a zero point, as int8 rows in kernels.h are in
// groups of 128. Up to 8 rows are padded with zeros to an even number, but for a single one.
//
// Order of additions. Let sum be a group's (Q6_K: half a group's) exact integer sum of
// (code - offset) (q - zero). Then, from the bias (or 0) on, with a fused multiply-add where the
// instruction set has one:
//   y = fma(float(sum) * scale, x.scale, y)    Q6_K: twice, by halves
//   y = fma(min, x.scale * sum(q - zero), y)   types with a min; the second factor is x.sum
// group by group from k = 0 up, whatever kernel does it. In bf16 and f32 it is the order
// of kernels.h over the words' values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels.h"
#include "numbers/block_fields.h"

namespace penstock::cpu {

constexpr size_t kBlockGroup = 32;
constexpr size_t kGroupWords = kBlockGroup / 4;  // of int8

template <numbers::DType kType>
struct BlockLayout {
  static constexpr numbers::BlockFormat kFormat = numbers::FormatOf(kType);
  static constexpr bool kFloat = kFormat.low_bits == 0;
  static constexpr bool kHasMin = kFormat.has_min;
  static constexpr bool kSixBits = kFormat.has_scales && kHasMin;
  static constexpr bool kByteScales = kFormat.has_scales && !kHasMin;
  // Groups that share a head.
  static constexpr size_t kGroups = kFormat.elements == 256 ? 8 : 1;
  static constexpr int kHalves = kByteScales ? 2 : 1;  // of a group, with a scale each
  static constexpr size_t kScaleWords = kSixBits ? 3 : (kByteScales ? 4 : 0);
  // Bytes of a column.
  static constexpr size_t kHead = kFloat ? 0 : 2 + (kHasMin ? 2 : 0) + 4 * kScaleWords;
  static constexpr size_t kHigh = 4 * kFormat.high_bits;
  static constexpr size_t kGroupBytes =
      kFloat ? kBlockGroup * kFormat.bytes : kHigh + 4 * static_cast<size_t>(kFormat.low_bits);
  static_assert(kFloat || kHead + kGroups * kGroupBytes == kFormat.bytes, "as in the file");
};

static constexpr size_t BlockGroups(size_t in) { return (in + kBlockGroup - 1) / kBlockGroup; }

// Bytes of a panel.
static constexpr size_t BlockPanelBytes(numbers::DType type, size_t in, size_t panel) {
  const numbers::BlockFormat format = numbers::FormatOf(type);
  return BlockGroups(in) * kBlockGroup / format.elements * format.bytes * panel;
}

// A matrix's rows in the file are whole blocks; floats may end anywhere.
static constexpr bool ValidBlockRow(numbers::DType type, size_t in) {
  return in > 0 && in % numbers::FormatOf(type).elements == 0;
}

// Words of one row in a group, with its scales.
static constexpr size_t BlockRowWords(numbers::DType dtype) {
  return dtype == numbers::DType::kI8 ? kGroupWords + 3
                                      : (dtype == numbers::DType::kBf16 ? 16 : 32);
}

// Rows with those that pad them, one at most.
static constexpr size_t PaddedRows(size_t rows) {
  return rows > 1 && rows < 8 ? (rows + 1) / 2 * 2 : rows;
}

// Words of packed rows.
static constexpr size_t BlockRowsWords(numbers::DType dtype, size_t in, size_t rows) {
  return PaddedRows(rows) * BlockGroups(in) * BlockRowWords(dtype);
}

// Tiles of packed rows, and where one begins: tile 0 at row 0, tile BlockRowTiles at PaddedRows.
static constexpr size_t BlockRowTiles(size_t rows, size_t tile_rows) {
  return (PaddedRows(rows) + tile_rows - 1) / tile_rows;
}
static constexpr size_t BlockTileBegin(size_t rows, size_t tile_rows, size_t tile) {
  return PaddedRows(rows) * tile / BlockRowTiles(rows, tile_rows);
}

// Whether rows are packed for a tile unit: bf16 always, so that a row's bits do not depend on its
// company; int8, whose bits are the same, from `tile_rows_min` rows on.
struct BlockRowCut {
  size_t tile_rows = 1;
  bool for_unit = false;
};
static constexpr BlockRowCut CutBlockRows(numbers::DType dtype, size_t rows, size_t tile_rows,
                                          size_t coarse_rows, size_t tile_rows_min) {
  const bool coarse =
      dtype == numbers::DType::kBf16 || (dtype == numbers::DType::kI8 && rows >= tile_rows_min);
  if (coarse && coarse_rows > tile_rows) return {coarse_rows, true};
  return {tile_rows, false};
}

// Where a row lies.
struct BlockRowPlace {
  size_t tile = 0;   // the first word of its tile
  size_t width = 0;  // rows of its tile
  size_t row = 0;    // in its tile
  bool for_unit = false;
};
static constexpr BlockRowPlace BlockRowAt(numbers::DType dtype, size_t in, size_t rows,
                                          BlockRowCut cut, size_t row) {
  size_t begin = 0, end = 0;
  if (cut.for_unit) {
    const size_t left = PaddedRows(rows) - row / cut.tile_rows * cut.tile_rows;
    begin = row / cut.tile_rows * cut.tile_rows;
    end = begin + (left < cut.tile_rows ? left : cut.tile_rows);
  } else {
    size_t tile = row * BlockRowTiles(rows, cut.tile_rows) / PaddedRows(rows);
    while (BlockTileBegin(rows, cut.tile_rows, tile + 1) <= row) ++tile;
    begin = BlockTileBegin(rows, cut.tile_rows, tile);
    end = BlockTileBegin(rows, cut.tile_rows, tile + 1);
  }
  return {begin * BlockGroups(in) * BlockRowWords(dtype), end - begin, row - begin, cut.for_unit};
}
// Word `word` < BlockRowWords of a group of the row.
static constexpr size_t BlockWordAt(numbers::DType dtype, const BlockRowPlace& place, size_t group,
                                    size_t word) {
  const size_t words = BlockRowWords(dtype);
  const size_t codes = dtype == numbers::DType::kI8 ? kGroupWords : words;
  const size_t first = place.tile + group * words * place.width;
  if (place.for_unit && word < codes) return first + place.row * codes + word;
  return first + word * place.width + place.row;
}

// Bytes of BlockGemmTask::scratch.
constexpr size_t kBlockScratchBytes = size_t{224} << 10;

}  // namespace penstock::cpu
