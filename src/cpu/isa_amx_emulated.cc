// The amx build on a tile unit in C++. The linker may keep this file's copy of an inline function for
// the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__)

#include <immintrin.h>

namespace penstock::cpu {
namespace amx_emulated {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_emulated-inl.h"

using Base = BaseOf<Avx512Bf16Kernels, numbers::DType::kBf16, numbers::DType::kI8>;

// After Base.
#include "cpu/tile_table-inl.h"

constexpr Kernels kChanges = TileChanges("amx_emulated", 0);
}  // namespace
}  // namespace amx_emulated

const Kernels* EmulatedAmxChanges() { return &amx_emulated::kChanges; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* EmulatedAmxChanges() { return nullptr; }
}  // namespace penstock::cpu

#endif
