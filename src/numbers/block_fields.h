// The fields of GGUF's blocks, as the kernels' panels and the conversion to floats read them.
// Format: github.com/ggml-org/ggml, ggml-common.h; all numbers little-endian, scales IEEE halves.
//
// clang-format off
//   type  elements  bytes in order                                      an element is
//   Q8_0  32        scale, 32 signed codes                              scale * code
//   Q4_0  32        scale, 16 pairs of 4-bit codes                      scale * (code - 8)
//   Q4_1  32        scale, minimum, 16 pairs                            scale * code + minimum
//   Q5_0  32        scale, 32 fifth bits, 16 pairs                      scale * (code - 16)
//   Q5_1  32        scale, minimum, 32 fifth bits, 16 pairs             scale * code + minimum
//   Q4_K  256       scale, scale of minima, 12 bytes of 6-bit           (scale * factor) * code
//                   factors, 128 pairs                                  - scale of minima * factor
//   Q5_K  256       as Q4_K, with 32 bytes of fifth bits before the     as Q4_K
//                   pairs
//   Q6_K  256       128 pairs, 64 bytes of upper bits, 16 signed        (scale * factor)
//                   factors, scale                                      * (code - 32)
// clang-format on
//
// So an element is scale (code - offset) + min. scale: d, or d times the scale of its 32 (Q6_K: 16)
// elements; min: m, or -m times the min of its 32 elements; d and m are f16. Each product and sum
// is rounded to float, in this order, without fused operations: the PyPI package gguf gives the
// same bits. The bits of a NaN are the processor's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers/dtype.h"

namespace penstock::numbers {

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
// What its fields stand for.
void FieldsToF32(DType type, const BlockFields& fields, float* to);
// `count` blocks at `from`, which need not be aligned, to count * BlockOf(type).elements floats.
void BlocksToF32(DType type, const std::byte* from, size_t count, float* to);

}  // namespace penstock::numbers
