// How a message of tei.proto is worked on: parsed, handed to the Service, its answer filled. The
// same for single calls and for those of a stream, whose replies differ.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/service.h"
#include "frontend/wire_names.h"
#include "grpc/tei_convert.h"

namespace penstock {

// The behaviour of the Service that a message asks for.
constexpr auto TeiBehaviour(const tei::v1::EmbedRequest*) { return &Service::Embed; }
constexpr auto TeiBehaviour(const tei::v1::EmbedAllRequest*) { return &Service::EmbedAll; }
constexpr auto TeiBehaviour(const tei::v1::PredictRequest*) { return &Service::Classify; }
constexpr auto TeiBehaviour(const tei::v1::PredictPairRequest*) { return &Service::Classify; }
constexpr auto TeiBehaviour(const tei::v1::RerankRequest*) { return &Service::Rerank; }
constexpr auto TeiBehaviour(const tei::v1::RerankStreamRequest*) { return &Service::Rerank; }
constexpr auto TeiBehaviour(const tei::v1::EncodeRequest*) { return &Service::Tokenize; }
constexpr auto TeiBehaviour(const tei::v1::DecodeRequest*) { return &Service::Decode; }

// `status` with the names that fields have in the message.
Status TeiFieldNames(const Status& status, const google::protobuf::Message& request);

// About what an answer is in bytes, besides the texts of the request that it repeats.
size_t TeiBytes(const EmbedResponse& response);
size_t TeiBytes(const EmbedAllResponse& response);
size_t TeiBytes(const ClassifyResponse& response);
size_t TeiBytes(const RerankResponse& response);
size_t TeiBytes(const TokenizeResponse& response);
size_t TeiBytes(const DecodeResponse& response);

// Parses `request`, for `model` ("": the default), and calls then(result) where all went well, else
// reply.End. `then` may run on a model's thread: it leaves long work to reply.Print.
template <typename Request, typename Reply, typename Then>
void RunTei(Service* service, const std::string& model, const Request* request, const Reply& reply,
            Then then) {
  auto parsed = FromTei(*request);
  if (!parsed.ok()) return reply.End(parsed.status());
  parsed->model = model;
  (service->*TeiBehaviour(request))(*std::move(parsed), reply.context(),
                                    [request, reply, then = std::move(then)](auto result) {
                                      if (!result.ok())
                                        return reply.End(TeiFieldNames(result.status(), *request));
                                      then(*std::move(result));
                                    });
}

// The same for a request with an answer of its own, which is filled and ended. `print_more` is
// called after it was filled.
template <typename Request, typename Response, typename Reply, typename PrintMore>
void AnswerTei(Service* service, const std::string& model, const Request* request,
               Response* response, const Reply& reply, PrintMore print_more) {
  RunTei(service, model, request, reply, [=](auto result) {
    size_t bytes = TeiBytes(result);
    if constexpr (requires { request->return_text(); }) {
      if (request->return_text()) bytes += request->ByteSizeLong();
    }
    const auto shared = std::make_shared<const decltype(result)>(std::move(result));
    reply.Print(bytes, [shared, request, response, trace = reply.context().trace, print_more] {
      if constexpr (requires { ToTei(*shared, *request, response); }) {
        ToTei(*shared, *request, response);
      } else {
        ToTei(*shared, response);
      }
      if constexpr (requires { response->mutable_metadata(); }) {
        ToTei(TeiWorkOf(TeiChars(*request), shared->usage.prompt_tokens, trace.get()),
              response->mutable_metadata());
      }
      print_more();
    });
  });
}

}  // namespace penstock
