// Weights of GGUF's blocks on a device: codes of 4 or 8 bits, and a scale and an offset in f16 for
// each 32 of them.
//
// w = code * scale + offset in f16, rounded once: what a block stands for, within 2^-10 of the
// block's largest number. The narrow product makes w in registers (gemm_narrow-inl.h), others from
// pieces that Unpack makes (unpack-inl.h): the same numbers, and so the same bits. Rows are divided
// by a power of two, as those of f16 are (OperandScaleOf).
//
// Layout: pieces of 16 features by 64 of k, each in two halves of 8 features: codes, then scales and
// offsets. A lane of a warp has feature lane / 4, and of each 16 of k the codes 2t, 2t + 1, 2t + 8
// and 2t + 9 with t = lane % 4, as tensor cores take them:
//   8 bits   16 bytes a lane: 4 codes of each 16 of k
//   4 bits   8 bytes a lane: a word for each 32 of k, whose pair p has bits 4 p and 16 + 4 p on
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/kernels.h"
#include "numbers/dtype.h"
#include "program/view.h"

namespace penstock::cuda {

// kNone: not of blocks.
BlockForm BlockFormOf(numbers::DType stored);
// Bytes of a matrix in that form.
uint64_t BlockBytes(BlockForm form, int64_t features, int64_t k);
// Bytes of 16 features.
uint64_t BlockRowBytes(BlockForm form, int64_t k);
// Rows [first, first + count) of a matrix of blocks, count <= 16, as their pieces. `scales`: [count],
// what the rows were divided by.
void WriteBlocks(const program::TensorView& from, int64_t first, int64_t count, std::byte* to,
                 float* scales);

}  // namespace penstock::cuda
