// The avx2 build of every kernel. The linker may keep this file's copy of an inline function for
// the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

namespace penstock::cpu {
namespace avx2 {
namespace {
#include "cpu/simd_avx2-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = NoBase;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "avx2", kAvx2,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace avx2

const Kernels* Avx2Kernels() { return &avx2::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* Avx2Kernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
