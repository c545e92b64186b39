// A GGUF file: the input is the file.
#include <cmath>
#include <vector>

#include "files/gguf.h"
#include "files/gguf_test_util.h"
#include "fuzz_util.h"

namespace penstock {
namespace {

void CheckTensors(const files::GgufFile& file, std::span<const std::byte> bytes) {
  const std::byte* end_before = bytes.data();
  for (const files::TensorRecord& tensor : file.tensors) {
    PENSTOCK_CHECK(!tensor.name.empty() && tensor.name.size() <= files::kGgufNameBytesMax);
    PENSTOCK_CHECK(tensor.shape.size() <= files::kGgufRankMax && tensor.elements() > 0);
    const auto elements = static_cast<size_t>(tensor.elements());
    PENSTOCK_CHECK(tensor.data.size() == numbers::StoredBytes(tensor.dtype, elements));
    PENSTOCK_CHECK(tensor.shape.empty() || static_cast<size_t>(tensor.shape.back()) %
                                                   numbers::BlockOf(tensor.dtype).elements ==
                                               0);
    // In order, and one does not begin before the other ends.
    PENSTOCK_CHECK(tensor.data.data() >= end_before);
    end_before = tensor.data.data() + tensor.data.size();
    PENSTOCK_CHECK(end_before <= bytes.data() + bytes.size());
    std::vector<float> values(elements);
    PENSTOCK_CHECK(tensor.CopyToF32(values).ok());
    float sum = 0;
    for (const float value : values) sum += value;
    volatile float kept = sum;
    (void)kept;
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = files::ParseGguf(bytes);
  if (!file.ok()) {
    PENSTOCK_CHECK(!file.status().message().empty() && file.status().message().size() < 2000);
    return 0;
  }
  PENSTOCK_CHECK(file->version == 2 || file->version == 3);
  PENSTOCK_CHECK(file->metadata.values().size() <= size);
  CheckTensors(*file, bytes);
  volatile uint64_t kept = files::ReadEverything(*file);
  (void)kept;
  return 0;
}
