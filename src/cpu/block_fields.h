// The fields of GGUF's blocks, as kernels and the repacking read them. How a block lies in a file:
// common/block_types.h.
//
// An element is scale (code - offset) + min. scale: d, or d times the scale of its 32 (Q6_K: 16)
// elements; min: m, or -m times the min of its 32 elements; d and m are f16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/dtype.h"

namespace penstock::cpu {

// Types that a matrix may be stored in. Static, as all functions of headers that instruction sets
// include: else the linker might keep one set's copy for the whole program.
static constexpr DType kStoredTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ8_0,
                                         DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ4K,  DType::kQ5K,  DType::kQ6K};

struct BlockFormat : DTypeBlock {
  int offset;     // of a code
  int low_bits;   // bits of a code in one plane, 8 or 4 ...
  int high_bits;  // ... and in another; both 0: floats
  bool has_min;
  bool has_scales;  // of 6 or 8 bits, beside d
};

static constexpr BlockFormat FormatOf(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return {BlockOf(type), 0, 8, 0, false, false};
    case DType::kQ4_0:
      return {BlockOf(type), 8, 4, 0, false, false};
    case DType::kQ4_1:
      return {BlockOf(type), 0, 4, 0, true, false};
    case DType::kQ5_0:
      return {BlockOf(type), 16, 4, 1, false, false};
    case DType::kQ5_1:
      return {BlockOf(type), 0, 4, 1, true, false};
    case DType::kQ4K:
      return {BlockOf(type), 0, 4, 0, true, true};
    case DType::kQ5K:
      return {BlockOf(type), 0, 4, 1, true, true};
    case DType::kQ6K:
      return {BlockOf(type), 32, 4, 2, false, true};
    default:
      return {BlockOf(type), 0, 0, 0, false, false};
  }
}

// Elements that share one of the scales beside d.
static constexpr size_t ScaleElements(DType type) { return type == DType::kQ6K ? 16 : 32; }

constexpr size_t kBlockElementsMax = 256;

// A block's fields, as integers.
struct BlockFields {
  uint16_t d = 0;  // f16
  uint16_t m = 0;  // f16
  // Codes before `offset` is taken off: 0 .. 63; of Q8_0 -128 .. 127.
  int8_t codes[kBlockElementsMax];
  int8_t scales[16];  // for 32 elements each: 8 of them; Q6_K: for 16
  int8_t mins[8];     // for 32 elements each
};

// One block of a block type.
void ReadBlock(DType type, const std::byte* block, BlockFields* fields);
// What its fields stand for, to the bit as ConvertToF32 has it.
void FieldsToF32(DType type, const BlockFields& fields, float* to);

}  // namespace penstock::cpu
