#include "grpc/stream_infer.h"

#include <grpc/inference.pb.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/service.h"
#include "grpc/infer_tensors.h"
#include "grpc/ordered_call.h"
#include "grpc/proto_message.h"
#include "grpc/stream_text.h"
#include "log/exception_status.h"

namespace penstock::grpc {
namespace {

class StreamInferRequest final : public CallRequest, private InferTensors {
 public:
  explicit StreamInferRequest(api::Service* service) : service_(service) {}

  Status Read(std::string message, RequestMemory* /*memory*/, int64_t* /*counted*/) override {
    message_ = std::move(message);
    return Status::Ok();
  }

  void Work(const CallReply& reply) override {
    context = reply.context();
    const Status read = InferTensors::Read(std::move(message_), service_, Clock::now());
    if (!read.ok()) return reply.End(read);
    if (AsksForText(request().head(), *service_)) {
      auto text = TextRequestOf(request());
      if (!text.ok()) return reply.End(text.status());
      text_ = std::make_unique<TextAnswer>(request().head());
      return text_->Run(service_, *std::move(text), std::move(context), [reply] { reply.Wake(); });
    }
    // Copied here whatever the size: a stream is read by one thread anyway.
    if (const Status shared = ReadShared(); !shared.ok()) return reply.End(shared);
    reply_ = reply;
    service_->Infer(this);
  }

  Expected<Step> Next(RpcMessage* message) override {
    if (text_ != nullptr) return text_->Next(message);
    *message = std::move(answer_);
    return Step::kLast;
  }

  bool Refuse(const Status& failure) override {
    text_.reset();
    answer_ = StreamError(failure, request().head().id());
    return true;
  }

  void Drop() override { text_.reset(); }

 private:
  void Done(const Status& status) override {
    const CallReply reply = *std::exchange(reply_, std::nullopt);
    Status written = status;
    try {
      if (written.ok()) written = Write(/*stream=*/true, &answer_);
    } catch (...) {
      written = ExceptionStatus();
    }
    RunGuarded("answer of a stream", [&] { reply.End(written); });
  }

  api::Service* const service_;
  std::string message_;  // until Work
  std::unique_ptr<TextAnswer> text_;
  RpcMessage answer_;
  std::optional<CallReply> reply_;  // while the service has it
};

}  // namespace

void AddStreamInfer(GrpcFrontEnd* front_end, const char* path) {
  OrderedCall::AddMethod(front_end, {.path = path, .streams = true},
                         [front_end](const std::shared_ptr<Rpc>&) {
                           return CallParts{
                               .new_request =
                                   [service = front_end->service()] {
                                     return std::make_shared<StreamInferRequest>(service);
                                   },
                               // Messages stay where they were read.
                               .limits = {.requests_max = 64,
                                          .bytes_max = std::numeric_limits<int64_t>::max(),
                                          .copies = 1},
                           };
                         });
}

}  // namespace penstock::grpc
