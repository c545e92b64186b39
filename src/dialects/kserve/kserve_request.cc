#include "dialects/kserve/kserve_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "base/printable.h"
#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

// The fields of a tensor. Parsers differ in which of two values of a name counts, so both are
// refused.
struct TensorFields {
  std::optional<JsonElement> name, shape, datatype, data, parameters;

  Status Take(JsonObject fields) {
    for (const auto field : fields) {
      std::optional<JsonElement>* const place = PlaceOf(field.key);
      if (place == nullptr || field.value.is_null()) continue;
      if (place->has_value()) {
        return Status::InvalidArgument(fmt::format("'{}' is given twice", field.key));
      }
      *place = field.value;
    }
    return Status::Ok();
  }

 private:
  std::optional<JsonElement>* PlaceOf(std::string_view key) {
    if (key == "name") return &name;
    if (key == "shape") return &shape;
    if (key == "datatype") return &datatype;
    if (key == "data") return &data;
    if (key == "parameters") return &parameters;
    return nullptr;
  }
};

Expected<std::string> NameOf(const TensorFields& fields) {
  std::string_view name;
  if (!fields.name || !fields.name->Get(&name) || name.empty() ||
      name.size() > api::kNameBytesMax) {
    return Status::InvalidArgument(
        fmt::format("'name' must be a string of 1 to {} bytes", api::kNameBytesMax));
  }
  return std::string(name);
}

Status ReadShape(const TensorFields& fields, std::vector<int64_t>* shape) {
  const auto wrong = [] {
    return Status::InvalidArgument(fmt::format(
        "'shape' must be an array of at most {} integers of 0 and more", kRequestDimensionsMax));
  };
  JsonArray sizes;
  if (!fields.shape || !fields.shape->Get(&sizes)) return wrong();
  for (const JsonElement item : sizes) {
    int64_t size = 0;
    if (!item.Get(&size) || size < 0 || shape->size() == kRequestDimensionsMax) {
      return wrong();
    }
    shape->push_back(size);
  }
  return Status::Ok();
}

Expected<signature::ElementType> ReadType(const TensorFields& fields) {
  std::string_view name;
  if (fields.datatype && fields.datatype->Get(&name)) {
    if (const auto type = signature::ElementTypeOf(name)) return *type;
    return Status::InvalidArgument(fmt::format(
        "'datatype' must be BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, "
        "BF16, FP32, FP64 or BYTES; it is \"{}\"",
        Printable(name, 40)));
  }
  return Status::InvalidArgument("'datatype' must be a string, such as \"FP32\"");
}

Expected<api::InferParameterValue> ValueOf(std::string_view name, JsonElement value) {
  bool truth = false;
  int64_t integer = 0;
  double number = 0;
  std::string_view text;
  if (value.Get(&truth)) return api::InferParameterValue(truth);
  if (value.Get(&integer)) return api::InferParameterValue(integer);
  if (value.Get(&number)) return api::InferParameterValue(number);
  if (value.Get(&text)) return api::InferParameterValue(text);
  return Status::InvalidArgument(fmt::format(
      "the parameter '{}' must be a string, a number, true or false", Printable(name, 100)));
}

// Calls parameters->Set for each of an object; nothing where there is none.
template <typename Parameters>
Status ReadParameters(const std::optional<JsonElement>& value, Parameters* parameters) {
  if (!value) return Status::Ok();
  JsonObject fields;
  if (!value->Get(&fields)) {
    return Status::InvalidArgument("'parameters' must be an object");
  }
  std::vector<std::string_view> seen;
  for (const auto field : fields) {
    if (seen.size() == kFieldsMax || std::find(seen.begin(), seen.end(), field.key) != seen.end()) {
      return Status::InvalidArgument(
          fmt::format("'parameters' must have at most {} names, each once", kFieldsMax));
    }
    seen.push_back(field.key);
    if (field.value.is_null()) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const api::InferParameterValue set, ValueOf(field.key, field.value));
    PENSTOCK_RETURN_IF_ERROR(parameters->Set({field.key, set}));
  }
  return Status::Ok();
}

class Parser {
 public:
  Parser(std::string_view body, size_t json_bytes, const api::SharedMemory& shared_memory,
         RequestMemory* memory)
      : json_bytes_(json_bytes),
        rest_(body.substr(json_bytes)),
        shared_memory_(shared_memory),
        memory_(memory) {}

  Expected<KserveRequest> Run(const JsonObject& root) {
    PENSTOCK_ASSIGN_OR_RETURN(request_.id, root.GetStringOr("id", "", api::kNameBytesMax));
    PENSTOCK_RETURN_IF_ERROR(ReadParameters(root.Find("parameters"), &request_.parameters));
    request_.other_form.binary = request_.parameters.binary_data_output;
    PENSTOCK_RETURN_IF_ERROR(
        ReadTensors(root, "inputs", true, [this](JsonObject each) { return ReadInput(each); }));
    PENSTOCK_RETURN_IF_ERROR(
        ReadTensors(root, "outputs", false, [this](JsonObject each) { return ReadOutput(each); }));
    if (!rest_.empty()) {
      return Status::InvalidArgument(
          fmt::format("{} bytes of the body are behind its JSON and belong to no input: "
                      "'binary_data_size' of the inputs must sum up to all of them",
                      rest_.size()));
    }
    return std::move(request_);
  }

 private:
  // Calls read(object) for each of an array, and names the tensor in an error.
  template <typename ReadTensor>
  Status ReadTensors(const JsonObject& root, std::string_view key, bool required, ReadTensor read) {
    if (!required && !root.Has(key)) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const JsonArray tensors, root.GetArray(key));
    size_t count = 0;
    for (const JsonElement item : tensors) {
      const std::string path = fmt::format("{}[{}]", key, count);
      if (count++ == kRequestTensorsMax) {
        return Status::InvalidArgument(
            fmt::format("'{}' has more than {} tensors", key, kRequestTensorsMax),
            std::string(key));
      }
      JsonObject fields;
      Status status = Status::InvalidArgument("it must be an object");
      if (item.Get(&fields)) status = read(fields);
      if (!status.ok()) {
        return Status(status.code(), path + ": " + status.message(), path)
            .WithRetryAfter(status.retry_after_s());
      }
    }
    return Status::Ok();
  }

  Status ReadInput(JsonObject each) {
    TensorFields fields;
    PENSTOCK_RETURN_IF_ERROR(fields.Take(each));
    api::InferCall::Input input;
    PENSTOCK_ASSIGN_OR_RETURN(input.name, NameOf(fields));
    PENSTOCK_RETURN_IF_ERROR(ReadShape(fields, &input.shape));
    PENSTOCK_ASSIGN_OR_RETURN(input.type, ReadType(fields));
    api::InferInputParameters parameters;
    PENSTOCK_RETURN_IF_ERROR(ReadParameters(fields.parameters, &parameters));
    const api::SharedMemoryParameters& shared = parameters.shared_memory;
    const int places =
        fields.data.has_value() + parameters.binary_data_size.has_value() + shared.used();
    if (places != 1) {
      return Status::InvalidArgument(
          fmt::format("its elements must be in one of 'data', 'binary_data_size' of its parameters "
                      "and 'shared_memory_region' of its parameters; {} are given",
                      places == 0 ? "none" : "several"));
    }
    if (fields.data) {
      PENSTOCK_ASSIGN_OR_RETURN(
          TensorBytes made,
          ReadTensorJson(*fields.data, input.type, input.shape, json_bytes_, memory_));
      input.bytes = made.span();
      request_.made.push_back(std::move(made));
    } else if (shared.used()) {
      PENSTOCK_ASSIGN_OR_RETURN(api::SharedMemorySlice slice,
                                shared_memory_.Slice(shared.region, shared.offset, shared.bytes));
      request_.shared_inputs.push_back({request_.inputs.size(), std::move(slice)});
    } else {
      const uint64_t bytes = *parameters.binary_data_size;
      if (bytes > rest_.size()) {
        return Status::InvalidArgument(
            fmt::format("'binary_data_size' is {}, but only {} bytes are left of the body", bytes,
                        rest_.size()));
      }
      input.bytes = std::as_bytes(std::span(rest_.substr(0, bytes)));
      rest_.remove_prefix(bytes);
    }
    request_.inputs.push_back(std::move(input));
    return Status::Ok();
  }

  Status ReadOutput(JsonObject each) {
    TensorFields fields;
    PENSTOCK_RETURN_IF_ERROR(fields.Take(each));
    api::InferCall::Output output;
    PENSTOCK_ASSIGN_OR_RETURN(output.name, NameOf(fields));
    api::InferOutputParameters parameters;
    PENSTOCK_RETURN_IF_ERROR(ReadParameters(fields.parameters, &parameters));
    const api::SharedMemoryParameters& shared = parameters.shared_memory;
    KserveRequest::Output form;
    if (shared.used()) {
      if (parameters.binary_data.value_or(false)) {
        return Status::InvalidArgument(
            "'binary_data' and 'shared_memory_region' exclude each other");
      }
      PENSTOCK_ASSIGN_OR_RETURN(form.shared,
                                shared_memory_.Slice(shared.region, shared.offset, shared.bytes));
      form.region = shared.region;
      form.offset = shared.offset;
      form.bytes = shared.bytes;
    } else {
      form.binary = parameters.binary_data.value_or(request_.parameters.binary_data_output);
    }
    request_.outputs.push_back(std::move(output));
    request_.forms.push_back(std::move(form));
    return Status::Ok();
  }

  const size_t json_bytes_;
  std::string_view rest_;  // bytes of inputs that are not taken yet
  const api::SharedMemory& shared_memory_;
  RequestMemory* const memory_;
  KserveRequest request_;
};

}  // namespace

Expected<size_t> KserveJsonBytes(std::string_view header, size_t body_bytes) {
  if (header.empty()) return body_bytes;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), bytes);
  const bool number = error == std::errc() && end == header.data() + header.size();
  if (number && bytes > 0 && bytes <= body_bytes) return static_cast<size_t>(bytes);
  if (number && bytes == 0) {
    return Status::Unsupported(
        "Inference-Header-Content-Length is 0: a body of an input's bytes alone is not supported, "
        "send the JSON before them",
        "Inference-Header-Content-Length");
  }
  return Status::InvalidArgument(
      fmt::format("Inference-Header-Content-Length must be an integer from 1 to {}, the length of "
                  "the body",
                  body_bytes),
      "Inference-Header-Content-Length");
}

Expected<KserveRequest> ParseKserveRequest(std::string_view body, size_t json_bytes,
                                           const api::SharedMemory& shared_memory,
                                           RequestMemory* memory) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed,
                            RequestBody::Parse(body.substr(0, json_bytes)));
  return Parser(body, json_bytes, shared_memory, memory).Run(parsed.object());
}

}  // namespace penstock::dialects
