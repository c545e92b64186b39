// The bytes of an inference.ModelInferRequest: the reader that leaves
// raw_input_contents where they lie, against protobuf's own parser.
//
// What the reader takes is what protobuf reads. What protobuf reads is taken, unless it has groups,
// which the reader refuses, or is over a limit. A message takes no more memory than was asked for.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_util.h"
#include "grpc/infer_request.h"
#include "log/log.h"
#include "threads/byte_budget.h"

namespace penstock {
namespace {

constexpr int64_t kBudgetBytes = 4 << 20;

// Maps in the order of their keys.
std::string Bytes(const inference::ModelInferRequest& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream to(&bytes);
    google::protobuf::io::CodedOutputStream coded(&to);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

bool OverALimit(const inference::ModelInferRequest& message) {
  int parameters = message.parameters_size();
  for (const auto& input : message.inputs()) parameters += input.parameters_size();
  for (const auto& output : message.outputs()) parameters += output.parameters_size();
  const auto tensors = static_cast<int>(grpc::InferRequest::kTensorsMax);
  return message.inputs_size() > tensors || message.outputs_size() > tensors ||
         message.raw_input_contents_size() > tensors ||
         parameters > static_cast<int>(grpc::InferRequest::kParametersMax);
}

void CheckSame(const grpc::InferRequest& request, inference::ModelInferRequest* message) {
  PENSTOCK_CHECK(static_cast<int>(request.raw().size()) == message->raw_input_contents_size());
  for (size_t i = 0; i < request.raw().size(); ++i) {
    const auto raw = std::as_bytes(std::span(message->raw_input_contents(static_cast<int>(i))));
    PENSTOCK_CHECK(
        std::equal(raw.begin(), raw.end(), request.raw()[i].begin(), request.raw()[i].end()));
  }
  message->clear_raw_input_contents();
  PENSTOCK_CHECK(Bytes(request.head()) == Bytes(*message));
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const google::protobuf::LogSilencer quiet;
  fuzz::Input input(data, size);
  const int64_t budget_bytes = kBudgetBytes >> (input.Byte() & 7);
  const bool counts = input.Bit();
  const std::string_view bytes = input.Rest();
  const auto budget = std::make_shared<ByteBudget>(budget_bytes);
  RequestMemory memory(budget, Priority::kInteractive);
  inference::ModelInferRequest message;
  const bool parsed = message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  penstock::grpc::InferRequest request;
  const Status status = request.Read(std::string(bytes), counts ? &memory : nullptr);
  if (status.ok()) {
    PENSTOCK_CHECK(parsed);
    const auto of_objects = static_cast<int64_t>(sizeof(inference::ModelInferRequest));
    const auto used = static_cast<int64_t>(request.head().SpaceUsedLong()) - of_objects;
    PENSTOCK_CHECK(!counts || used <= memory.held());
    CheckSame(request, &message);
  } else {
    PENSTOCK_CHECK(!status.message().empty() && status.message().size() < 1000);
    const bool no_message = status.message().find("is not an inference") != std::string::npos;
    const bool refused = status.code() == StatusCode::kInvalidArgument && !no_message;
    PENSTOCK_CHECK(!refused || !parsed || OverALimit(message));
  }
  request.Clear();
  PENSTOCK_CHECK(request.raw().empty());
  return 0;
}
