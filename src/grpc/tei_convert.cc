#include "grpc/tei_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/names.h"
#include "api/tei_rules.h"

namespace penstock::grpc {
namespace {

namespace wire = tei::v1;

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

uint32_t Saturated(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}

Expected<text::TruncationSide> SideOf(wire::TruncationDirection direction) {
  switch (direction) {
    case wire::TRUNCATION_DIRECTION_RIGHT:
      return text::TruncationSide::kRight;
    case wire::TRUNCATION_DIRECTION_LEFT:
      return text::TruncationSide::kLeft;
    default:
      return Status::InvalidArgument(
          fmt::format("'truncation_direction' must be 0 (right) or 1 (left), is {}",
                      static_cast<int>(direction)),
          "truncation_direction");
  }
}

// `truncate` and `truncation_direction`; `prompt_name` where the message has one.
template <typename Message>
Expected<api::TextOptions> OptionsOf(const Message& message) {
  api::TextOptions options;
  options.truncate = message.truncate();
  PENSTOCK_ASSIGN_OR_RETURN(options.side, SideOf(message.truncation_direction()));
  if constexpr (requires { message.has_prompt_name(); }) {
    if (message.has_prompt_name()) {
      PENSTOCK_RETURN_IF_ERROR(api::CheckName(message.prompt_name(), "prompt_name"));
      options.prompt_name = message.prompt_name();
    }
  }
  return options;
}

api::Input SingleText(const std::string& text) {
  api::Input input;
  input.text = text;
  input.single = true;
  return input;
}

template <typename Message>
Expected<api::ClassifyRequest> ClassifyOf(const Message& message, std::vector<std::string> texts) {
  api::ClassifyRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.text, OptionsOf(message));
  PENSTOCK_ASSIGN_OR_RETURN(api::ClassifyInput input,
                            api::TeiPredictInput(std::move(texts), "inputs"));
  request.inputs.push_back(std::move(input));
  request.raw_scores = message.raw_scores();
  return request;
}

template <typename Message>
Expected<api::RerankRequest> RerankOf(const Message& message, std::vector<std::string> texts) {
  api::RerankRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.text, OptionsOf(message));
  request.query = message.query();
  request.documents = std::move(texts);
  request.raw_scores = message.raw_scores();
  return request;
}

}  // namespace

Expected<api::EmbedRequest> FromTei(const wire::EmbedRequest& message) {
  api::EmbedRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.text, OptionsOf(message));
  request.inputs.push_back(SingleText(message.inputs()));
  request.normalize = message.has_normalize() ? message.normalize() : api::kTeiNormalize;
  if (message.has_dimensions()) {
    if (message.dimensions() > kInt32Max) {
      return Status::InvalidArgument(
          fmt::format("'dimensions' is {}; at most {}", message.dimensions(), kInt32Max),
          "dimensions");
    }
    request.dimensions = static_cast<int32_t>(message.dimensions());
  }
  return request;
}

Expected<api::EmbedRequest> FromTei(const wire::EmbedAllRequest& message) {
  api::EmbedRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.text, OptionsOf(message));
  request.inputs.push_back(SingleText(message.inputs()));
  return request;
}

Expected<api::ClassifyRequest> FromTei(const wire::PredictRequest& message) {
  return ClassifyOf(message, {message.inputs()});
}

Expected<api::ClassifyRequest> FromTei(const wire::PredictPairRequest& message) {
  return ClassifyOf(message, {message.inputs().begin(), message.inputs().end()});
}

Expected<api::RerankRequest> FromTei(const wire::RerankRequest& message) {
  return RerankOf(message, {message.texts().begin(), message.texts().end()});
}

Expected<api::RerankRequest> FromTei(const wire::RerankStreamRequest& message) {
  return RerankOf(message, {message.text()});
}

Expected<api::TokenizeRequest> FromTei(const wire::EncodeRequest& message) {
  api::TokenizeRequest request;
  request.inputs.push_back(message.inputs());
  request.add_special_tokens = message.add_special_tokens();
  if (message.has_prompt_name()) {
    PENSTOCK_RETURN_IF_ERROR(api::CheckName(message.prompt_name(), "prompt_name"));
    request.prompt_name = message.prompt_name();
  }
  return request;
}

Expected<api::DecodeRequest> FromTei(const wire::DecodeRequest& message) {
  const auto over = std::find_if(message.ids().begin(), message.ids().end(),
                                 [](uint32_t id) { return id > kInt32Max; });
  if (over != message.ids().end()) {
    const std::string field = fmt::format("ids[{}]", over - message.ids().begin());
    return Status::InvalidArgument(
        fmt::format("'{}' must be a token id from 0 to {}", field, kInt32Max), field);
  }
  api::DecodeRequest request;
  request.inputs.emplace_back(message.ids().begin(), message.ids().end());
  request.skip_special_tokens = message.skip_special_tokens();
  return request;
}

void ToTei(const api::EmbedResponse& response, wire::EmbedResponse* message) {
  message->mutable_embeddings()->Assign(response.values.begin(), response.values.end());
}

void ToTei(const api::EmbedAllResponse& response, wire::EmbedAllResponse* message) {
  const auto width = static_cast<ptrdiff_t>(response.dimensions);
  for (auto row = response.values.begin(); row != response.values.end(); row += width) {
    message->add_token_embeddings()->mutable_embeddings()->Assign(row, row + width);
  }
}

void ToTei(const api::ClassifyResponse& response, wire::PredictResponse* message) {
  for (const api::ClassifyResponse::Label& label : response.inputs.at(0)) {
    wire::Prediction* const prediction = message->add_predictions();
    prediction->set_score(label.score);
    prediction->set_label(response.labels.at(static_cast<size_t>(label.id)));
  }
}

void ToTei(const api::TokenizeResponse& response, wire::EncodeResponse* message) {
  for (const api::TokenizeResponse::Token& token : response.inputs.at(0)) {
    wire::SimpleToken* const simple = message->add_tokens();
    simple->set_id(static_cast<uint32_t>(token.id));
    simple->set_text(token.text);
    simple->set_special(token.special);
    if (const auto place = api::TeiPlace(token)) {
      simple->set_start(static_cast<uint32_t>(place->begin));
      simple->set_stop(static_cast<uint32_t>(place->end));
    }
  }
}

void ToTei(const api::DecodeResponse& response, wire::DecodeResponse* message) {
  message->set_text(response.texts.at(0));
}

void ToTei(const api::RerankResponse& response, const wire::RerankRequest& request,
           wire::RerankResponse* message) {
  for (const api::RerankResponse::Item& item : response.items) {
    wire::Rank* const rank = message->add_ranks();
    rank->set_index(static_cast<uint32_t>(item.index));
    if (request.return_text()) rank->set_text(request.texts(item.index));
    rank->set_score(item.score);
  }
}

Expected<wire::InfoResponse> TeiInfo(const api::ModelInfo& model,
                                     const api::ServiceOptions& limits) {
  wire::InfoResponse info;
  if (model.task == "embedding") {
    info.set_model_type(wire::MODEL_TYPE_EMBEDDING);
  } else if (model.task == "classification") {
    info.set_model_type(wire::MODEL_TYPE_CLASSIFIER);
  } else if (model.task == "reranking") {
    info.set_model_type(wire::MODEL_TYPE_RERANKER);
  } else if (model.task.empty()) {
    return Status(
        StatusCode::kUnavailable,
        fmt::format("model '{}' is not loaded yet; what it is for is not known", model.name),
        "model");
  } else {
    return Status(StatusCode::kUnprocessable,
                  fmt::format("model '{}' is for {}: it neither embeds, reranks nor classifies",
                              model.name, model.task),
                  "model");
  }
  info.set_version(PENSTOCK_VERSION);
  info.set_model_id(model.name);
  if (!model.revision.empty()) info.set_model_sha(model.revision);
  info.set_model_dtype(model.dtype);
  info.set_max_concurrent_requests(Saturated(limits.concurrent_requests));
  info.set_max_input_length(Saturated(model.max_tokens));
  info.set_max_batch_tokens(Saturated(model.max_batch_tokens));
  info.set_max_client_batch_size(Saturated(limits.inputs_per_request));
  info.set_tokenization_workers(Saturated(limits.tokenization_workers));
  return info;
}

TeiWork TeiWorkOf(int64_t chars, int64_t tokens, metrics::RequestTrace* trace) {
  TeiWork work{.chars = chars, .tokens = tokens};
  if (trace == nullptr) return work;
  trace->Enter(metrics::Stage::kSerialise);
  work.total_ns = trace->wall_ns();
  work.tokenize_ns = trace->ns(metrics::Stage::kTokenize);
  work.queue_ns = trace->ns(metrics::Stage::kQueue);
  work.inference_ns = trace->ns(metrics::Stage::kForm) + trace->ns(metrics::Stage::kForward);
  return work;
}

void ToTei(const TeiWork& work, wire::Metadata* metadata) {
  metadata->set_compute_chars(Saturated(work.chars));
  metadata->set_compute_tokens(Saturated(work.tokens));
  metadata->set_total_time_ns(static_cast<uint64_t>(work.total_ns));
  metadata->set_tokenization_time_ns(static_cast<uint64_t>(work.tokenize_ns));
  metadata->set_queue_time_ns(static_cast<uint64_t>(work.queue_ns));
  metadata->set_inference_time_ns(static_cast<uint64_t>(work.inference_ns));
}

}  // namespace penstock::grpc
