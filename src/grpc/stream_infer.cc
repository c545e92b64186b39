#include "grpc/stream_infer.h"

#include <grpc/inference.pb.h>

#include <atomic>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/infer_tensors.h"
#include "grpc/proto_message.h"
#include "grpc/stream_text.h"

namespace penstock {
namespace {

// The answer of a tensor model.
class TensorAnswer final : public StreamAnswer, private InferTensors {
 public:
  using InferTensors::request;

  explicit TensorAnswer(std::shared_ptr<MessageStream> stream) : stream_(std::move(stream)) {}

  Status Read(std::string message, RequestContext&& context_in, Service* service) {
    context = std::move(context_in);
    return InferTensors::Read(std::move(message), service, Clock::now());
  }
  // What the text of a model is generated with.
  RequestContext TakeContext() { return std::move(context); }

  static void Run(const std::shared_ptr<TensorAnswer>& self, Service* service) {
    self->self_ = self;
    // Copied here whatever the size: a stream is read by one thread anyway.
    if (const Status status = self->ReadShared(); !status.ok()) return self->Done(status);
    service->Infer(self.get());
  }

  Step Next(RpcMessage* message, Status*) override {
    if (!done_.load(std::memory_order_acquire)) return Step::kWait;
    *message = std::move(answer_);
    return Step::kLast;
  }

 private:
  void Done(const Status& status) override {
    const std::shared_ptr<TensorAnswer> self = std::move(self_);
    const std::shared_ptr<MessageStream> stream = std::move(stream_);
    Status written = status;
    RunGuarded("answer of a stream", [&] {
      if (written.ok()) written = Write(/*stream=*/true, &answer_);
      if (!written.ok()) answer_ = StreamError(written, request().head().id());
    });
    done_.store(true, std::memory_order_release);
    stream->Wake();
  }

  std::shared_ptr<MessageStream> stream_;  // until it is done
  RpcMessage answer_;
  std::atomic<bool> done_{false};
  std::shared_ptr<TensorAnswer> self_;  // while the service has it
};

class StreamInfer final : public MessageStream {
 public:
  StreamInfer(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc)
      : MessageStream(front_end, std::move(rpc)) {}

 protected:
  std::shared_ptr<StreamAnswer> Take(std::string request, RequestContext&& context) override {
    Service* const service = front_end()->service();
    const auto answer = std::make_shared<TensorAnswer>(shared_from_this());
    const Status read = answer->Read(std::move(request), std::move(context), service);
    const inference::ModelInferRequest& head = answer->request().head();
    if (!read.ok()) return StreamRefusal(read, head.id());
    if (AsksForText(head, *service)) {
      return StartText(shared_from_this(), service, answer->request(), answer->TakeContext());
    }
    TensorAnswer::Run(answer, service);
    return answer;
  }
  std::shared_ptr<StreamAnswer> Refuse(const Status& status) override {
    return StreamRefusal(status, "");
  }
};

}  // namespace

std::shared_ptr<StreamAnswer> StreamRefusal(const Status& status, const std::string& id) {
  return std::make_shared<ReadyAnswer>(StreamError(status, id));
}

RpcMessage StreamError(const Status& status, const std::string& id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(status.message());
  message.mutable_infer_response()->set_id(id);
  return PrintMessage(message);
}

void StartStreamInfer(GrpcFrontEnd* front_end, int32_t method, const std::shared_ptr<Rpc>& rpc) {
  MessageStream::Start(std::make_shared<StreamInfer>(front_end, rpc), method);
}

}  // namespace penstock
