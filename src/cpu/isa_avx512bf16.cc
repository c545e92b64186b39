// The avx512bf16 build: avx512vnni with products of bf16. The linker may keep this file's copy of an
// inline function for the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__)

#include <immintrin.h>

namespace penstock::cpu {
namespace avx512bf16 {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = BaseOf<Avx512VnniKernels, numbers::DType::kBf16>;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "avx512bf16", kAvx512 | kAvx512Vnni | kAvx512Bf16,
    true,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace avx512bf16

const Kernels* Avx512Bf16Kernels() { return &avx512bf16::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* Avx512Bf16Kernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
