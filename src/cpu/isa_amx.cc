// The amx build: avx512bf16 with the GEMMs of encoders by the tile unit. The linker may keep this
// file's copy of an inline function for the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512BF16__) && defined(__AMX_TILE__)

#include <immintrin.h>

namespace penstock::cpu {
namespace amx {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/tiles_amx-inl.h"
// After Tiles.
#include "cpu/gemm_kernels-inl.h"

static_assert(kPanel == kUnitRows, "a panel is two tiles wide");

Kernels Table() {
  Kernels table = *Avx512Bf16Kernels();
  table.name = "amx";
  table.needs = kAvx512 | kAvx512Vnni | kAvx512Bf16 | kAmx;
  table.coarse_rows = static_cast<int32_t>(kGemmRows<DotBf16>);
  table.pack_rows = PackRows;
  table.gemm = Gemm;
  table.peak = Peak;
  table.attention = AttentionHead;
  table.attention_scratch_floats = AttentionScratchFloats;
  return table;
}
}  // namespace
}  // namespace amx

const Kernels* AmxKernels() {
  static const Kernels table = amx::Table();
  return &table;
}

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* AmxKernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
