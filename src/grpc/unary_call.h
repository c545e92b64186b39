// UnaryCall: a call of one message and one answer, from its first byte to the log. A service says
// only what is its own:
//
//   AddUnary<EncodeRequest, EncodeResponse>(
//       front_end, "/tei.v1.Tokenize/Tokenize",
//       [service](const UnaryReply& reply, const EncodeRequest& request,
//                 EncodeResponse* response) {
//         service->Tokenize(Parse(request), reply.context(),
//                           [reply, response](Expected<TokenizeResponse> result) {
//                             if (!result.ok()) return reply.End(result.status());
//                             reply.Print(SizeOf(*result), [=] { Print(*result, response); });
//                           });
//       });
//
// Keys, priority, deadline, memory of the message, metrics and logs are seen to; a client that
// leaves cancels the context's token. Request and response may be used until End or Print.
#pragma once

#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/status.h"
#include "grpc/grpc_front_end.h"

namespace penstock {

class UnaryCall;

// The way back of one call. Copies share it; any thread. If the last copy goes and the call was not
// ended, an exception has lost it, and it fails with kInternal.
class UnaryReply {
 public:
  // With the memory of the message in `memory`, and the token that is set if the client leaves.
  const RequestContext& context() const;
  // For metadata, until End or Print.
  Rpc& rpc() const;
  // See GrpcFrontEnd::HasKey.
  bool HasKey() const;

  // Ends the call; OK: with the response as it is. Only the first end counts.
  void End(const Status& status) const;
  // Runs `print`, which fills the response, and ends the call with OK: on a worker, so that a
  // model's thread is not held up by it. `bytes`: about what it prints, which is taken from the
  // budget first.
  void Print(size_t bytes, std::function<void()> print) const;

 private:
  friend class UnaryCall;
  explicit UnaryReply(std::shared_ptr<UnaryCall> call);

  std::shared_ptr<UnaryCall> call_;
};

class UnaryCall : public RpcReactor {
 public:
  virtual ~UnaryCall() = default;
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Reads the message if the call is let in.
  static void Start(std::shared_ptr<UnaryCall> call, int32_t method);

  void OnMessage(std::string message) override;
  void OnReadEnd(const Status& status) override;
  void OnCancel() override;
  void OnDone() override;

 protected:
  UnaryCall(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc)
      : front_end_(front_end), rpc_(std::move(rpc)) {}

  virtual google::protobuf::Message* request() = 0;
  virtual const google::protobuf::Message& response() const = 0;
  // The message is there. An exception fails the call.
  virtual void Work(const UnaryReply& reply) = 0;

 private:
  friend class UnaryReply;
  void End(const Status& status);

  GrpcFrontEnd* const front_end_;
  const std::shared_ptr<Rpc> rpc_;
  GrpcCall call_;
  // Kept apart: replies may outlive what End drops.
  RequestContext wanted_;
  std::atomic<bool> ended_{false};
  std::shared_ptr<UnaryCall> self_;  // until OnDone
};

template <typename Request, typename Response>
class TypedUnaryCall final : public UnaryCall {
 public:
  using Answer = std::function<void(const UnaryReply&, const Request&, Response*)>;

  TypedUnaryCall(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc,
                 std::shared_ptr<const Answer> answer)
      : UnaryCall(front_end, std::move(rpc)), answer_(std::move(answer)) {}

 private:
  google::protobuf::Message* request() override { return &request_; }
  const google::protobuf::Message& response() const override { return response_; }
  void Work(const UnaryReply& reply) override { (*answer_)(reply, request_, &response_); }

  const std::shared_ptr<const Answer> answer_;
  Request request_;
  Response response_;
};

// Adds a method whose calls `answer` answers.
template <typename Request, typename Response>
void AddUnary(GrpcFrontEnd* front_end, const char* path,
              typename TypedUnaryCall<Request, Response>::Answer answer,
              RouteFor who = RouteFor::kUsers) {
  using Call = TypedUnaryCall<Request, Response>;
  front_end->AddMethod(
      path, /*streams=*/false,
      [front_end, shared = std::make_shared<const typename Call::Answer>(std::move(answer))](
          int32_t method, const std::shared_ptr<Rpc>& rpc) {
        UnaryCall::Start(std::make_shared<Call>(front_end, rpc, shared), method);
      },
      who);
}

}  // namespace penstock
