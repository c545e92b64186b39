// The avx512 build of every kernel. The linker may keep this file's copy of an inline function for
// the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)

#include <immintrin.h>

namespace penstock::cpu {
namespace avx512 {
namespace {
#include "cpu/simd_avx512-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = NoBase;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "avx512", kAvx512,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace avx512

const Kernels* Avx512Kernels() { return &avx512::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* Avx512Kernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
