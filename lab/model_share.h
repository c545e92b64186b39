// How near a whole model comes to the arithmetic limit: sequences of equal length through all its
// layers, beside the peak measured in the same run.
//
// The limit: the multiply-adds of the model's program (program/program_cost.h), those of its linear
// layers and of attention, all at the peak of the model's type. Everything else a model does
// (norms, activations, softmax, conversions) is not counted, so 100 % cannot be reached.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"
#include "numbers/dtype.h"

namespace penstock::lab {

struct ModelShareOptions {
  std::string folder;
  std::string name = "model";  // part of the records' names
  int threads = 0;             // 0: one a processor
  int sequences = 128;
  int length = 128;  // tokens of each
  int rounds = 12;   // the best counts
  std::vector<numbers::DType> dtypes = {numbers::DType::kF32, numbers::DType::kBf16,
                                        numbers::DType::kI8};
};

// Prints a table; adds model.<type>.<name>_<sequences>x<length>.percent_of_limit.
Status MeasureModelShare(const ModelShareOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
