// The avx512bf16 kernels, with those that a tile unit changes in their places. Included inside
// namespace penstock::cpu::<isa>, after that set's Simd and Tiles.
// clang-format off
#include "cpu/gemm_kernels-inl.h"
#include "cpu/block_kernels-inl.h"
// clang-format on

static_assert(kPanel == kUnitRows, "a panel is two tiles wide");

// What a unit changes in the table of avx512bf16, for WithChanges in amx.cc; the rest is left empty. A
// constant: code of this file must not run on a processor that lacks its instructions.
constexpr Kernels TileChanges(const char* name, uint32_t needs) {
  Kernels changes = {};
  changes.name = name;
  changes.needs = needs;
  changes.coarse_rows = static_cast<int32_t>(kGemmRows<DotBf16>);
  changes.pack_rows = PackRows;
  changes.gemm = Gemm;
  changes.peak = Peak;
  changes.attention = AttentionHead;
  changes.attention_scratch_floats = AttentionScratchFloats;
  changes.pack_block_rows = PackBlockRows;
  changes.block_gemm = BlockGemm;
  return changes;
}
