// Compares every kernel this processor can run with the scalar one, on seeded random inputs.
// What the tests assert and what `penstock doctor` prints.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels.h"

namespace penstock::cpu {

struct KernelCheck {
  std::string isa;
  std::string kernel;    // "gemm k=64", "attention rotary", ...
  double error = 0;      // largest difference from scalar, relative to the largest scalar result
  double error_max = 0;  // what rounding in another order explains
  bool ok() const { return error <= error_max; }
};

std::vector<KernelCheck> CheckKernels();

}  // namespace penstock::cpu
