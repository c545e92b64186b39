#include "grpc/stream_text.h"

#include <fmt/format.h>
#include <grpc/inference.pb.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/generate_feed.h"
#include "api/service.h"
#include "common/exception_status.h"
#include "common/printable.h"
#include "grpc/proto_message.h"

namespace penstock {
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
Status SetParameter(const std::string& name, const InferParameter& value, TextRequest* request) {
  SamplingRequest& sampling = request->sampling;
  SamplingOptions& options = sampling.options;
  if (name == "max_tokens" || name == "min_tokens" || name == "top_k") {
    const auto integer = IntegerOf(value);
    if (!integer || *integer < INT32_MIN || *integer > INT32_MAX) {
      return WrongParameter(name, "an integer");
    }
    const auto number = static_cast<int32_t>(*integer);
    if (name == "max_tokens") options.max_tokens = number;
    if (name == "min_tokens") options.min_tokens = number;
    if (name == "top_k") sampling.top_k = number;
    return Status::Ok();
  }
  if (name == "seed") {
    const auto integer = IntegerOf(value);
    if (!integer || *integer < 0) return WrongParameter(name, "an integer of 0 and more");
    options.seed = static_cast<uint64_t>(*integer);
    return Status::Ok();
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
  std::optional<float>* const place = name == "temperature"          ? &sampling.temperature
                                      : name == "top_p"              ? &sampling.top_p
                                      : name == "min_p"              ? &sampling.min_p
                                      : name == "repetition_penalty" ? &sampling.repetition_penalty
                                                                     : nullptr;
  float* const penalty = name == "presence_penalty"    ? &options.presence_penalty
                         : name == "frequency_penalty" ? &options.frequency_penalty
                                                       : nullptr;
  if (place == nullptr && penalty == nullptr) return Status::Ok();  // of others: infer_parameters.h
  if (!number) return WrongParameter(name, "a number");
  if (place != nullptr) *place = *number;
  if (penalty != nullptr) *penalty = *number;
  return Status::Ok();
}

// The one element of an input: raw, or in `contents`. Nothing: there is not just one.
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

Expected<TextRequest> TextRequestOf(const InferRequest& from) {
  const ModelInferRequest& head = from.head();
  TextRequest request;
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
      request.prompts = {GeneratePrompt{.value = *std::move(text), .field = kTextInput}};
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

// The answer whose messages are made of the feed's events as the stream asks for them.
class TextAnswer final : public StreamAnswer, public std::enable_shared_from_this<TextAnswer> {
 public:
  TextAnswer(std::shared_ptr<MessageStream> stream, Service* service, const ModelInferRequest& head)
      : stream_(std::move(stream)), service_(service), id_(head.id()) {
    const auto final_asked = head.parameters().find(kFinalResponse);
    wants_final_ = final_asked != head.parameters().end() && final_asked->second.bool_param();
  }

  // `self` is held until the text has ended.
  static void Run(const std::shared_ptr<TextAnswer>& self, TextRequest request,
                  RequestContext&& context) {
    self->priority_ = context.priority;
    self->streams_ = request.streams;
    self->feed_ = std::make_shared<GenerateFeed>(request.streams, [self] { self->Wake(); });
    self->service_->Generate(std::move(request), std::move(context), self->feed_);
  }

  Step Next(RpcMessage* message, Status*) override {
    woken_.store(false, std::memory_order_seq_cst);
    std::string text;
    while (auto event = feed_->Next()) {
      if (const auto* begun = std::get_if<GenerateBegun>(&*event)) model_ = begun->model;
      if (auto* part = std::get_if<GeneratedPart>(&*event)) Append(part->deltas, &text);
      if (auto* end = std::get_if<ChoiceEnd>(&*event)) Append(end->deltas, &text);
      if (const auto* end = std::get_if<GenerateEnd>(&*event)) return End(end->status, message);
      if (streams_ && !text.empty()) {
        *message = Message(text, false);
        return Step::kSend;
      }
      text_ += std::exchange(text, "");
    }
    return Step::kWait;
  }

 private:
  static void Append(const std::vector<ReplyDelta>& deltas, std::string* text) {
    for (const ReplyDelta& delta : deltas) *text += delta.text;
  }

  Step End(const Status& status, RpcMessage* message) {
    // The feed holds this, and this the feed.
    const std::shared_ptr<GenerateFeed> feed = std::move(feed_);
    if (!status.ok()) {
      *message = StreamError(status, id_);
      return Step::kLast;
    }
    if (streams_ && !wants_final_) return Step::kEnd;
    *message = Message(text_, true);
    return Step::kLast;
  }

  RpcMessage Message(const std::string& text, bool last) const {
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

  // On the model's thread: a worker makes and sends the messages.
  void Wake() {
    if (woken_.exchange(true, std::memory_order_seq_cst)) return;
    service_->FinishOnWorker(priority_, 0, [stream = stream_] { stream->Wake(); });
  }

  const std::shared_ptr<MessageStream> stream_;
  Service* const service_;
  const std::string id_;
  bool wants_final_ = false;
  bool streams_ = false;
  Priority priority_ = Priority::kInteractive;
  std::shared_ptr<GenerateFeed> feed_;
  std::atomic<bool> woken_{false};
  // Of whoever calls Next.
  std::string model_;
  std::string text_;
};

}  // namespace

bool AsksForText(const ModelInferRequest& request, const Service& service) {
  bool has_text = false;
  for (const auto& input : request.inputs()) has_text = has_text || input.name() == kTextInput;
  if (!has_text) return false;
  const auto model = service.Model(request.model_name());
  return model.ok() && model->task == kGenerationTask;
}

std::shared_ptr<StreamAnswer> StartText(std::shared_ptr<MessageStream> stream, Service* service,
                                        const InferRequest& request, RequestContext&& context) {
  auto text = TextRequestOf(request);
  if (!text.ok()) {
    return StreamRefusal(text.status(), request.head().id());
  }
  const auto answer = std::make_shared<TextAnswer>(std::move(stream), service, request.head());
  TextAnswer::Run(answer, *std::move(text), std::move(context));
  return answer;
}

}  // namespace penstock
