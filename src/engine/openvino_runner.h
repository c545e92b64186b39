// Runners of tensor models that OpenVINO computes, as the tensor scheduler runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "openvino/tensor_model.h"
#include "signature/tensor_runner.h"

namespace penstock::engine {

// A model compiled for a batch of that many rows.
struct CompiledRows {
  uint32_t rows = 0;
  double run_s = 0;  // of one run
  std::shared_ptr<const openvino::CompiledModel> compiled;
};

// For each number of rows up to rows_max, the size to run first so that all are computed soonest:
// an index into `sizes`. A size with more rows than are left computes some in vain. `sizes` has one
// of a single row.
std::vector<uint8_t> PlanRows(std::span<const CompiledRows> sizes, uint32_t rows_max);

// Of a model with rows of fixed shape. A batch is run in parts, each of one of the sizes, the
// smallest first in `sizes`. They read and write the scheduler's memory where it is; only rows that
// are fewer than their size are copied, so that no other rows are computed with them.
Expected<std::unique_ptr<signature::TensorRunner>> NewRowsRunner(
    const signature::TensorSignature& signature, std::span<const CompiledRows> sizes);

// Of any other model.
Expected<std::unique_ptr<signature::TensorRunner>> NewShapesRunner(
    const openvino::CompiledModel& compiled);

}  // namespace penstock::engine
