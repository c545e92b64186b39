#include "grpc/stream_text.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "api/generate_feed.h"
#include "api/service.h"
#include "base/printable.h"
#include "grpc/proto_message.h"

namespace penstock::grpc {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

constexpr char kTextInput[] = "text_input";
constexpr char kFinalResponse[] = "triton_enable_empty_final_response";

Status WrongParameter(const std::string& name, const char* wanted) {
  return Status::InvalidArgument(
      fmt::format("the parameter '{}' must be {}", Printable(name, 100), wanted),
      name.substr(0, 100));
}

std::optional<int64_t> IntegerOf(const InferParameter& value) {
  if (value.has_int64_param()) return value.int64_param();
  if (value.has_uint64_param() && value.uint64_param() <= INT64_MAX) {
    return static_cast<int64_t>(value.uint64_param());
  }
  return std::nullopt;
}

std::optional<float> NumberOf(const InferParameter& value) {
  if (value.has_double_param()) return static_cast<float>(value.double_param());
  if (const auto integer = IntegerOf(value)) return static_cast<float>(*integer);
  return std::nullopt;
}

// Their ranges are checked with the whole request.
Status SetParameter(const std::string& name, const InferParameter& value,
                    api::TextRequest* request) {
  api::SamplingRequest& sampling = request->sampling;
  sample::SamplingOptions& options = sampling.options;
  const auto integer = IntegerOf(value);
  const bool small = integer && *integer >= INT32_MIN && *integer <= INT32_MAX;
  const auto set = [&](auto* place, bool right, auto given, const char* wanted) {
    if (!right) return WrongParameter(name, wanted);
    *place = *given;
    return Status::Ok();
  };
  if (name == "max_tokens") return set(&options.max_tokens, small, integer, "an integer");
  if (name == "min_tokens") return set(&options.min_tokens, small, integer, "an integer");
  if (name == "top_k") return set(&sampling.top_k, small, integer, "an integer");
  if (name == "seed") {
    return set(&options.seed, integer && *integer >= 0, integer, "an integer of 0 and more");
  }
  if (name == "stop") {
    if (!value.has_string_param()) return WrongParameter(name, "a text");
    options.stop = {value.string_param()};
    return Status::Ok();
  }
  if (name == "ignore_eos") {
    if (!value.has_bool_param()) return WrongParameter(name, "true or false");
    options.ignore_eos = value.bool_param();
    return Status::Ok();
  }
  const auto number = NumberOf(value);
  const auto set_number = [&](auto* place) {
    return set(place, number.has_value(), number, "a number");
  };
  if (name == "temperature") return set_number(&sampling.temperature);
  if (name == "top_p") return set_number(&sampling.top_p);
  if (name == "min_p") return set_number(&sampling.min_p);
  if (name == "repetition_penalty") return set_number(&sampling.repetition_penalty);
  if (name == "presence_penalty") return set_number(&options.presence_penalty);
  if (name == "frequency_penalty") return set_number(&options.frequency_penalty);
  return Status::Ok();  // of others: infer_parameters.h
}

// The one element of an input: raw, or in `contents`. nullopt: there is not exactly one.
std::optional<std::string> TextOf(const InferRequest& request, int input) {
  if (request.raw().empty()) {
    const auto& texts = request.head().inputs(input).contents().bytes_contents();
    return texts.size() == 1 ? std::optional(texts[0]) : std::nullopt;
  }
  const auto bytes = request.raw()[static_cast<size_t>(input)];
  uint32_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() - sizeof size != size) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes.data()) + sizeof size, size);
}

std::optional<bool> TruthOf(const InferRequest& request, int input) {
  if (request.raw().empty()) {
    const auto& truths = request.head().inputs(input).contents().bool_contents();
    return truths.size() == 1 ? std::optional(truths[0]) : std::nullopt;
  }
  const auto bytes = request.raw()[static_cast<size_t>(input)];
  return bytes.size() == 1 ? std::optional(bytes[0] != std::byte{0}) : std::nullopt;
}

void Append(const std::vector<reply::ReplyDelta>& deltas, std::string* text) {
  for (const reply::ReplyDelta& delta : deltas) *text += delta.text;
}

}  // namespace

bool AsksForText(const ModelInferRequest& request, const api::Service& service) {
  bool has_text = false;
  for (const auto& input : request.inputs()) has_text = has_text || input.name() == kTextInput;
  if (!has_text) return false;
  const auto model = service.Model(request.model_name());
  return model.ok() && model->task == api::kGenerationTask;
}

Expected<api::TextRequest> TextRequestOf(const InferRequest& from) {
  const ModelInferRequest& head = from.head();
  api::TextRequest request;
  request.model = head.model_name();
  if (!from.raw().empty() && from.raw().size() != static_cast<size_t>(head.inputs_size())) {
    return Status::Unsupported("texts in shared memory are not supported", "inputs");
  }
  for (int i = 0; i < head.inputs_size(); ++i) {
    const std::string& name = head.inputs(i).name();
    if (name == kTextInput && head.inputs(i).datatype() == "BYTES") {
      auto text = TextOf(from, i);
      if (!text) {
        return Status::InvalidArgument("input 'text_input' must hold one element", kTextInput);
      }
      request.prompts = {api::GeneratePrompt{.value = *std::move(text), .field = kTextInput}};
    } else if (name == "stream" && head.inputs(i).datatype() == "BOOL") {
      const auto streams = TruthOf(from, i);
      if (!streams) {
        return Status::InvalidArgument("input 'stream' must hold one element", "stream");
      }
      request.streams = *streams;
    } else {
      return Status::InvalidArgument(
          fmt::format("a model that generates text takes the inputs text_input (BYTES) and stream "
                      "(BOOL), not '{}' ({})",
                      Printable(name, 100), Printable(head.inputs(i).datatype(), 40)),
          "inputs");
    }
  }
  for (const auto& [name, value] : head.parameters()) {
    PENSTOCK_RETURN_IF_ERROR(SetParameter(name, value, &request));
  }
  PENSTOCK_RETURN_IF_ERROR(request.sampling.With({}).Check(INT32_MAX));
  return request;
}

RpcMessage StreamError(const Status& status, const std::string& id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(status.message());
  message.mutable_infer_response()->set_id(id);
  return PrintMessage(message);
}

TextAnswer::TextAnswer(const ModelInferRequest& head) : id_(head.id()) {
  const auto final_asked = head.parameters().find(kFinalResponse);
  wants_final_ = final_asked != head.parameters().end() && final_asked->second.bool_param();
}

void TextAnswer::Run(api::Service* service, api::TextRequest request, RequestContext&& context,
                     std::function<void()> wake) {
  streams_ = request.streams;
  feed_ = std::make_shared<api::GenerateFeed>(request.streams, std::move(wake));
  service->Generate(std::move(request), std::move(context), feed_);
}

CallRequest::Step TextAnswer::Next(RpcMessage* message) {
  std::string text;
  while (auto event = feed_->Next()) {
    if (const auto* begun = std::get_if<api::GenerateBegun>(&*event)) model_ = begun->model;
    if (auto* part = std::get_if<api::GeneratedPart>(&*event)) Append(part->deltas, &text);
    if (auto* end = std::get_if<api::ChoiceEnd>(&*event)) Append(end->deltas, &text);
    if (const auto* end = std::get_if<api::GenerateEnd>(&*event)) return End(end->status, message);
    if (streams_ && !text.empty()) {
      *message = Message(text, false);
      return CallRequest::Step::kSend;
    }
    text_ += std::exchange(text, "");
  }
  return CallRequest::Step::kWait;
}

CallRequest::Step TextAnswer::End(const Status& status, RpcMessage* message) {
  // The feed holds what wakes this, and this the feed.
  const std::shared_ptr<api::GenerateFeed> feed = std::move(feed_);
  if (!status.ok()) {
    *message = StreamError(status, id_);
    return CallRequest::Step::kLast;
  }
  if (streams_ && !wants_final_) return CallRequest::Step::kEnd;
  *message = Message(text_, true);
  return CallRequest::Step::kLast;
}

RpcMessage TextAnswer::Message(const std::string& text, bool last) const {
  inference::ModelStreamInferResponse message;
  auto* const answer = message.mutable_infer_response();
  answer->set_model_name(model_);
  answer->set_model_version("1");
  answer->set_id(id_);
  (*answer->mutable_parameters())["triton_final_response"].set_bool_param(last);
  // The last message of a stream says that it is the last, and nothing else.
  if (!(last && streams_)) {
    auto* const output = answer->add_outputs();
    output->set_name("text_output");
    output->set_datatype("BYTES");
    output->add_shape(1);
    const auto size = static_cast<uint32_t>(text.size());
    std::string* const raw = answer->add_raw_output_contents();
    raw->append(reinterpret_cast<const char*>(&size), sizeof size);
    raw->append(text);
  }
  return PrintMessage(message);
}

}  // namespace penstock::grpc
