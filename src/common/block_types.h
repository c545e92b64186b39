// What the blocks of GGUF files stand for. Format: github.com/ggml-org/ggml, ggml-common.h; all
// numbers little-endian, scales IEEE halves.
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
// Each product and sum is rounded to float, in the order given, without fused operations: the PyPI
// package gguf gives the same bits. The bits of a NaN are the processor's own.
#pragma once

#include <cstddef>

#include "common/dtype.h"

namespace penstock {

// `count` blocks at `from`, which need not be aligned, to count * BlockOf(dtype).elements floats.
// Of a block type.
void BlocksToF32(DType dtype, const std::byte* from, size_t count, float* to);

}  // namespace penstock
