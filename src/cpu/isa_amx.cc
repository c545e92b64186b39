// The amx build: avx512bf16 with GEMMs, of blocks too, and attention of encoders by the tile unit.
// The linker may keep this file's copy of an inline function for the whole program, so nothing of std
// is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512BF16__) && (defined(__AMX_TILE__) || defined(__AMXTILE__))

#include <immintrin.h>

namespace penstock::cpu {
namespace amx {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_amx-inl.h"

using Base = BaseOf<Avx512Bf16Kernels, numbers::DType::kBf16, numbers::DType::kI8>;

// After Base.
#include "cpu/tile_table-inl.h"

constexpr Kernels kChanges = TileChanges("amx", kAmx);
}  // namespace
}  // namespace amx

const Kernels* AmxChanges() { return &amx::kChanges; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* AmxChanges() { return nullptr; }
}  // namespace penstock::cpu

#endif
