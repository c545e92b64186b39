#include "grpc/tei_service.h"

#include <fmt/format.h>
#include <grpc/tei.pb.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "api/names.h"
#include "api/service.h"
#include "api/tei_rules.h"
#include "frontend/wire_names.h"
#include "grpc/tei_convert.h"
#include "grpc/typed_call.h"

namespace penstock::grpc {
namespace {

namespace wire = tei::v1;

// Besides the numbers of an answer: its metadata, and what keeps its parts together.
constexpr size_t kAnswerBytes = 128;
// {score, label} or {index, score}: 5 bytes a number, and their tags.
constexpr size_t kScoreBytes = 24;
// {id, text, special, start, stop} besides the text.
constexpr size_t kTokenBytes = 40;

// About what an answer is in bytes, besides the texts of the request that it repeats.
size_t TeiBytes(const api::EmbedResponse& response) {
  return kAnswerBytes + response.values.size() * sizeof(float);
}

size_t TeiBytes(const api::EmbedAllResponse& response) {
  return kAnswerBytes * (1 + static_cast<size_t>(response.token_counts.at(0))) +
         response.values.size() * sizeof(float);
}

size_t TeiBytes(const api::ClassifyResponse& response) {
  size_t bytes = kAnswerBytes;
  for (const std::string& label : response.labels) bytes += kScoreBytes + label.size();
  return bytes;
}

size_t TeiBytes(const api::RerankResponse& response) {
  return kAnswerBytes + kScoreBytes * response.items.size();
}

size_t TeiBytes(const api::TokenizeResponse& response) {
  size_t bytes = kAnswerBytes;
  for (const api::TokenizeResponse::Token& token : response.inputs.at(0)) {
    bytes += kTokenBytes + token.text.size();
  }
  return bytes;
}

size_t TeiBytes(const api::DecodeResponse& response) {
  return kAnswerBytes + response.texts.at(0).size();
}

// The code points of valid UTF-8, which protobuf has checked.
int64_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// Code points of a request's texts, as TEI counts them: a query counts once for each text.
template <typename Request>
int64_t CharsOf(const Request& request) {
  int64_t chars = 0;
  if constexpr (requires { request.texts(); }) {
    chars = CodePoints(request.query()) * request.texts_size();
    for (const auto& text : request.texts()) chars += CodePoints(text);
  } else if constexpr (requires { request.text(); }) {
    chars = CodePoints(request.query()) + CodePoints(request.text());
  } else if constexpr (requires { request.inputs_size(); }) {
    for (const auto& text : request.inputs()) chars += CodePoints(text);
  } else {
    chars = CodePoints(request.inputs());
  }
  return chars;
}

// The behaviour of the Service that a message asks for.
constexpr auto BehaviourOf(const wire::EmbedRequest&) { return &api::Service::Embed; }
constexpr auto BehaviourOf(const wire::EmbedAllRequest&) { return &api::Service::EmbedAll; }
constexpr auto BehaviourOf(const wire::PredictRequest&) { return &api::Service::Classify; }
constexpr auto BehaviourOf(const wire::PredictPairRequest&) { return &api::Service::Classify; }
constexpr auto BehaviourOf(const wire::RerankRequest&) { return &api::Service::Rerank; }
constexpr auto BehaviourOf(const wire::RerankStreamRequest&) { return &api::Service::Rerank; }
constexpr auto BehaviourOf(const wire::EncodeRequest&) { return &api::Service::Tokenize; }
constexpr auto BehaviourOf(const wire::DecodeRequest&) { return &api::Service::Decode; }

// `status` with the names that fields have in the message.
template <typename Request>
Status WithNamesOf(const Status& status, const Request&) {
  std::pair<std::string_view, std::string_view> field = {"inputs[0]", "inputs"};
  if constexpr (std::is_same_v<Request, wire::RerankRequest>) field = {"documents", "texts"};
  if constexpr (std::is_same_v<Request, wire::RerankStreamRequest>)
    field = {"documents[0]", "text"};
  if constexpr (std::is_same_v<Request, wire::DecodeRequest>) field = {"inputs[0]", "ids"};
  return frontend::WithWireNames(status, {{"bulk_run", "x-penstock-bulk-id"}, field});
}

// The model that a call names in its metadata; "": none.
Expected<std::string> TeiModelOf(const Rpc& rpc) {
  constexpr char kName[] = "model";
  std::string name(rpc.Header(kName));
  if (!name.empty()) PENSTOCK_RETURN_IF_ERROR(api::CheckName(name, kName));
  return name;
}

// The metadata of an answer as headers too, in milliseconds, as TEI has them.
void AddHeaders(const wire::Metadata& metadata, Rpc* rpc) {
  const auto add = [&](const char* name, uint64_t value) {
    rpc->AddInitialMetadata(name, std::to_string(value));
  };
  constexpr uint64_t kNsPerMs = 1'000'000;
  add("x-compute-time", metadata.total_time_ns() / kNsPerMs);
  add("x-compute-characters", metadata.compute_chars());
  add("x-compute-tokens", metadata.compute_tokens());
  add("x-total-time", metadata.total_time_ns() / kNsPerMs);
  add("x-tokenization-time", metadata.tokenization_time_ns() / kNsPerMs);
  add("x-queue-time", metadata.queue_time_ns() / kNsPerMs);
  add("x-inference-time", metadata.inference_time_ns() / kNsPerMs);
}

// Parses `request`, and calls then(result) where all went well, else reply.End. `then` may run on a
// model's thread: it leaves long work to reply.Print.
template <typename Request, typename Then>
void RunTei(api::Service* service, const CallReply& reply, const Request& request, Then then) {
  auto model = TeiModelOf(reply.rpc());
  if (!model.ok()) return reply.End(model.status());
  auto parsed = FromTei(request);
  if (!parsed.ok()) return reply.End(parsed.status());
  parsed->model = *std::move(model);
  (service->*BehaviourOf(request))(*std::move(parsed), reply.context(),
                                   [&request, reply, then = std::move(then)](auto result) {
                                     if (!result.ok())
                                       return reply.End(WithNamesOf(result.status(), request));
                                     then(*std::move(result));
                                   });
}

// The same for a request with an answer of its own.
template <typename Request, typename Response>
void AnswerTei(api::Service* service, const CallReply& reply, const Request& request,
               Response* response) {
  RunTei(service, reply, request, [&request, reply, response](auto result) {
    size_t bytes = TeiBytes(result);
    if constexpr (requires { request.return_text(); }) {
      if (request.return_text()) bytes += request.ByteSizeLong();
    }
    const auto shared = std::make_shared<const decltype(result)>(std::move(result));
    reply.Print(bytes,
                [shared, &request, response, trace = reply.context().trace, rpc = &reply.rpc()] {
                  if constexpr (requires { ToTei(*shared, request, response); }) {
                    ToTei(*shared, request, response);
                  } else {
                    ToTei(*shared, response);
                  }
                  if constexpr (requires { response->mutable_metadata(); }) {
                    ToTei(TeiWorkOf(CharsOf(request), shared->usage.prompt_tokens, trace.get()),
                          response->mutable_metadata());
                    if (!rpc->streams()) AddHeaders(response->metadata(), rpc);
                  }
                });
  });
}

// ---- RerankStream: the client sends query and text pair by pair; when it has sent its last one,
// the answer ranks them all. Each pair may have a query of its own.

// Filled in the order of the requests, by one thread at a time.
struct Ranks {
  uint32_t read = 0;  // messages
  // Set by the first message, for all.
  bool raw_scores = false;
  bool return_text = false;
  RequestMemory* memory = nullptr;  // of the call
  wire::RerankResponse response;
  int64_t bytes = 0;
  TeiWork work;  // sums
};

class RankRequest final : public CallRequest {
 public:
  RankRequest(api::Service* service, std::shared_ptr<Ranks> ranks)
      : service_(service), ranks_(std::move(ranks)) {}

  Status Read(std::string message, RequestMemory* memory, int64_t* counted) override {
    PENSTOCK_RETURN_IF_ERROR(ParseMessage(message, memory, &request_, counted));
    if (ranks_->read == 0) {
      ranks_->raw_scores = request_.raw_scores();
      ranks_->return_text = request_.return_text();
      ranks_->memory = memory;
    }
    request_.set_raw_scores(ranks_->raw_scores);
    rank_.set_index(ranks_->read++);
    return Status::Ok();
  }

  void Work(const CallReply& reply) override {
    RunTei(service_, reply, request_, [this, reply](const api::RerankResponse& result) {
      const float score = result.items.at(0).score;
      reply.Print(
          0, [this, score, tokens = result.usage.prompt_tokens, trace = reply.context().trace] {
            rank_.set_score(score);
            work_ = TeiWorkOf(CharsOf(request_), tokens, trace.get());
          });
    });
  }

  // Keeps the rank for the answer.
  Expected<Step> Next(RpcMessage*) override {
    if (ranks_->return_text) rank_.set_allocated_text(request_.release_text());
    const auto bytes = static_cast<int64_t>(rank_.ByteSizeLong());
    PENSTOCK_RETURN_IF_ERROR(ranks_->memory->Take(static_cast<int64_t>(sizeof rank_) + bytes));
    ranks_->bytes += bytes;
    const int64_t bytes_max = service_->options().response_bytes;
    if (ranks_->bytes > bytes_max) {
      return Status(
          StatusCode::kPayloadTooLarge,
          fmt::format("the ranks have more than {} bytes (--max-response-bytes)", bytes_max));
    }
    ranks_->response.add_ranks()->Swap(&rank_);
    TeiWork& sums = ranks_->work;
    sums.chars += work_.chars;
    sums.tokens += work_.tokens;
    sums.tokenize_ns += work_.tokenize_ns;
    sums.queue_ns += work_.queue_ns;
    sums.inference_ns += work_.inference_ns;
    return Step::kEnd;
  }

 private:
  api::Service* const service_;
  const std::shared_ptr<Ranks> ranks_;
  wire::RerankStreamRequest request_;
  wire::Rank rank_;
  TeiWork work_;
};

Status ConcludeRanks(Ranks* ranks, metrics::RequestTrace* trace, int64_t bytes_max,
                     std::optional<RpcMessage>* message) {
  wire::RerankResponse& response = ranks->response;
  const int64_t count = response.ranks_size();
  if (count == 0) return Status::InvalidArgument("the stream has no texts", "text");
  // In the order of the stream so far, which ties keep.
  std::stable_sort(response.mutable_ranks()->pointer_begin(),
                   response.mutable_ranks()->pointer_end(),
                   [](const auto* a, const auto* b) { return a->score() > b->score(); });
  TeiWork work = TeiWorkOf(ranks->work.chars, ranks->work.tokens, trace);
  // The share of one text, as TEI has it: the texts were worked on side by side.
  work.tokenize_ns = ranks->work.tokenize_ns / count;
  work.queue_ns = ranks->work.queue_ns / count;
  work.inference_ns = ranks->work.inference_ns / count;
  ToTei(work, response.mutable_metadata());
  PENSTOCK_ASSIGN_OR_RETURN(*message, PrintMessage(response, bytes_max));
  return Status::Ok();
}

CallParts RerankStream(api::Service* service) {
  const auto ranks = std::make_shared<Ranks>();
  return {.new_request = [service, ranks] { return std::make_shared<RankRequest>(service, ranks); },
          .conclude =
              [service, ranks](const RequestContext& context, std::optional<RpcMessage>* last) {
                return ConcludeRanks(ranks.get(), context.trace.get(),
                                     service->options().response_bytes, last);
              }};
}

Status FillInfo(const api::Service& service, const Rpc& rpc, wire::InfoResponse* response) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, TeiModelOf(rpc));
  PENSTOCK_ASSIGN_OR_RETURN(const api::ModelInfo model, service.Model(name));
  PENSTOCK_ASSIGN_OR_RETURN(*response, TeiInfo(model, service.options()));
  return Status::Ok();
}

void AnswerTei(api::Service* service, const CallReply& reply, const wire::InfoRequest&,
               wire::InfoResponse* response) {
  reply.End(FillInfo(*service, reply.rpc(), response));
}

void AnswerTei(api::Service*, const CallReply& reply, const wire::EmbedSparseRequest&,
               wire::EmbedSparseResponse*) {
  reply.End(api::TeiNoSparse());
}

// With the texts before the colon that TEI has, and which clients may look for.
GrpcStatus StatusOfTei(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kPayloadTooLarge:
      return {GrpcCode::kInvalidArgument, "Input validation error: " + status.message()};
    case StatusCode::kUnprocessable:
    case StatusCode::kUnsupported:
      return {GrpcCode::kFailedPrecondition, "Backend error: " + status.message()};
    case StatusCode::kResourceExhausted:
      return {GrpcCode::kResourceExhausted, "Model is overloaded: " + status.message()};
    default:
      return ToGrpc(status);
  }
}

template <typename Request, typename Response>
void AddTeiCalls(GrpcFrontEnd* front_end, const GrpcMethod& method) {
  AddCalls<Request, Response>(
      front_end, method,
      [service = front_end->service()](const CallReply& reply, const Request& request,
                                       Response* response) {
        AnswerTei(service, reply, request, response);
      });
}

}  // namespace

void AddTei(GrpcFrontEnd* front_end) {
  AddTeiCalls<wire::InfoRequest, wire::InfoResponse>(front_end, {.path = "/tei.v1.Info/Info"});
#define PENSTOCK_ADD(service, method, request, response)                                 \
  AddTeiCalls<wire::request, wire::response>(front_end,                                  \
                                             {.path = "/tei.v1." #service "/" #method}); \
  AddTeiCalls<wire::request, wire::response>(                                            \
      front_end, {.path = "/tei.v1." #service "/" #method "Stream", .streams = true})
  PENSTOCK_ADD(Embed, Embed, EmbedRequest, EmbedResponse);
  PENSTOCK_ADD(Embed, EmbedAll, EmbedAllRequest, EmbedAllResponse);
  PENSTOCK_ADD(Embed, EmbedSparse, EmbedSparseRequest, EmbedSparseResponse);
  PENSTOCK_ADD(Predict, Predict, PredictRequest, PredictResponse);
  PENSTOCK_ADD(Predict, PredictPair, PredictPairRequest, PredictResponse);
  PENSTOCK_ADD(Tokenize, Tokenize, EncodeRequest, EncodeResponse);
  PENSTOCK_ADD(Tokenize, Decode, DecodeRequest, DecodeResponse);
#undef PENSTOCK_ADD
  AddTeiCalls<wire::RerankRequest, wire::RerankResponse>(front_end,
                                                         {.path = "/tei.v1.Rerank/Rerank"});
  OrderedCall::AddMethod(
      front_end, {.path = "/tei.v1.Rerank/RerankStream", .streams = true},
      [front_end](const std::shared_ptr<Rpc>&) { return RerankStream(front_end->service()); });
  front_end->MapStatus("/tei.v1.", StatusOfTei);
}

}  // namespace penstock::grpc
