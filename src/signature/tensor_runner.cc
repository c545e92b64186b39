#include "signature/tensor_runner.h"

namespace penstock::signature {
namespace {

bool HasFixedRows(const TensorSpec& spec) {
  if (spec.type == ElementType::kBytes || !spec.shape || spec.shape->empty()) return false;
  for (size_t i = 1; i < spec.shape->size(); ++i) {
    const DimensionRange& dimension = (*spec.shape)[i];
    if (!dimension.fixed() || dimension.min < 1) return false;
  }
  return true;
}

}  // namespace

bool TensorSignature::has_fixed_rows() const {
  if (max_batch_size < 1) return false;
  for (const auto* specs : {&inputs, &outputs}) {
    for (const TensorSpec& spec : *specs) {
      if (!HasFixedRows(spec)) return false;
    }
  }
  return true;
}

std::vector<int64_t> TensorSignature::RowShape(const TensorSpec& spec) {
  std::vector<int64_t> shape;
  for (size_t i = 1; i < spec.shape->size(); ++i) shape.push_back((*spec.shape)[i].min);
  return shape;
}

}  // namespace penstock::signature
