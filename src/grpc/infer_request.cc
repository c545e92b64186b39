#include "grpc/infer_request.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <utility>

#include "grpc/proto_message.h"

namespace penstock::grpc {
namespace {

using google::protobuf::io::CodedInputStream;

// ModelInferRequest.raw_input_contents.
constexpr uint32_t kRaw = 7;
// Head messages larger than this are not kept for the next call.
constexpr size_t kKeptBytesMax = 64 << 10;

Status NoMessage() {
  return Status::InvalidArgument("the message is not an inference.ModelInferRequest");
}

Status CheckCount(int count, size_t limit, const char* what) {
  if (static_cast<size_t>(count) <= limit) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("the request has {} {}; at most {} are allowed", count, what, limit), what);
}

}  // namespace

Status InferRequest::Read(std::string message, RequestMemory* memory) {
  message_ = std::move(message);
  head_.Clear();
  PENSTOCK_RETURN_IF_ERROR(Split());
  int64_t cost = 0;
  for (const auto part : runs_) {
    const auto of_part = MessageCost(part, *inference::ModelInferRequest::descriptor());
    if (!of_part) return NoMessage();
    cost += *of_part;
  }
  if (memory != nullptr) PENSTOCK_RETURN_IF_ERROR(memory->Take(cost));
  for (const auto part : runs_) {
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(part.data()),
                            static_cast<int>(part.size()));
    if (!head_.MergeFromCodedStream(&stream)) return NoMessage();
  }
  int parameters = head_.parameters_size();
  for (const auto& input : head_.inputs()) parameters += input.parameters_size();
  for (const auto& output : head_.outputs()) parameters += output.parameters_size();
  PENSTOCK_RETURN_IF_ERROR(CheckCount(head_.inputs_size(), kTensorsMax, "inputs"));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(head_.outputs_size(), kTensorsMax, "outputs"));
  return CheckCount(parameters, kParametersMax, "parameters");
}

// Into raw contents and what lies around them.
Status InferRequest::Split() {
  raw_.clear();
  runs_.clear();
  const auto bytes = std::as_bytes(std::span(message_));
  WireReader reader(bytes);
  const std::byte* run = reader.at();
  while (!reader.empty()) {
    const std::byte* const begin = reader.at();
    const auto field = reader.Next();
    if (!field) return NoMessage();
    if (field->number != kRaw) continue;
    if (!field->is_bytes) return NoMessage();
    if (raw_.size() == kTensorsMax) return CheckCount(kTensorsMax + 1, kTensorsMax, "inputs");
    raw_.push_back(field->value);
    if (begin != run) runs_.emplace_back(run, begin);
    run = reader.at();
  }
  if (const std::byte* const end = bytes.data() + bytes.size(); run != end) {
    runs_.emplace_back(run, end);
  }
  return Status::Ok();
}

void InferRequest::Clear() {
  size_t bytes = 0;
  for (const auto part : runs_) bytes += part.size();
  if (bytes > kKeptBytesMax) inference::ModelInferRequest().Swap(&head_);
  raw_.clear();
  runs_.clear();
  if (message_.capacity() > kKeptBytesMax) std::string().swap(message_);
}

}  // namespace penstock::grpc
