// The scalar build of every kernel. The linker may keep this file's copy of an inline function for
// the whole program, so nothing of std is instantiated here.
#include <cmath>

#include "cpu/block_layout.h"
#include "cpu/kernels.h"

namespace penstock::cpu {
namespace scalar {
namespace {
#include "cpu/simd_scalar-inl.h"
// After Simd: these lines keep clang-format from sorting them.
#include "cpu/base-inl.h"
#include "cpu/tiles_none-inl.h"

using Base = NoBase;

// After Base.
#include "cpu/kernels-inl.h"

constexpr Kernels kKernels = {
    "scalar", 0,
    false,  // bf16
#include "cpu/table-inl.h"
};
}  // namespace
}  // namespace scalar

const Kernels* ScalarKernels() { return &scalar::kKernels; }

}  // namespace penstock::cpu
