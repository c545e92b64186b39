#include "grpc/tei_service.h"

#include <grpc/tei.grpc.pb.h>

#include <string>
#include <utility>

#include "api/names.h"
#include "api/service.h"
#include "api/tei_rules.h"
#include "grpc/stream_call.h"
#include "grpc/tei_calls.h"
#include "grpc/tei_rerank_stream.h"
#include "grpc/tei_status.h"
#include "grpc/unary_call.h"

namespace penstock {
namespace {

namespace wire = tei::v1;
using Context = grpc::CallbackServerContext;
template <typename Request, typename Response>
using Bidi = grpc::ServerBidiReactor<Request, Response>;

constexpr char kInfo[] = "/tei.v1.Info/Info";
constexpr char kEmbed[] = "/tei.v1.Embed/Embed";
constexpr char kEmbedStream[] = "/tei.v1.Embed/EmbedStream";
constexpr char kEmbedSparse[] = "/tei.v1.Embed/EmbedSparse";
constexpr char kEmbedSparseStream[] = "/tei.v1.Embed/EmbedSparseStream";
constexpr char kEmbedAll[] = "/tei.v1.Embed/EmbedAll";
constexpr char kEmbedAllStream[] = "/tei.v1.Embed/EmbedAllStream";
constexpr char kPredict[] = "/tei.v1.Predict/Predict";
constexpr char kPredictPair[] = "/tei.v1.Predict/PredictPair";
constexpr char kPredictStream[] = "/tei.v1.Predict/PredictStream";
constexpr char kPredictPairStream[] = "/tei.v1.Predict/PredictPairStream";
constexpr char kRerank[] = "/tei.v1.Rerank/Rerank";
constexpr char kRerankStream[] = "/tei.v1.Rerank/RerankStream";
constexpr char kTokenize[] = "/tei.v1.Tokenize/Tokenize";
constexpr char kTokenizeStream[] = "/tei.v1.Tokenize/TokenizeStream";
constexpr char kDecode[] = "/tei.v1.Tokenize/Decode";
constexpr char kDecodeStream[] = "/tei.v1.Tokenize/DecodeStream";

// The model that a call names in its metadata; "": none.
Expected<std::string> ModelOf(const Context& context) {
  constexpr char kName[] = "model";
  const auto found = context.client_metadata().find(kName);
  if (found == context.client_metadata().end()) return std::string();
  std::string name(found->second.data(), found->second.size());
  PENSTOCK_RETURN_IF_ERROR(CheckName(name, kName));
  return name;
}

// The metadata of an answer as headers too, in milliseconds, as TEI has them.
void AddHeaders(const wire::Metadata& metadata, Context* context) {
  const auto add = [&](const char* name, uint64_t value) {
    context->AddInitialMetadata(name, std::to_string(value));
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

// How a method is served, by its path and its messages.
class Methods {
 public:
  explicit Methods(GrpcFrontEnd* front_end) : front_end_(front_end) {}
  Methods(const Methods&) = delete;
  Methods& operator=(const Methods&) = delete;

 protected:
  int32_t At(const char* path) const { return front_end_->MethodOf(path); }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Single(int32_t method, Context* context, const Request* request,
                                   Response* response) const {
    return UnaryCall::Start(front_end_, method, context, *request, response,
                            [=, service = front_end_->service()](const UnaryReply& reply) {
                              const Expected<std::string> model = ModelOf(*context);
                              if (!model.ok()) return reply.End(model.status());
                              AnswerTei(service, *model, request, response, reply,
                                        [context, response] {
                                          if constexpr (requires { response->metadata(); }) {
                                            AddHeaders(response->metadata(), context);
                                          }
                                        });
                            });
  }

  template <typename Request, typename Response>
  Bidi<Request, Response>* Stream(int32_t method, Context* context) const {
    return StreamCall<Request, Response>::Start(
        front_end_, method, context,
        [service = front_end_->service(), model = ModelOf(*context)](
            const Request* request, Response* response, const StreamReply& reply) {
          if (!model.ok()) return reply.End(model.status());
          AnswerTei(service, *model, request, response, reply, [] {});
        });
  }

  GrpcFrontEnd* const front_end_;
};

class InfoService final : public wire::Info::CallbackService, Methods {
 public:
  using Methods::Methods;

  grpc::ServerUnaryReactor* Info(Context* context, const wire::InfoRequest* request,
                                 wire::InfoResponse* response) override {
    return UnaryCall::Start(
        front_end_, info_, context, *request, response,
        [=, this](const UnaryReply& reply) { reply.End(Fill(*context, response)); });
  }

 private:
  Status Fill(const Context& context, wire::InfoResponse* response) const {
    const penstock::Service& service = *front_end_->service();
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, ModelOf(context));
    PENSTOCK_ASSIGN_OR_RETURN(const ModelInfo model, service.Model(name));
    PENSTOCK_ASSIGN_OR_RETURN(*response, TeiInfo(model, service.options()));
    return Status::Ok();
  }

  const int32_t info_ = At(kInfo);
};

class EmbedService final : public wire::Embed::CallbackService, Methods {
 public:
  using Methods::Methods;

  grpc::ServerUnaryReactor* Embed(Context* context, const wire::EmbedRequest* request,
                                  wire::EmbedResponse* response) override {
    return Single(embed_, context, request, response);
  }
  Bidi<wire::EmbedRequest, wire::EmbedResponse>* EmbedStream(Context* context) override {
    return Stream<wire::EmbedRequest, wire::EmbedResponse>(embed_stream_, context);
  }
  grpc::ServerUnaryReactor* EmbedSparse(Context* context, const wire::EmbedSparseRequest* request,
                                        wire::EmbedSparseResponse* response) override {
    return UnaryCall::Start(front_end_, embed_sparse_, context, *request, response,
                            [](const UnaryReply& reply) { reply.End(TeiNoSparse()); });
  }
  Bidi<wire::EmbedSparseRequest, wire::EmbedSparseResponse>* EmbedSparseStream(
      Context* context) override {
    return StreamCall<wire::EmbedSparseRequest, wire::EmbedSparseResponse>::Start(
        front_end_, embed_sparse_stream_, context,
        [](const wire::EmbedSparseRequest*, wire::EmbedSparseResponse*, const StreamReply& reply) {
          reply.End(TeiNoSparse());
        });
  }
  grpc::ServerUnaryReactor* EmbedAll(Context* context, const wire::EmbedAllRequest* request,
                                     wire::EmbedAllResponse* response) override {
    return Single(embed_all_, context, request, response);
  }
  Bidi<wire::EmbedAllRequest, wire::EmbedAllResponse>* EmbedAllStream(Context* context) override {
    return Stream<wire::EmbedAllRequest, wire::EmbedAllResponse>(embed_all_stream_, context);
  }

 private:
  const int32_t embed_ = At(kEmbed);
  const int32_t embed_stream_ = At(kEmbedStream);
  const int32_t embed_sparse_ = At(kEmbedSparse);
  const int32_t embed_sparse_stream_ = At(kEmbedSparseStream);
  const int32_t embed_all_ = At(kEmbedAll);
  const int32_t embed_all_stream_ = At(kEmbedAllStream);
};

class PredictService final : public wire::Predict::CallbackService, Methods {
 public:
  using Methods::Methods;

  grpc::ServerUnaryReactor* Predict(Context* context, const wire::PredictRequest* request,
                                    wire::PredictResponse* response) override {
    return Single(predict_, context, request, response);
  }
  grpc::ServerUnaryReactor* PredictPair(Context* context, const wire::PredictPairRequest* request,
                                        wire::PredictResponse* response) override {
    return Single(predict_pair_, context, request, response);
  }
  Bidi<wire::PredictRequest, wire::PredictResponse>* PredictStream(Context* context) override {
    return Stream<wire::PredictRequest, wire::PredictResponse>(predict_stream_, context);
  }
  Bidi<wire::PredictPairRequest, wire::PredictResponse>* PredictPairStream(
      Context* context) override {
    return Stream<wire::PredictPairRequest, wire::PredictResponse>(predict_pair_stream_, context);
  }

 private:
  const int32_t predict_ = At(kPredict);
  const int32_t predict_pair_ = At(kPredictPair);
  const int32_t predict_stream_ = At(kPredictStream);
  const int32_t predict_pair_stream_ = At(kPredictPairStream);
};

class RerankService final : public wire::Rerank::CallbackService, Methods {
 public:
  using Methods::Methods;

  grpc::ServerUnaryReactor* Rerank(Context* context, const wire::RerankRequest* request,
                                   wire::RerankResponse* response) override {
    return Single(rerank_, context, request, response);
  }
  grpc::ServerReadReactor<wire::RerankStreamRequest>* RerankStream(
      Context* context, wire::RerankResponse* response) override {
    return TeiRerankStream::Start(front_end_, rerank_stream_, context, ModelOf(*context), response);
  }

 private:
  const int32_t rerank_ = At(kRerank);
  const int32_t rerank_stream_ = At(kRerankStream);
};

class TokenizeService final : public wire::Tokenize::CallbackService, Methods {
 public:
  using Methods::Methods;

  grpc::ServerUnaryReactor* Tokenize(Context* context, const wire::EncodeRequest* request,
                                     wire::EncodeResponse* response) override {
    return Single(tokenize_, context, request, response);
  }
  Bidi<wire::EncodeRequest, wire::EncodeResponse>* TokenizeStream(Context* context) override {
    return Stream<wire::EncodeRequest, wire::EncodeResponse>(tokenize_stream_, context);
  }
  grpc::ServerUnaryReactor* Decode(Context* context, const wire::DecodeRequest* request,
                                   wire::DecodeResponse* response) override {
    return Single(decode_, context, request, response);
  }
  Bidi<wire::DecodeRequest, wire::DecodeResponse>* DecodeStream(Context* context) override {
    return Stream<wire::DecodeRequest, wire::DecodeResponse>(decode_stream_, context);
  }

 private:
  const int32_t tokenize_ = At(kTokenize);
  const int32_t tokenize_stream_ = At(kTokenizeStream);
  const int32_t decode_ = At(kDecode);
  const int32_t decode_stream_ = At(kDecodeStream);
};

std::vector<std::unique_ptr<grpc::Service>> MakeServices(GrpcFrontEnd* front_end) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<InfoService>(front_end));
  services.push_back(std::make_unique<EmbedService>(front_end));
  services.push_back(std::make_unique<PredictService>(front_end));
  services.push_back(std::make_unique<RerankService>(front_end));
  services.push_back(std::make_unique<TokenizeService>(front_end));
  return services;
}

}  // namespace

const std::vector<RouteInfo>& TeiService::Methods() {
  static const std::vector<RouteInfo> kMethods = [] {
    std::vector<RouteInfo> methods;
    for (const char* path :
         {kInfo, kEmbed, kEmbedStream, kEmbedSparse, kEmbedSparseStream, kEmbedAll, kEmbedAllStream,
          kPredict, kPredictPair, kPredictStream, kPredictPairStream, kRerank, kRerankStream,
          kTokenize, kTokenizeStream, kDecode, kDecodeStream}) {
      methods.push_back({"GRPC", path});
    }
    return methods;
  }();
  return kMethods;
}

TeiService::TeiService(GrpcFrontEnd* front_end) : services_(MakeServices(front_end)) {
  front_end->MapStatus("/tei.v1.", TeiStatus);
}

TeiService::~TeiService() = default;

void TeiService::Register(grpc::ServerBuilder* builder) {
  for (const auto& service : services_) builder->RegisterService(service.get());
}

}  // namespace penstock
