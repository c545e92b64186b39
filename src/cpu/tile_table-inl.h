// The avx512bf16 kernels, with those that a tile unit changes in their places. Included inside
// namespace penstock::cpu::<isa>, after that set's Simd and Tiles.
// clang-format off
#include "cpu/gemm_kernels-inl.h"
#include "cpu/block_kernels-inl.h"
// clang-format on

static_assert(kPanel == kUnitRows, "a panel is two tiles wide");

inline Kernels TileTable(const char* name, uint32_t needs) {
  Kernels table = *Avx512Bf16Kernels();
  table.name = name;
  table.needs |= needs;
  table.coarse_rows = static_cast<int32_t>(kGemmRows<DotBf16>);
  table.pack_rows = PackRows;
  table.gemm = Gemm;
  table.peak = Peak;
  table.attention = AttentionHead;
  table.attention_scratch_floats = AttentionScratchFloats;
  table.pack_block_rows = PackBlockRows;
  table.block_gemm = BlockGemm;
  return table;
}
