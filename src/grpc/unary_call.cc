#include "grpc/unary_call.h"

#include <utility>

#include "api/service.h"
#include "common/byte_budget.h"
#include "common/exception_status.h"

namespace penstock {

UnaryReply::UnaryReply(std::shared_ptr<UnaryCall> call)
    : call_(call.get(), [call](UnaryCall*) {
        call->End(MakeStatus(StatusCode::kInternal,
                             "the request was lost by a failed allocation or a bug; the log of the "
                             "server says more"));
      }) {}

const RequestContext& UnaryReply::context() const { return call_->wanted_; }
const HttpRequest& UnaryReply::request() const { return call_->call_.request; }
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

grpc::ServerUnaryReactor* UnaryCall::Start(GrpcFrontEnd* front_end, int32_t method,
                                           grpc::CallbackServerContext* context,
                                           const google::protobuf::MessageLite& request,
                                           const google::protobuf::MessageLite* response,
                                           const Work& work) {
  std::shared_ptr<UnaryCall> call(new UnaryCall(front_end, context, response));
  call->self_ = call;
  try {
    const Status status = front_end->Begin(method, context, request.ByteSizeLong(), &call->call_);
    call->wanted_ = call->call_.context();
    if (status.ok()) {
      work(UnaryReply(call));
    } else {
      call->End(status);
    }
  } catch (...) {
    call->End(ExceptionStatus());
  }
  return call.get();
}

void UnaryCall::End(const Status& status) {
  if (ended_.exchange(true)) return;
  grpc::Status wire(grpc::StatusCode::INTERNAL, "");  // allocates nothing
  RunGuarded("end of a call", [&] { wire = front_end_->StatusOf(status, context_, &call_); });
  code_ = wire.error_code();
  Finish(std::move(wire));
}

void UnaryCall::OnCancel() {
  if (wanted_.cancel != nullptr) wanted_.cancel->Cancel();
}

void UnaryCall::OnDone() {
  const bool answered = code_ == grpc::StatusCode::OK;
  front_end_->End(code_, answered ? static_cast<size_t>(response_->GetCachedSize()) : 0, context_,
                  &call_);
  self_.reset();
}

}  // namespace penstock
