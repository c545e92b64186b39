// The avx512vnni build: avx512 with products of int8. The linker may keep this file's copy of an
// inline function for the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)

#include <immintrin.h>

namespace penstock::cpu {
namespace avx512vnni {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = BaseOf<Avx512Kernels, numbers::DType::kI8>;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "avx512vnni", kAvx512 | kAvx512Vnni,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace avx512vnni

const Kernels* Avx512VnniKernels() { return &avx512vnni::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* Avx512VnniKernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
