// UnaryCall: a call of one message and one answer, from its first byte to the log. A service's
// method says only what is its own:
//
//   grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
//                                      const TokenizeRequest* request,
//                                      TokenizeResponse* response) override {
//     return UnaryCall::Start(
//         front_end_, tokenize_, context, *request, response, [=, this](const UnaryReply& reply) {
//           front_end_->service()->Tokenize(
//               Parse(*request), reply.context(),
//               [reply, response](Expected<TokenizeResponse> result) {
//                 if (!result.ok()) return reply.End(result.status());
//                 reply.Print(SizeOf(*result), [=] { Print(*result, response); });
//               });
//         });
//   }
//
// Keys, priority, deadline, memory of the message, metrics and logs are seen to; a client that
// leaves cancels the context's token. Request and response may be used until End or Print.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

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
  const HttpRequest& request() const;

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

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<void(const UnaryReply&)>;

  // Calls `work` on this thread if the call is let in. An exception in it fails the call.
  static grpc::ServerUnaryReactor* Start(GrpcFrontEnd* front_end, int32_t method,
                                         grpc::CallbackServerContext* context,
                                         const google::protobuf::MessageLite& request,
                                         const google::protobuf::MessageLite* response,
                                         const Work& work);

  void OnCancel() override;
  void OnDone() override;

 private:
  friend class UnaryReply;
  UnaryCall(GrpcFrontEnd* front_end, grpc::CallbackServerContext* context,
            const google::protobuf::MessageLite* response)
      : front_end_(front_end), context_(context), response_(response) {}
  void End(const Status& status);
  // OnDone neither waits nor takes long, so gRPC need not hand it to another thread.
  bool InternalInlineable() override { return true; }

  GrpcFrontEnd* const front_end_;
  grpc::CallbackServerContext* const context_;
  const google::protobuf::MessageLite* const response_;
  GrpcCall call_;
  // Kept apart: replies may outlive what End drops.
  RequestContext wanted_;
  std::atomic<bool> ended_{false};
  grpc::StatusCode code_ = grpc::StatusCode::OK;
  std::shared_ptr<UnaryCall> self_;  // until OnDone
};

}  // namespace penstock
