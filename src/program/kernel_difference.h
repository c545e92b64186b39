// How far a kernel's results are from those of plain arithmetic.
#pragma once

#include <string>

namespace penstock::program {

struct KernelDifference {
  std::string of;        // "avx512 gemm k=64", the name of a layer's tensor, ...
  double error = 0;      // the largest difference, of the largest number; infinite: not finite
  double error_max = 0;  // what another order of rounding may make; 0: every bit must agree
  bool ok() const { return error <= error_max; }
};

}  // namespace penstock::program
