// The kernels that multiply by GGUF blocks, in the order they need each other. Included inside
// namespace penstock::cpu::<isa>, after gemm_kernels-inl.h.
// clang-format off
#include "cpu/block_rows-inl.h"
#include "cpu/block_codes-inl.h"
#include "cpu/block_gemv-inl.h"
#include "cpu/block_gemm-inl.h"
#include "cpu/tile_blocks-inl.h"
#include "cpu/block_types-inl.h"
// clang-format on
