#include "grpc/infer_request.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <optional>
#include <utility>

#include "grpc/proto_message.h"

namespace penstock {
namespace {

using google::protobuf::io::CodedInputStream;

// Field numbers as in inference.proto.
constexpr uint32_t kParameters = 4, kInputs = 5, kOutputs = 6, kRaw = 7;
// Head messages larger than this are not kept for the next call.
constexpr size_t kKeptBytesMax = 64 << 10;

// What a message is made of, as far as its memory depends on it.
enum class Kind { kRequest, kTensor, kOutput, kContents, kParameter };

struct Counts {
  int64_t memory = kFirstBytes;
  size_t inputs = 0, outputs = 0, parameters = 0;
};

// The message that a field of another holds.
std::optional<Kind> KindOf(Kind in, uint32_t field) {
  if (in == Kind::kRequest) {
    if (field == kParameters) return Kind::kParameter;
    if (field == kInputs) return Kind::kTensor;
    if (field == kOutputs) return Kind::kOutput;
  }
  if (in == Kind::kTensor && field == 4) return Kind::kParameter;
  if (in == Kind::kTensor && field == 5) return Kind::kContents;
  if (in == Kind::kOutput && field == 2) return Kind::kParameter;
  return std::nullopt;
}

// Memory of a field's value.
int64_t ValueBytes(Kind in, const WireField& field) {
  if (in == Kind::kTensor && field.number == 3) return PackedBytes(field.value, 8);  // shape
  if (in == Kind::kContents && field.number <= 5) {
    constexpr int64_t kWidths[] = {0, 1, 4, 8, 4, 8};  // of bool_contents and so on
    return PackedBytes(field.value, kWidths[field.number]);
  }
  return static_cast<int64_t>(field.value.size());
}

Status NoMessage() {
  return Status::InvalidArgument("the message is no inference.ModelInferRequest");
}

Status Count(std::span<const std::byte> bytes, Kind in, Counts* counts) {
  WireReader reader(bytes);
  while (!reader.empty()) {
    const auto field = reader.Next();
    if (!field) return NoMessage();
    if (in == Kind::kRequest && field->number == kRaw) continue;
    counts->memory += field->is_bytes ? kObjectBytes : kNumberBytes;
    if (!field->is_bytes) continue;
    const auto inner = KindOf(in, field->number);
    if (!inner) {
      counts->memory += ValueBytes(in, *field);
      continue;
    }
    if (*inner == Kind::kTensor) ++counts->inputs;
    if (*inner == Kind::kOutput) ++counts->outputs;
    if (*inner == Kind::kParameter) ++counts->parameters;
    PENSTOCK_RETURN_IF_ERROR(Count(field->value, *inner, counts));
  }
  return Status::Ok();
}

Status CheckCount(size_t count, size_t limit, const char* what) {
  if (count <= limit) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("the request has {} {}; at most {} are allowed", count, what, limit), what);
}

}  // namespace

Status InferRequest::Read(std::string message, RequestMemory* memory) {
  message_ = std::move(message);
  const auto bytes = std::as_bytes(std::span(message_));
  Counts counts;
  PENSTOCK_RETURN_IF_ERROR(Count(bytes, Kind::kRequest, &counts));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(counts.inputs, kTensorsMax, "inputs"));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(counts.outputs, kTensorsMax, "outputs"));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(counts.parameters, kParametersMax, "parameters"));
  if (memory != nullptr) PENSTOCK_RETURN_IF_ERROR(memory->Take(counts.memory));
  raw_.clear();
  runs_.clear();
  WireReader reader(bytes);
  const std::byte* run = reader.at();
  while (!reader.empty()) {
    const std::byte* const begin = reader.at();
    const WireField field = *reader.Next();  // as Count has seen it
    if (field.number != kRaw) continue;
    if (!field.is_bytes) return NoMessage();
    if (raw_.size() == kTensorsMax) return CheckCount(kTensorsMax + 1, kTensorsMax, "inputs");
    raw_.push_back(field.value);
    if (begin != run) runs_.emplace_back(run, begin);
    run = reader.at();
  }
  if (const std::byte* const end = bytes.data() + bytes.size(); run != end) {
    runs_.emplace_back(run, end);
  }
  head_.Clear();
  for (const auto part : runs_) {
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(part.data()),
                            static_cast<int>(part.size()));
    if (!head_.MergeFromCodedStream(&stream)) return NoMessage();
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

}  // namespace penstock
