// Compares every kernel this processor can run with the scalar one, on seeded random inputs. Used
// by tests and by `penstock doctor`.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels.h"

namespace penstock::cpu {

struct KernelCheck {
  std::string isa;
  std::string kernel;    // "gemm k=64", "attention rotary", ...
  double error = 0;      // largest difference from scalar, relative to the largest scalar result
  double error_max = 0;  // bound on the error of another order of rounding
  bool ok() const { return error <= error_max; }
};

std::vector<KernelCheck> CheckKernels();

}  // namespace penstock::cpu
