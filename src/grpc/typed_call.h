// Calls whose requests and answers are one message each. A service says only what is its own:
//
//   AddCalls<EncodeRequest, EncodeResponse>(
//       front_end, {.path = "/tei.v1.Tokenize/Tokenize"},
//       [service](const CallReply& reply, const EncodeRequest& request, EncodeResponse* response) {
//         service->Tokenize(Parse(request), reply.context(),
//                           [reply, response](Expected<TokenizeResponse> result) {
//                             if (!result.ok()) return reply.End(result.status());
//                             reply.Print(SizeOf(*result), [=] { Print(*result, response); });
//                           });
//       });
//
// Where the method is one of streams, each message of the client is answered so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/service.h"
#include "grpc/ordered_call.h"
#include "grpc/proto_message.h"

namespace penstock::grpc {

template <typename Request, typename Response>
class TypedRequest : public CallRequest {
 public:
  // On any thread, several at once. Both messages may be used until End or Print, and by what is
  // printed.
  using Answer = std::function<void(const CallReply&, const Request&, Response*)>;

  TypedRequest(std::shared_ptr<const Answer> answer, int64_t response_bytes_max)
      : answer_(std::move(answer)), response_bytes_max_(response_bytes_max) {}

  Status Read(std::string message, RequestMemory* memory, int64_t* counted) override {
    return ParseMessage(message, memory, &request_, counted);
  }
  void Work(const CallReply& reply) override { (*answer_)(reply, request_, &response_); }
  Expected<Step> Next(RpcMessage* message) override {
    PENSTOCK_ASSIGN_OR_RETURN(*message, PrintMessage(response_, response_bytes_max_));
    return Step::kLast;
  }

 protected:
  Request request_;
  Response response_;

 private:
  const std::shared_ptr<const Answer> answer_;
  const int64_t response_bytes_max_;
};

// Adds a method whose requests `answer` answers.
template <typename Request, typename Response, typename Typed = TypedRequest<Request, Response>>
void AddCalls(GrpcFrontEnd* front_end, const GrpcMethod& method, typename Typed::Answer answer) {
  const auto shared = std::make_shared<const typename Typed::Answer>(std::move(answer));
  const int64_t bytes_max = front_end->service()->options().response_bytes;
  OrderedCall::AddMethod(front_end, method, [shared, bytes_max](const std::shared_ptr<Rpc>&) {
    return CallParts{
        .new_request = [shared, bytes_max] { return std::make_shared<Typed>(shared, bytes_max); }};
  });
}

}  // namespace penstock::grpc
