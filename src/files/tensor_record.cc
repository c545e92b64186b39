#include "files/tensor_record.h"

#include "base/printable.h"

namespace penstock::files {

int64_t TensorRecord::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Status TensorRecord::CheckConvertible() const {
  if (numbers::ConvertsToF32(dtype)) return Status::Ok();
  return Status::Unsupported("tensor '" + Shown(name) + "' is " + numbers::DTypeName(dtype) +
                             "; weights must be F32, F16, BF16, F64 or a block type of GGUF");
}

Status TensorRecord::CopyToF32(std::span<float> out) const {
  PENSTOCK_CHECK(out.size() == static_cast<size_t>(elements()));
  PENSTOCK_RETURN_IF_ERROR(CheckConvertible());
  numbers::ConvertToF32(dtype, data.data(), out.size(), out.data());
  return Status::Ok();
}

}  // namespace penstock::files
