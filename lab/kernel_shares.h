// How much of the processor the kernels use: every linear layer of known encoder shapes, and
// attention and norms, beside the arithmetic peak and the memory bandwidth measured in the same
// run.
//
// Each kernel declares its operations and its bytes (operands read once, results written once);
// the time is the best of several rounds, rounds of all kernels and of the peaks interleaved, so
// that a busy machine slows all alike. Activations are f32 before and after, as in a model:
// converting them is part of the time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"
#include "numbers/dtype.h"

namespace penstock::lab {

struct KernelShareOptions {
  int threads = 0;                      // 0: one a processor
  std::vector<int> tokens = {16, 256};  // rows of x
  std::vector<std::string> models;      // of KernelShareModels(); empty: all
  std::vector<numbers::DType> dtypes = {numbers::DType::kF32, numbers::DType::kBf16,
                                        numbers::DType::kI8};
  int rounds = 12;
  // A library with the functions of bench/onednn_kernels.cc; "": none.
  std::string onednn_library;
};

// "MiniLM-L6", "bge-base", ...
std::vector<std::string> KernelShareModels();

// Prints a table; adds gemm.<type>.<model>_<tokens>.percent_of_peak for the linear layers of a
// layer together. kInvalidArgument: an unknown model.
Status MeasureKernelShares(const KernelShareOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
