#include "grpc/unary_call.h"

#include "api/service.h"
#include "common/byte_budget.h"
#include "common/exception_status.h"
#include "grpc/proto_message.h"
#include "metrics/stages.h"

namespace penstock {

UnaryReply::UnaryReply(std::shared_ptr<UnaryCall> call)
    : call_(call.get(), [call](UnaryCall*) {
        call->End(MakeStatus(StatusCode::kInternal,
                             "the request was lost by a failed allocation or a bug; the log of the "
                             "server says more"));
      }) {}

const RequestContext& UnaryReply::context() const { return call_->wanted_; }
Rpc& UnaryReply::rpc() const { return *call_->rpc_; }
bool UnaryReply::HasKey() const { return call_->front_end_->HasKey(&call_->call_); }
void UnaryReply::End(const Status& status) const { call_->End(status); }

void UnaryReply::Print(size_t bytes, std::function<void()> print) const {
  if (const Status taken = context().memory->Take(static_cast<int64_t>(bytes)); !taken.ok()) {
    return End(taken);
  }
  call_->front_end_->service()->FinishOnWorker(context().priority, bytes,
                                               [reply = *this, print = std::move(print)] {
                                                 try {
                                                   print();
                                                   reply.End(Status::Ok());
                                                 } catch (...) {
                                                   reply.End(ExceptionStatus());
                                                 }
                                               });
}

void UnaryCall::Start(std::shared_ptr<UnaryCall> call, int32_t method) {
  UnaryCall& self = *call;
  self.self_ = std::move(call);
  self.rpc_->SetReactor(&self);
  Status status;
  try {
    status = self.front_end_->Begin(method, self.rpc_.get(), &self.call_);
    self.wanted_ = self.call_.context();
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) return self.End(status);
  self.rpc_->Read();
}

void UnaryCall::OnMessage(std::string message) {
  const UnaryReply reply(self_);
  try {
    call_.request.body_bytes = message.size();
    if (wanted_.trace != nullptr) wanted_.trace->Enter(Stage::kParse);
    int64_t counted = 0;
    const Status parsed = ParseMessage(message, wanted_.memory.get(), request(), &counted);
    std::string().swap(message);
    if (!parsed.ok()) return End(parsed);
    Work(reply);
  } catch (...) {
    End(ExceptionStatus());
  }
}

void UnaryCall::OnReadEnd(const Status& status) {
  End(status.ok() ? MakeStatus(StatusCode::kInvalidArgument, "the call has no message") : status);
}

void UnaryCall::End(const Status& status) {
  if (ended_.exchange(true)) return;
  std::optional<RpcMessage> message;
  GrpcStatus wire{GrpcCode::kInternal, ""};  // allocates nothing
  RunGuarded("end of a call", [&] {
    Status end = status;
    if (end.ok()) {
      auto printed = PrintMessage(response(), front_end_->service()->options().response_bytes);
      end = printed.status();
      if (end.ok()) message = *std::move(printed);
    }
    wire = front_end_->StatusOf(end, rpc_.get(), &call_);
  });
  if (!wire.ok()) message.reset();
  const auto rpc = rpc_;
  rpc->Finish(std::move(wire), std::move(message));
}

void UnaryCall::OnCancel() {
  if (wanted_.cancel != nullptr) wanted_.cancel->Cancel();
}

void UnaryCall::OnDone() {
  front_end_->End(*rpc_, &call_);
  const auto last = std::move(self_);
}

}  // namespace penstock
