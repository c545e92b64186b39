#include "grpc/tei_service.h"

#include <grpc/tei.pb.h>

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

// The model that a call names in its metadata; "": none.
Expected<std::string> ModelOf(const Rpc& rpc) {
  constexpr char kName[] = "model";
  std::string name(rpc.Header(kName));
  if (!name.empty()) PENSTOCK_RETURN_IF_ERROR(CheckName(name, kName));
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

Status FillInfo(const Service& service, const Rpc& rpc, wire::InfoResponse* response) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, ModelOf(rpc));
  PENSTOCK_ASSIGN_OR_RETURN(const ModelInfo model, service.Model(name));
  PENSTOCK_ASSIGN_OR_RETURN(*response, TeiInfo(model, service.options()));
  return Status::Ok();
}

template <typename Request, typename Response>
void AddSingle(GrpcFrontEnd* front_end, const char* path) {
  AddUnary<Request, Response>(
      front_end, path,
      [service = front_end->service()](const UnaryReply& reply, const Request& request,
                                       Response* response) {
        const Expected<std::string> model = ModelOf(reply.rpc());
        if (!model.ok()) return reply.End(model.status());
        AnswerTei(service, *model, &request, response, reply, [rpc = &reply.rpc(), response] {
          if constexpr (requires { response->metadata(); }) {
            AddHeaders(response->metadata(), rpc);
          }
        });
      });
}

template <typename Request, typename Response>
void AddMany(GrpcFrontEnd* front_end, const char* path) {
  AddStream<Request, Response>(front_end, path, [service = front_end->service()](const Rpc& rpc) {
    return [service, model = ModelOf(rpc)](const Request* request, Response* response,
                                           const StreamReply& reply) {
      if (!model.ok()) return reply.End(model.status());
      AnswerTei(service, *model, request, response, reply, [] {});
    };
  });
}

void AddSparse(GrpcFrontEnd* front_end) {
  AddUnary<wire::EmbedSparseRequest, wire::EmbedSparseResponse>(
      front_end, "/tei.v1.Embed/EmbedSparse",
      [](const UnaryReply& reply, const wire::EmbedSparseRequest&, wire::EmbedSparseResponse*) {
        reply.End(TeiNoSparse());
      });
  AddStream<wire::EmbedSparseRequest, wire::EmbedSparseResponse>(
      front_end, "/tei.v1.Embed/EmbedSparseStream", [](const Rpc&) {
        return [](const wire::EmbedSparseRequest*, wire::EmbedSparseResponse*,
                  const StreamReply& reply) { reply.End(TeiNoSparse()); };
      });
}

}  // namespace

void AddTei(GrpcFrontEnd* front_end) {
  AddUnary<wire::InfoRequest, wire::InfoResponse>(
      front_end, "/tei.v1.Info/Info",
      [service = front_end->service()](const UnaryReply& reply, const wire::InfoRequest&,
                                       wire::InfoResponse* response) {
        reply.End(FillInfo(*service, reply.rpc(), response));
      });
#define PENSTOCK_ADD(service, method, request, response)                                \
  AddSingle<wire::request, wire::response>(front_end, "/tei.v1." #service "/" #method); \
  AddMany<wire::request, wire::response>(front_end, "/tei.v1." #service "/" #method "Stream")
  PENSTOCK_ADD(Embed, Embed, EmbedRequest, EmbedResponse);
  PENSTOCK_ADD(Embed, EmbedAll, EmbedAllRequest, EmbedAllResponse);
  PENSTOCK_ADD(Predict, Predict, PredictRequest, PredictResponse);
  PENSTOCK_ADD(Predict, PredictPair, PredictPairRequest, PredictResponse);
  PENSTOCK_ADD(Tokenize, Tokenize, EncodeRequest, EncodeResponse);
  PENSTOCK_ADD(Tokenize, Decode, DecodeRequest, DecodeResponse);
#undef PENSTOCK_ADD
  AddSparse(front_end);
  AddSingle<wire::RerankRequest, wire::RerankResponse>(front_end, "/tei.v1.Rerank/Rerank");
  front_end->AddMethod("/tei.v1.Rerank/RerankStream", /*streams=*/true,
                       [front_end](int32_t method, const std::shared_ptr<Rpc>& rpc) {
                         TeiRerankStream::Start(front_end, method, rpc, ModelOf(*rpc));
                       });
  front_end->MapStatus("/tei.v1.", TeiStatus);
}

}  // namespace penstock
