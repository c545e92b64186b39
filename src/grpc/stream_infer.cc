#include "grpc/stream_infer.h"

#include <grpc/inference.pb.h>

#include <atomic>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/infer_tensors.h"
#include "grpc/stream_text.h"

namespace penstock {
namespace {

// The answer of a tensor model.
class TensorAnswer final : public InferAnswer, private InferTensors {
 public:
  using InferTensors::request;

  TensorAnswer(std::shared_ptr<InferStream> stream, grpc::ByteBuffer buffer)
      : stream_(std::move(stream)), buffer_(std::move(buffer)) {}

  Status Read(RequestContext&& context_in, Service* service) {
    context = std::move(context_in);
    return InferTensors::Read(buffer_, service, Clock::now());
  }
  // What the text of a model is generated with.
  RequestContext TakeContext() { return std::move(context); }

  static void Run(const std::shared_ptr<TensorAnswer>& self, Service* service) {
    self->self_ = self;
    // Copied here whatever the size: a stream is read by one thread anyway.
    if (const Status status = self->ReadShared(); !status.ok()) return self->Done(status);
    service->Infer(self.get());
  }

  Step Next(grpc::ByteBuffer* message, Status*) override {
    if (!done_.load(std::memory_order_acquire)) return Step::kWait;
    message->Swap(&answer_);
    return Step::kLast;
  }

 private:
  void Done(const Status& status) override {
    const std::shared_ptr<TensorAnswer> self = std::move(self_);
    const std::shared_ptr<InferStream> stream = std::move(stream_);
    Status written = status;
    RunGuarded("answer of a stream", [&] {
      if (written.ok()) written = Write(/*stream=*/true, &answer_);
      if (!written.ok()) answer_ = StreamError(written, request().head().id());
    });
    done_.store(true, std::memory_order_release);
    stream->Wake();
  }

  std::shared_ptr<InferStream> stream_;  // until it is done
  grpc::ByteBuffer buffer_;
  grpc::ByteBuffer answer_;
  std::atomic<bool> done_{false};
  std::shared_ptr<TensorAnswer> self_;  // while the service has it
};

class StreamInfer final : public InferStream {
 public:
  StreamInfer(GrpcFrontEnd* front_end, int32_t method, grpc::CallbackServerContext* context)
      : InferStream(front_end, method, context) {}

 protected:
  std::shared_ptr<InferAnswer> Take(grpc::ByteBuffer&& request, RequestContext&& context) override {
    Service* const service = front_end()->service();
    const auto answer = std::make_shared<TensorAnswer>(shared_from_this(), std::move(request));
    const Status read = answer->Read(std::move(context), service);
    const inference::ModelInferRequest& head = answer->request().head();
    if (!read.ok()) return StreamRefusal(read, head.id());
    if (AsksForText(head, *service)) {
      return StartText(shared_from_this(), service, answer->request(), answer->TakeContext());
    }
    TensorAnswer::Run(answer, service);
    return answer;
  }
  std::shared_ptr<InferAnswer> Refuse(grpc::ByteBuffer&&, const Status& status) override {
    return StreamRefusal(status, "");
  }
  size_t BytesOf(const grpc::ByteBuffer& request) const override { return request.Length(); }
  size_t BytesOfAnswer(const grpc::ByteBuffer& response) const override {
    return response.Length();
  }
};

// An answer that is there from the start.
class Refusal final : public InferAnswer {
 public:
  explicit Refusal(grpc::ByteBuffer message) : message_(std::move(message)) {}
  Step Next(grpc::ByteBuffer* message, Status*) override {
    message->Swap(&message_);
    return Step::kLast;
  }

 private:
  grpc::ByteBuffer message_;
};

}  // namespace

std::shared_ptr<InferAnswer> StreamRefusal(const Status& status, const std::string& id) {
  return std::make_shared<Refusal>(StreamError(status, id));
}

grpc::ByteBuffer StreamError(const Status& status, const std::string& id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(status.message());
  message.mutable_infer_response()->set_id(id);
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamInfer(
    GrpcFrontEnd* front_end, int32_t method, grpc::CallbackServerContext* context) {
  return InferStream::Start(std::make_shared<StreamInfer>(front_end, method, context));
}

}  // namespace penstock
