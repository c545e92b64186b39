// The NEON build with products of int8 and bf16. The linker may keep this file's copy of an inline
// function for the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)

#include <arm_neon.h>

namespace penstock::cpu {
namespace i8mm {
namespace {
#include "cpu/simd_neon-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = BaseOf<NeonKernels, numbers::DType::kBf16, numbers::DType::kI8>;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "i8mm", kNeon | kI8mm,
    true,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace i8mm

const Kernels* I8mmKernels() { return &i8mm::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* I8mmKernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
