// The body of a request for inference (Open Inference Protocol): JSON up to the first NUL, then the
// bytes of binary inputs.
#include <memory>
#include <string>

#include "dialects/kserve/kserve_request.h"
#include "fuzz_util.h"
#include "json/json.h"
#include "signature/tensor_spec.h"
#include "threads/byte_budget.h"

namespace penstock {
namespace {

bool IsInside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// Elements that came as JSON are as many as the shape says, and read back as they were printed.
void CheckMade(const api::InferCall::Input& input) {
  const auto count = signature::ElementCount(input.shape);
  PENSTOCK_CHECK(count.has_value());
  const size_t size = signature::ElementBytes(input.type);
  PENSTOCK_CHECK(size == 0 || input.bytes.size() == *count * size);
  PENSTOCK_CHECK(dialects::CheckPrintable(input.type, input.bytes).ok());
  std::string printed;
  dialects::AppendTensorJson(input.type, input.bytes, &printed);
  PENSTOCK_CHECK(printed.size() <= dialects::TensorJsonBytesMax(input.type, input.bytes));
  const auto document = JsonDocument::Parse(printed);
  PENSTOCK_CHECK(document.ok());
  const int64_t flat[] = {static_cast<int64_t>(*count)};
  const auto again =
      dialects::ReadTensorJson(document->root(), input.type, flat, printed.size(), nullptr);
  PENSTOCK_CHECK(again.ok());
  const auto bytes = again->span();
  PENSTOCK_CHECK(std::equal(bytes.begin(), bytes.end(), input.bytes.begin(), input.bytes.end()));
}

void Check(const dialects::KserveRequest& request, std::string_view body) {
  const auto whole = std::as_bytes(std::span(body));
  PENSTOCK_CHECK(request.inputs.size() <= dialects::kRequestTensorsMax);
  PENSTOCK_CHECK(request.outputs.size() == request.forms.size());
  PENSTOCK_CHECK(request.shared_inputs.empty());
  for (const api::InferCall::Input& input : request.inputs) {
    PENSTOCK_CHECK(!input.name.empty() && input.shape.size() <= dialects::kRequestDimensionsMax);
    bool made = false;
    for (const dialects::TensorBytes& each : request.made) {
      made = made || (!input.bytes.empty() && each.data.get() == input.bytes.data());
    }
    PENSTOCK_CHECK(made || IsInside(input.bytes, whole));
    if (made) CheckMade(input);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const api::SharedMemory none(0);
  fuzz::Input input(data, size);
  const std::string json(input.Part());
  const std::string body = json + std::string(input.Rest());
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  RequestMemory memory(budget, Priority::kInteractive);
  const auto parsed = dialects::ParseKserveRequest(body, json.size(), none, &memory);
  if (parsed.ok()) {
    Check(*parsed, body);
    // No more is taken than the text can be worth.
    PENSTOCK_CHECK(memory.held() <= static_cast<int64_t>(16 * json.size()));
  } else {
    PENSTOCK_CHECK(!parsed.status().message().empty());
  }
  const auto header = dialects::KserveJsonBytes(json, body.size());
  PENSTOCK_CHECK(!header.ok() || *header <= body.size());
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)
