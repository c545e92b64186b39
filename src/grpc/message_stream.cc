#include "grpc/message_stream.h"

#include "api/service.h"
#include "common/byte_budget.h"
#include "common/exception_status.h"

namespace penstock {

void MessageStream::Start(std::shared_ptr<MessageStream> stream, int32_t method) {
  MessageStream* const raw = stream.get();
  raw->self_ = std::move(stream);
  raw->rpc_->SetReactor(raw);
  raw->Begin(method);
}

void MessageStream::Begin(int32_t method) {
  Status status;
  try {
    status = front_end_->Begin(method, rpc_.get(), &call_);
  } catch (...) {
    status = ExceptionStatus();
  }
  call_.items = 0;
  cancel_ = call_.context().cancel;
  if (!status.ok()) return Fail(std::move(status));
  rpc_->Read();
}

void MessageStream::Wake() {
  {
    const std::lock_guard lock(mutex_);
    again_ = true;
    if (std::exchange(pumping_, true)) return;
  }
  for (;;) {
    State state;
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(again_, false)) {
        pumping_ = false;
        return;
      }
      state = state_;
    }
    Pump(state);
  }
}

void MessageStream::OnMessage(std::string message) {
  Change([&](State* state) {
    request_ = std::move(message);
    state->has_request = true;
  });
}

void MessageStream::OnReadEnd(const Status& status) {
  if (!status.ok()) Fail(status);
  Change([](State* state) { state->read_closed = true; });
}

void MessageStream::OnWritten(bool ok) {
  if (!ok) Fail(MakeStatus(StatusCode::kCancelled, "the client has left"));
  Change([](State* state) { state->writing = false; });
}

void MessageStream::OnCancel() { Fail(MakeStatus(StatusCode::kCancelled, "the client has left")); }

void MessageStream::OnDone() {
  front_end_->End(*rpc_, &call_);
  // The last to hold it, perhaps.
  const std::shared_ptr<MessageStream> self = std::move(self_);
}

void MessageStream::Fail(Status status) {
  if (cancel_ != nullptr) cancel_->Cancel();
  Change([&](State* state) {
    if (!std::exchange(state->failed, true)) failure_ = std::move(status);
  });
}

void MessageStream::Pump(const State& state) {
  try {
    if (state.has_request && !state.failed && answers_.size() < kUnderWayMax) TakeRequest();
    const bool writing = state.writing || SendNext(state.failed);
    const bool drained = state.failed || (state.read_closed && !state.has_request);
    if (!writing && drained && answers_.empty() && !state.finished) End();
  } catch (...) {
    Fail(ExceptionStatus());
  }
}

void MessageStream::TakeRequest() {
  RequestContext context = call_.context();
  context.trace = nullptr;
  context.memory = front_end_->service()->NewRequestMemory(context.priority);
  const Status taken = context.memory->Take(static_cast<int64_t>(request_.size()));
  answers_.push_back(taken.ok() ? Take(std::exchange(request_, {}), std::move(context))
                                : Refuse(taken));
  {
    const std::lock_guard lock(mutex_);
    state_.has_request = false;
  }
  rpc_->Read();
}

bool MessageStream::SendNext(bool failed) {
  if (std::exchange(sent_last_, false)) Drop();
  while (!answers_.empty()) {
    Status status;
    const auto step = NextOf(answers_.front().get(), &status);
    if (step == StreamAnswer::Step::kWait) return false;
    if (step == StreamAnswer::Step::kFail) Fail(std::move(status));
    const bool message = step == StreamAnswer::Step::kSend || step == StreamAnswer::Step::kLast;
    if (!message || failed) {
      if (step != StreamAnswer::Step::kSend) Drop();
      failed = failed || step == StreamAnswer::Step::kFail;
      continue;
    }
    // The answer stays until it was sent, as its memory counts the message.
    sent_last_ = step == StreamAnswer::Step::kLast;
    ++call_.items;
    {
      const std::lock_guard lock(mutex_);
      state_.writing = true;
    }
    rpc_->Write(std::exchange(response_, {}));
    return true;
  }
  return false;
}

StreamAnswer::Step MessageStream::NextOf(StreamAnswer* answer, Status* status) {
  try {
    return answer->Next(&response_, status);
  } catch (...) {
    *status = ExceptionStatus();
    return StreamAnswer::Step::kFail;
  }
}

void MessageStream::Drop() {
  answers_.pop_front();
  const std::lock_guard lock(mutex_);
  again_ = true;
}

void MessageStream::End() {
  Status failure;
  {
    const std::lock_guard lock(mutex_);
    state_.finished = true;
    failure = std::move(failure_);
  }
  GrpcStatus wire{GrpcCode::kInternal, ""};  // allocates nothing
  RunGuarded("end of a stream", [&] { wire = front_end_->StatusOf(failure, rpc_.get(), &call_); });
  const auto rpc = rpc_;
  rpc->Finish(std::move(wire));
}

}  // namespace penstock
