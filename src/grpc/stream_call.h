// StreamCall: a call of gRPC in which each message of the client gets an answer, in order. Keys,
// priority, metrics and logs are seen to as UnaryCall does; ordered_stream.h has the rest. A client
// that takes longer than --write-timeout-ms for an answer is dropped.
//
//   grpc::ServerBidiReactor<DecodeRequest, DecodeResponse>* DecodeStream(
//       grpc::CallbackServerContext* context) override {
//     return StreamCall<DecodeRequest, DecodeResponse>::Start(
//         front_end_, method, context,
//         [](const DecodeRequest* request, DecodeResponse* response, const StreamReply& reply) {
//           ... reply.End(status) or reply.Print(bytes, [] { fill *response });
//         });
//   }
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "common/exception_status.h"
#include "grpc/grpc_front_end.h"
#include "grpc/ordered_stream.h"
#include "grpc/write_watch.h"

namespace penstock {

// What the kinds of streams have in common: from a reactor of gRPC to the stream and back. `Item`
// is a StreamRequest with the message that is read as its `request`.
template <typename Reactor, typename Item>
class StreamReactor : public Reactor, public OrderedStream {
 public:
  void OnReadDone(bool ok) override { OnRead(ok); }
  void OnCancel() override { OnGone(); }
  void OnDone() override {
    front_end_->End(code_, bytes_out_, context_, &call_);
    const auto last = std::move(self_);
  }

 protected:
  StreamReactor(GrpcFrontEnd* front_end, grpc::CallbackServerContext* context)
      : front_end_(front_end), context_(context) {}

  // Lets the call in, or refuses it.
  static Reactor* StartCall(std::shared_ptr<StreamReactor> stream, int32_t method) {
    stream->self_ = stream;
    StreamReactor& self = *stream;
    const Status status = self.front_end_->Begin(method, self.context_, 0, &self.call_);
    if (status.ok()) {
      self.call_.items = 0;
      self.Run(self.front_end_->service(), self.call_.context(), self.call_.request.begin);
    } else {
      self.Close(status);
    }
    return &self;
  }

  std::shared_ptr<StreamRequest> NewRequest() override { return std::make_shared<Item>(); }
  void Read(StreamRequest* request) override {
    this->StartRead(&static_cast<Item*>(request)->request);
  }
  size_t BytesOf(const StreamRequest& request) const override {
    return static_cast<const Item&>(request).request.ByteSizeLong();
  }
  void Close(const Status& status) override {
    grpc::Status wire(grpc::StatusCode::INTERNAL, "");  // allocates nothing
    RunGuarded("end of a stream", [&] { wire = front_end_->StatusOf(status, context_, &call_); });
    code_ = wire.error_code();
    this->Finish(std::move(wire));
  }

  GrpcFrontEnd* const front_end_;
  grpc::CallbackServerContext* const context_;
  GrpcCall call_;
  size_t bytes_out_ = 0;

 private:
  grpc::StatusCode code_ = grpc::StatusCode::OK;
  std::shared_ptr<StreamReactor> self_;  // until OnDone
};

template <typename Request, typename Response>
struct StreamItem : StreamRequest {
  Request request;
  Response response;
};

template <typename Request, typename Response>
class StreamCall final : public StreamReactor<grpc::ServerBidiReactor<Request, Response>,
                                              StreamItem<Request, Response>> {
  using Base =
      StreamReactor<grpc::ServerBidiReactor<Request, Response>, StreamItem<Request, Response>>;
  using Item = StreamItem<Request, Response>;

 public:
  // Of each message; on any thread, several at once. Both messages may be used until End or Print,
  // and by what is printed.
  using Handler = std::function<void(const Request*, Response*, const StreamReply&)>;

  static grpc::ServerBidiReactor<Request, Response>* Start(GrpcFrontEnd* front_end, int32_t method,
                                                           grpc::CallbackServerContext* context,
                                                           Handler handler) {
    return Base::StartCall(
        std::shared_ptr<StreamCall>(new StreamCall(front_end, context, std::move(handler))),
        method);
  }

  void OnWriteDone(bool ok) override {
    watch_->End();
    this->OnWritten(ok);
  }
  void OnDone() override {
    watch_->Stop();
    Base::OnDone();
  }

 private:
  StreamCall(GrpcFrontEnd* front_end, grpc::CallbackServerContext* context, Handler handler)
      : Base(front_end, context),
        handler_(std::move(handler)),
        watch_(std::make_shared<WriteWatch>(front_end->write_timeout(),
                                            [context] { context->TryCancel(); })) {}

  void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) override {
    Item& item = static_cast<Item&>(*request);
    handler_(&item.request, &item.response, reply);
  }
  Expected<OrderedStream::Written> Write(StreamRequest* request) override {
    const Response& response = static_cast<Item*>(request)->response;
    ++this->call_.items;
    this->bytes_out_ += response.ByteSizeLong();
    watch_->Begin();
    this->StartWrite(&response);
    return OrderedStream::Written::kWaits;
  }

  const Handler handler_;
  const std::shared_ptr<WriteWatch> watch_;
};

}  // namespace penstock
