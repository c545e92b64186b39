// WeightReader: finds a model's tensors by name, checks their shapes and types, and puts them into
// a backend. Errors name the tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/tensor_store.h"
#include "models/weights.h"
#include "program/backend.h"
#include "program/view.h"

namespace penstock::models {

class WeightReader {
 public:
  // Counts parameters and bytes in `out`, whose tables own what Keep makes. Names may or may not
  // begin with `prefix`. All must outlive this.
  WeightReader(const files::TensorStore& store, std::string_view prefix, EncoderWeights* out)
      : store_(store), prefix_(prefix), out_(out) {}

  const files::TensorRecord* Find(const std::string& name) const;
  // The tensor of that name and shape, of one or two dimensions; -1 takes any length there. One
  // dimension: a view of one row.
  Expected<program::TensorView> View(const std::string& name, const std::vector<int64_t>& shape);
  // As View, copied into the backend's memory.
  Expected<const program::Table*> ReadTable(const std::string& name,
                                            const std::vector<int64_t>& shape);

  const program::Table* Keep(const program::TensorView& view);
  const program::Table* Keep(int64_t rows, int32_t width, const program::Backend::FillRows& fill);

  // Linear layers of [out_each, in], to be stacked by rows; all have a bias or none has.
  Expected<std::vector<program::LinearRows>> Linears(const std::vector<std::string>& names,
                                                     int32_t out_each, int32_t in);
  Expected<std::unique_ptr<program::PackedLinear>> Pack(std::span<const program::LinearRows> parts,
                                                        numbers::DType dtype,
                                                        std::span<const float> factors = {});
  // One linear layer, packed.
  Expected<std::unique_ptr<program::PackedLinear>> Linear(const std::string& name, int32_t out,
                                                          int32_t in, numbers::DType dtype);
  // Old checkpoints call the two parts gamma and beta.
  Expected<program::Norm> ReadNorm(const std::string& name, int32_t width, float epsilon);

 private:
  const program::Table* Owned(std::unique_ptr<program::Table> table);

  const files::TensorStore& store_;
  std::string_view prefix_;
  EncoderWeights* out_;
};

// Rows [first, first + count) of stacked parts.
std::vector<program::LinearRows> RowsOf(std::span<const program::LinearRows> parts, int64_t first,
                                        int64_t count);

}  // namespace penstock::models
