// Compares every kernel this processor can run with the scalar one, on seeded random inputs. Used
// by tests and by `penstock doctor` (devices/backends.h).
#pragma once

#include <vector>

#include "program/kernel_difference.h"

namespace penstock::cpu {

// "avx512 gemm k=64", "avx2 attention rotary", ... beside the scalar ones.
std::vector<program::KernelDifference> CheckKernels();

}  // namespace penstock::cpu
