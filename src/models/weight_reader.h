// WeightReader: finds a model's tensors by name, checks their shapes and types, and puts them into
// a backend. Errors name the tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "files/tensor_store.h"
#include "models/weights.h"
#include "program/backend.h"
#include "program/view.h"

namespace penstock {

class WeightReader {
 public:
  // Counts parameters and bytes in `out`, whose tables own what Keep makes. Names may or may not
  // begin with `prefix`. All must outlive this.
  WeightReader(const TensorStore& store, std::string_view prefix, EncoderWeights* out)
      : store_(store), prefix_(prefix), out_(out) {}

  const TensorRecord* Find(const std::string& name) const;
  // The tensor of that name and shape, of one or two dimensions; -1 takes any length there. One
  // dimension: a view of one row.
  Expected<TensorView> View(const std::string& name, const std::vector<int64_t>& shape);
  // As View, copied into the backend's memory.
  Expected<const Table*> ReadTable(const std::string& name, const std::vector<int64_t>& shape);

  const Table* Keep(const TensorView& view);
  const Table* Keep(int64_t rows, int32_t width, const Backend::FillRows& fill);

  // Linear layers of [out_each, in], to be stacked by rows; all have a bias or none has.
  Expected<std::vector<LinearRows>> Linears(const std::vector<std::string>& names, int32_t out_each,
                                            int32_t in);
  Expected<std::unique_ptr<PackedLinear>> Pack(std::span<const LinearRows> parts, DType dtype,
                                               std::span<const float> factors = {});
  // One linear layer, packed.
  Expected<std::unique_ptr<PackedLinear>> Linear(const std::string& name, int32_t out, int32_t in,
                                                 DType dtype);
  // Old checkpoints call the two parts gamma and beta.
  Expected<Norm> ReadNorm(const std::string& name, int32_t width, float epsilon);

 private:
  const Table* Owned(std::unique_ptr<Table> table);

  const TensorStore& store_;
  std::string_view prefix_;
  EncoderWeights* out_;
};

// Rows [first, first + count) of stacked parts.
std::vector<LinearRows> RowsOf(std::span<const LinearRows> parts, int64_t first, int64_t count);

}  // namespace penstock
