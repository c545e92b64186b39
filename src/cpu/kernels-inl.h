// All kernels, in the order they need each other. Included inside namespace penstock::cpu::<isa>,
// after that set's Simd and Tiles.
// clang-format off
#include "cpu/gemm_kernels-inl.h"
#include "cpu/rows-inl.h"
#include "cpu/heads-inl.h"
#include "cpu/kv_types-inl.h"
#include "cpu/paged_attention-inl.h"
#include "cpu/block_kernels-inl.h"
// clang-format on
