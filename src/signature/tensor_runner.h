// TensorRunner: a tensor model as the scheduler sees it: tensors in, tensors out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "signature/tensor_spec.h"

namespace penstock::signature {

// What a tensor model takes and gives.
struct TensorSignature {
  // With the dimension of rows first where the model has batches: {1, -1}, for larger requests than
  // a batch are split.
  std::vector<TensorSpec> inputs, outputs;
  // Rows of a run at most. 0: the first dimension has no meaning of its own, and a request is a
  // run.
  int32_t max_batch_size = 0;

  // Whether all rows have one shape and size, so that they may gather in memory made beforehand:
  // the model has batches, no BYTES, and all other dimensions are fixed.
  bool has_fixed_rows() const;
  // The shape of a row of this tensor: without the first dimension. Fixed rows only.
  static std::vector<int64_t> RowShape(const TensorSpec& spec);
};

// A tensor of any shape: elements row by row, little-endian. BYTES: each element is a length of 4
// bytes, then that number of bytes.
struct TensorData {
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// One thread at a time. Errors are of this run alone: the next one may go well.
class TensorRunner {
 public:
  virtual ~TensorRunner() = default;

  // Fixed rows: computes the first `rows` of `capacity` rows, 1 <= rows <= capacity <=
  // max_batch_size. inputs[i] and outputs[i] are [capacity, ...] of the signature's tensor i, at
  // addresses that suit their elements; rows from `rows` on hold anything and may be computed as
  // well.
  virtual Status RunRows(uint32_t rows, uint32_t capacity, std::span<const std::byte* const> inputs,
                         std::span<std::byte* const> outputs) = 0;
  // Any shapes that the signature takes. Inputs lie at multiples of 64. `outputs` are valid until
  // the next call.
  virtual Status Run(std::span<const TensorData> inputs, std::vector<TensorData>* outputs) = 0;

  // Whether a run can take these values; types and shapes suit the signature. So one request's
  // values do not fail a batch of several. Any thread, also during a run.
  virtual Status CheckValues(std::span<const TensorData> /*inputs*/) const { return Status::Ok(); }

  // Memory that ReleaseMemory gives back; the next run takes it again. Any thread; while a run is
  // under way nothing is released.
  virtual uint64_t HeldBytes() const { return 0; }
  virtual uint64_t ReleaseMemory() { return 0; }
};

}  // namespace penstock::signature
