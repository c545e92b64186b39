// The NEON build of every kernel. The linker may keep this file's copy of an inline function for
// the whole program, so nothing of std is instantiated here.
#include "cpu/block_layout.h"
#include "cpu/kernels.h"

#if defined(__aarch64__) && defined(__ARM_NEON)

#include <arm_neon.h>

namespace penstock::cpu {
namespace neon {
namespace {
#include "cpu/simd_neon-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = NoBase;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "neon", kNeon,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace neon

const Kernels* NeonKernels() { return &neon::kKernels; }

}  // namespace penstock::cpu

#else

namespace penstock::cpu {
const Kernels* NeonKernels() { return nullptr; }
}  // namespace penstock::cpu

#endif
