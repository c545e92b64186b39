// The avxvnni build: avx2 with products of int8. The linker may keep this file's copy of an inline
// function for the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__AVXVNNI__)

#include <immintrin.h>

namespace penstock::cpu {
namespace avxvnni {
namespace {
#include "cpu/simd_avx2-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = BaseOf<Avx2Kernels, numbers::DType::kI8>;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "avxvnni", kAvx2 | kAvxVnni,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace avxvnni

const Kernels* AvxVnniKernels() { return &avxvnni::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* AvxVnniKernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
