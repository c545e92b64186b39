#include "grpc/infer_tensors.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>

#include "api/infer_parameters.h"
#include "api/service.h"
#include "api/types.h"
#include "base/printable.h"
#include "threads/byte_budget.h"

namespace penstock::grpc {
namespace {

using google::protobuf::io::CodedOutputStream;
using inference::InferTensorContents;

constexpr size_t kNameBytesMax = 1024;
constexpr char kFinalResponse[] = "triton_enable_empty_final_response";
// Tags on the wire, of fields that hold bytes: number << 3 | 2.
constexpr uint8_t kRawOutputTag = 6 << 3 | 2;      // ModelInferResponse.raw_output_contents
constexpr uint8_t kInferResponseTag = 2 << 3 | 2;  // ModelStreamInferResponse.infer_response

Expected<api::InferParameter> ParameterOf(const std::string& name,
                                          const inference::InferParameter& value) {
  api::InferParameter parameter{.name = name};
  switch (value.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam:
      parameter.value = value.bool_param();
      return parameter;
    case inference::InferParameter::kInt64Param:
      parameter.value = value.int64_param();
      return parameter;
    case inference::InferParameter::kStringParam:
      parameter.value = std::string_view(value.string_param());
      return parameter;
    case inference::InferParameter::kDoubleParam:
      parameter.value = value.double_param();
      return parameter;
    case inference::InferParameter::kUint64Param:
      if (value.uint64_param() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Status::InvalidArgument(
            fmt::format("the parameter '{}' must be 9223372036854775807 at most", Shown(name)),
            name.substr(0, 100));
      }
      parameter.value = static_cast<int64_t>(value.uint64_param());
      return parameter;
    case inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return Status::InvalidArgument(fmt::format("the parameter '{}' has no value", Shown(name)),
                                 name.substr(0, 100));
}

template <typename Map, typename Parameters>
Status SetAll(const Map& map, Parameters* parameters) {
  for (const auto& [name, value] : map) {
    PENSTOCK_ASSIGN_OR_RETURN(const api::InferParameter parameter, ParameterOf(name, value));
    PENSTOCK_RETURN_IF_ERROR(parameters->Set(parameter));
  }
  return Status::Ok();
}

Status CheckName(const std::string& name) {
  if (!name.empty() && name.size() <= kNameBytesMax) return Status::Ok();
  return Status::InvalidArgument(fmt::format("'name' must have 1 to {} bytes", kNameBytesMax));
}

template <typename T>
std::span<const std::byte> AsTheyAre(const google::protobuf::RepeatedField<T>& values) {
  return std::as_bytes(std::span(values.data(), static_cast<size_t>(values.size())));
}

// Numbers that the wire has in 32 bits, as elements of fewer.
template <typename Narrow, typename Wide>
Status CopyNarrow(const google::protobuf::RepeatedField<Wide>& values, std::byte* to) {
  for (const Wide value : values) {
    const auto narrow = static_cast<Narrow>(value);
    if (static_cast<Wide>(narrow) != value) {
      return Status::InvalidArgument(
          fmt::format("the element {} is not in the range of its datatype", value));
    }
    std::memcpy(to, &narrow, sizeof narrow);
    to += sizeof narrow;
  }
  return Status::Ok();
}

}  // namespace

Status InferTensors::Read(std::string message, api::Service* service, Clock::time_point begin) {
  service_ = service;
  PENSTOCK_RETURN_IF_ERROR(request_.Read(std::move(message), context.memory.get()));
  model = request_.head().model_name();
  version = request_.head().model_version();
  raw_used_ = 0;
  shared_bytes_ = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadParameters(begin));
  PENSTOCK_RETURN_IF_ERROR(ReadInputs());
  return ReadOutputs();
}

Status InferTensors::ReadParameters(Clock::time_point begin) {
  if (request_.head().parameters().empty()) return Status::Ok();
  api::InferRequestParameters parameters;
  for (const auto& [name, value] : request_.head().parameters()) {
    if (name == kFinalResponse) continue;  // a tensor model's only answer is its last
    PENSTOCK_ASSIGN_OR_RETURN(const api::InferParameter parameter, ParameterOf(name, value));
    PENSTOCK_RETURN_IF_ERROR(parameters.Set(parameter));
  }
  parameters.ApplyTo(begin, &context);
  return Status::Ok();
}

Status InferTensors::ReadInputs() {
  const auto& tensors = request_.head().inputs();
  inputs.resize(static_cast<size_t>(tensors.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& tensor = tensors[static_cast<int>(i)];
    const Status status = ReadInput(tensor, i);
    if (!status.ok()) {
      return status.Annotate(fmt::format("input {} ('{}')", i, Shown(tensor.name())));
    }
  }
  if (raw_used_ == request_.raw().size()) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("raw_input_contents has {} tensors, and {} of the inputs want one",
                  request_.raw().size(), raw_used_),
      "raw_input_contents");
}

Status InferTensors::ReadInput(const inference::ModelInferRequest::InferInputTensor& tensor,
                               size_t index) {
  Input& input = inputs[index];
  PENSTOCK_RETURN_IF_ERROR(CheckName(tensor.name()));
  input.name = tensor.name();
  const auto type = signature::ElementTypeOf(tensor.datatype());
  if (!type) {
    return Status::InvalidArgument(
        fmt::format(
            "'{}' is not a datatype; BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, "
            "INT64, FP16, BF16, FP32, FP64 and BYTES are",
            Shown(tensor.datatype())),
        "datatype");
  }
  input.type = *type;
  if (static_cast<size_t>(tensor.shape_size()) > InferRequest::kDimensionsMax) {
    return Status::InvalidArgument(
        fmt::format("the shape has {} dimensions; at most {} are allowed", tensor.shape_size(),
                    InferRequest::kDimensionsMax),
        "shape");
  }
  input.shape.assign(tensor.shape().begin(), tensor.shape().end());
  api::InferInputParameters parameters;
  PENSTOCK_RETURN_IF_ERROR(SetAll(tensor.parameters(), &parameters));
  const api::SharedMemoryParameters& shared = parameters.shared_memory;
  if (tensor.has_contents() && (shared.used() || !request_.raw().empty())) {
    return Status::InvalidArgument(
        fmt::format("its elements are in 'contents', and {}; only one of them may be used",
                    shared.used() ? "in shared memory" : "raw_input_contents is there too"),
        "contents");
  }
  if (shared.used()) {
    api::SharedMemorySlice slice;
    PENSTOCK_ASSIGN_OR_RETURN(
        slice, service_->shared_memory().Slice(shared.region, shared.offset, shared.bytes));
    shared_bytes_ += slice.bytes();
    shared_.push_back({index, std::move(slice)});
    return Status::Ok();
  }
  if (!request_.raw().empty()) {
    const size_t raw = raw_used_++;
    input.bytes = raw < request_.raw().size() ? request_.raw()[raw] : std::span<const std::byte>();
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(input.bytes, ReadContents(tensor.contents(), input.type));
  return Status::Ok();
}

Expected<std::span<const std::byte>> InferTensors::ReadContents(const InferTensorContents& contents,
                                                                signature::ElementType type) {
  using enum signature::ElementType;
  if (type == kFp16 || type == kBf16) {
    return Status::InvalidArgument(
        fmt::format("elements of {} have no field in 'contents'; send them as raw_input_contents",
                    signature::ElementTypeName(type)),
        "contents");
  }
  std::span<const std::byte> elements;  // of the type's own field
  bool others = false;
  const auto see = [&](const auto& values, std::initializer_list<signature::ElementType> of) {
    const bool own = std::find(of.begin(), of.end(), type) != of.end();
    if (!own && !values.empty()) others = true;
    if constexpr (requires { AsTheyAre(values); }) {
      if (own) elements = AsTheyAre(values);
    }
  };
  see(contents.bool_contents(), {kBool});
  see(contents.int_contents(), {kInt8, kInt16, kInt32});
  see(contents.int64_contents(), {kInt64});
  see(contents.uint_contents(), {kUint8, kUint16, kUint32});
  see(contents.uint64_contents(), {kUint64});
  see(contents.fp32_contents(), {kFp32});
  see(contents.fp64_contents(), {kFp64});
  see(contents.bytes_contents(), {kBytes});
  if (others) {
    return Status::InvalidArgument(
        fmt::format("its elements are not in the field of 'contents' for {}",
                    signature::ElementTypeName(type)),
        "contents");
  }
  if (type == kBytes) return JoinTexts(contents);
  const size_t width = signature::ElementBytes(type);
  const bool narrow = type == kInt8 || type == kInt16 || type == kUint8 || type == kUint16;
  if (!narrow) return elements;
  PENSTOCK_ASSIGN_OR_RETURN(const std::span<std::byte> made,
                            Make(elements.size() / sizeof(int32_t) * width));
  Status status;
  if (type == kInt8) status = CopyNarrow<int8_t>(contents.int_contents(), made.data());
  if (type == kInt16) status = CopyNarrow<int16_t>(contents.int_contents(), made.data());
  if (type == kUint8) status = CopyNarrow<uint8_t>(contents.uint_contents(), made.data());
  if (type == kUint16) status = CopyNarrow<uint16_t>(contents.uint_contents(), made.data());
  if (!status.ok()) return status;
  return std::span<const std::byte>(made);
}

Expected<std::span<const std::byte>> InferTensors::JoinTexts(const InferTensorContents& contents) {
  size_t bytes = 0;
  for (const std::string& text : contents.bytes_contents()) bytes += sizeof(uint32_t) + text.size();
  PENSTOCK_ASSIGN_OR_RETURN(const std::span<std::byte> made, Make(bytes));
  std::byte* to = made.data();
  for (const std::string& text : contents.bytes_contents()) {
    const auto size = static_cast<uint32_t>(text.size());
    std::memcpy(to, &size, sizeof size);
    std::memcpy(to + sizeof size, text.data(), text.size());
    to += sizeof size + text.size();
  }
  return std::span<const std::byte>(made);
}

Expected<std::span<std::byte>> InferTensors::Make(size_t bytes) {
  if (context.memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(context.memory->Take(static_cast<int64_t>(bytes)));
  }
  made_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return std::span(made_.back().get(), bytes);
}

Status InferTensors::ReadOutputs() {
  const auto& tensors = request_.head().outputs();
  outputs.resize(static_cast<size_t>(tensors.size()));
  places_.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& tensor = tensors[static_cast<int>(i)];
    outputs[i].name = tensor.name();
    outputs[i].sink = {};
    if (tensor.parameters().empty()) continue;
    api::InferOutputParameters parameters;
    Status status = SetAll(tensor.parameters(), &parameters);
    const api::SharedMemoryParameters& shared = parameters.shared_memory;
    if (status.ok() && shared.used()) {
      auto slice = service_->shared_memory().Slice(shared.region, shared.offset, shared.bytes);
      status = slice.status();
      if (status.ok()) {
        places_.resize(i + 1);
        places_[i] = {std::string(shared.region), shared.offset, *std::move(slice)};
      }
    }
    if (!status.ok()) {
      return status.Annotate(fmt::format("output {} ('{}')", i, Shown(tensor.name())));
    }
  }
  return Status::Ok();
}

Status InferTensors::ReadShared() {
  for (const SharedInput& shared : shared_) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::span<std::byte> into, Make(shared.slice.bytes()));
    PENSTOCK_RETURN_IF_ERROR(shared.slice.Read(into));
    inputs[shared.index].bytes = into;
  }
  return Status::Ok();
}

void InferTensors::Clear() {
  request_.Clear();
  shared_.clear();
  places_.clear();
  made_.clear();
  context = RequestContext();
}

Status InferTensors::WriteShared() {
  for (size_t i = 0; i < outputs.size() && i < places_.size(); ++i) {
    if (places_[i].region.empty()) continue;
    const Status status = places_[i].slice.Write(outputs[i].bytes);
    if (!status.ok()) return status.Annotate(fmt::format("output '{}'", Shown(outputs[i].name)));
  }
  return Status::Ok();
}

void InferTensors::FillHead(bool stream) {
  head_.Clear();
  head_.set_model_name(served_model());
  head_.set_model_version(api::ServedVersion(served_version()));
  head_.set_id(request_.head().id());
  // A tensor model answers each request once.
  if (stream) (*head_.mutable_parameters())["triton_final_response"].set_bool_param(true);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    auto* const tensor = head_.add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(signature::ElementTypeName(output.type));
    for (const int64_t size : output.shape) tensor->add_shape(size);
    if (i >= places_.size() || places_[i].region.empty()) continue;
    auto& parameters = *tensor->mutable_parameters();
    parameters["shared_memory_region"].set_string_param(places_[i].region);
    parameters["shared_memory_byte_size"].set_int64_param(
        static_cast<int64_t>(output.bytes.size()));
    if (places_[i].offset > 0) {
      parameters["shared_memory_offset"].set_int64_param(static_cast<int64_t>(places_[i].offset));
    }
  }
}

Status InferTensors::Write(bool stream, RpcMessage* answer) {
  PENSTOCK_RETURN_IF_ERROR(WriteShared());
  FillHead(stream);
  // Every output has its place in raw_output_contents, as clients count them; one in shared memory
  // is empty there.
  const auto raw_of = [this](size_t i) {
    const bool shared = i < places_.size() && !places_[i].region.empty();
    return shared ? std::span<const std::byte>() : outputs[i].bytes;
  };
  const size_t head = head_.ByteSizeLong();
  size_t bytes = head;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t raw = raw_of(i).size();
    bytes += 1 + CodedOutputStream::VarintSize64(raw) + raw;
  }
  const auto limit = static_cast<size_t>(service_->options().response_bytes);
  if (bytes > limit) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the answer would have {} bytes; at most {} are allowed "
                        "(--max-response-bytes)",
                        bytes, limit),
            "outputs"};
  }
  const size_t wrapper = stream ? 1 + CodedOutputStream::VarintSize64(bytes) : 0;
  if (context.memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(context.memory->Take(static_cast<int64_t>(wrapper + bytes)));
  }
  *answer = RpcMessage(wrapper + bytes);
  uint8_t* to = answer->data();
  if (stream) {
    *to++ = kInferResponseTag;
    to = CodedOutputStream::WriteVarint64ToArray(bytes, to);
  }
  to = head_.SerializeWithCachedSizesToArray(to);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::span<const std::byte> raw = raw_of(i);
    *to++ = kRawOutputTag;
    to = CodedOutputStream::WriteVarint64ToArray(raw.size(), to);
    if (!raw.empty()) std::memcpy(to, raw.data(), raw.size());
    to += raw.size();
  }
  return Status::Ok();
}

}  // namespace penstock::grpc
