// StreamCall: a call of gRPC in which each message of the client gets an answer, in order. Keys,
// priority, metrics and logs are seen to as UnaryCall does; ordered_stream.h has the rest. A client
// that takes longer than --write-timeout-ms for an answer is dropped.
//
//   AddStream<DecodeRequest, DecodeResponse>(
//       front_end, "/tei.v1.Tokenize/DecodeStream", [](const Rpc& rpc) {
//         return [](const DecodeRequest* request, DecodeResponse* response,
//                   const StreamReply& reply) {
//           ... reply.End(status) or reply.Print(bytes, [] { fill *response });
//         };
//       });
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/grpc_front_end.h"
#include "grpc/ordered_stream.h"
#include "grpc/proto_message.h"

namespace penstock {

// A request that was read off the wire.
struct ReadRequest : StreamRequest {
  int64_t bytes = 0;  // of its message
  Status parsed;      // not OK: it is none
};

// What the kinds of streams have in common: from a call to the stream and back. `Item` is a
// ReadRequest with the message as its `request`.
template <typename Item>
class StreamReactor : public RpcReactor, public OrderedStream {
 public:
  void OnMessage(std::string message) override {
    Item* const item = std::exchange(read_, nullptr);
    int64_t counted = 0;
    // What it takes beyond its bytes is taken from the stream until the request has its own.
    RequestMemory* const memory = call_.context().memory.get();
    item->parsed = ParseMessage(message, memory, &item->request, &counted);
    item->bytes = std::max(counted, static_cast<int64_t>(message.size()));
    std::string().swap(message);
    if (counted > 0) memory->Give(counted);
    if (item->parsed.ok()) OnParsed(item);
    OnRead(true);
  }
  void OnReadEnd(const Status& status) override {
    if (!status.ok()) return OnGone(status);
    OnRead(false);
  }
  void OnWritten(bool ok) override { OrderedStream::OnWritten(ok); }
  void OnCancel() override { OnGone(); }
  void OnDone() override {
    front_end_->End(*rpc_, &call_);
    const auto last = std::move(self_);
  }

 protected:
  StreamReactor(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc)
      : front_end_(front_end), rpc_(std::move(rpc)) {}

  // Lets the call in, or refuses it.
  static void StartCall(std::shared_ptr<StreamReactor> stream, int32_t method) {
    StreamReactor& self = *stream;
    self.self_ = std::move(stream);
    self.rpc_->SetReactor(&self);
    Status status;
    try {
      status = self.front_end_->Begin(method, self.rpc_.get(), &self.call_);
    } catch (...) {
      status = ExceptionStatus();
    }
    if (!status.ok()) return self.Close(status);
    self.call_.items = 0;
    self.Run(self.front_end_->service(), self.call_.context(), self.call_.request.begin);
  }

  // A message was read, and is about to be begun.
  virtual void OnParsed(Item* /*item*/) {}

  std::shared_ptr<StreamRequest> NewRequest() override { return std::make_shared<Item>(); }
  void Read(StreamRequest* request) override {
    read_ = static_cast<Item*>(request);
    rpc_->Read();
  }
  size_t BytesOf(const StreamRequest& request) const override {
    return static_cast<size_t>(static_cast<const Item&>(request).bytes);
  }
  void Close(const Status& status) override { CloseWith(status, std::nullopt); }
  void CloseWith(const Status& status, std::optional<RpcMessage> message) {
    GrpcStatus wire{GrpcCode::kInternal, ""};  // allocates nothing
    RunGuarded("end of a stream", [&] { wire = front_end_->StatusOf(status, rpc_.get(), &call_); });
    const auto rpc = rpc_;
    rpc->Finish(std::move(wire), std::move(message));
  }

  // `response` as it is sent.
  Expected<RpcMessage> Printed(const google::protobuf::Message& response) const {
    return PrintMessage(response, front_end_->service()->options().response_bytes);
  }

  GrpcFrontEnd* const front_end_;
  const std::shared_ptr<Rpc> rpc_;
  GrpcCall call_;

 private:
  Item* read_ = nullptr;                 // that the next message is for
  std::shared_ptr<StreamReactor> self_;  // until OnDone
};

template <typename Request, typename Response>
struct StreamItem : ReadRequest {
  Request request;
  Response response;
};

template <typename Request, typename Response>
class StreamCall final : public StreamReactor<StreamItem<Request, Response>> {
  using Item = StreamItem<Request, Response>;
  using Base = StreamReactor<Item>;

 public:
  // Of each message; on any thread, several at once. Both messages may be used until End or Print,
  // and by what is printed.
  using Handler = std::function<void(const Request*, Response*, const StreamReply&)>;

  static void Start(GrpcFrontEnd* front_end, int32_t method, const std::shared_ptr<Rpc>& rpc,
                    Handler handler) {
    Base::StartCall(std::shared_ptr<StreamCall>(new StreamCall(front_end, rpc, std::move(handler))),
                    method);
  }

 private:
  StreamCall(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc, Handler handler)
      : Base(front_end, std::move(rpc)), handler_(std::move(handler)) {}

  void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) override {
    Item& item = static_cast<Item&>(*request);
    if (!item.parsed.ok()) return reply.End(item.parsed);
    handler_(&item.request, &item.response, reply);
  }
  Expected<OrderedStream::Written> Write(StreamRequest* request) override {
    Response response;
    response.Swap(&static_cast<Item*>(request)->response);
    auto message = this->Printed(response);
    if (!message.ok()) return message.status();
    ++this->call_.items;
    this->rpc_->Write(*std::move(message));
    return OrderedStream::Written::kWaits;
  }

  const Handler handler_;
};

// Adds a method whose calls are streams; `handler_of` makes the handler of a call.
template <typename Request, typename Response, typename HandlerOf>
void AddStream(GrpcFrontEnd* front_end, const char* path, HandlerOf handler_of) {
  front_end->AddMethod(path, /*streams=*/true,
                       [front_end, handler_of = std::move(handler_of)](
                           int32_t method, const std::shared_ptr<Rpc>& rpc) {
                         StreamCall<Request, Response>::Start(front_end, method, rpc,
                                                              handler_of(*rpc));
                       });
}

}  // namespace penstock
