// MessageStream: a call of many messages each way. Every message that comes is a request of its
// own; answers go out in the order of the requests, each as one message or several. At most
// kUnderWayMax requests are under way: then nothing is read until the oldest is answered. An answer
// is asked for its next message only when the one before was sent. So a stream's memory is bounded,
// and a client that takes longer than --write-timeout-ms for a message is dropped.
//
// A service derives its stream, which makes an answer of each message:
//
//   class EmbedStream final : public MessageStream<EmbedRequest, EmbedResponse> {
//     std::shared_ptr<Answer> Take(EmbedRequest&& request, RequestContext&& context) override;
//     ...
//   };
//   MessageStreamBase::Start(std::make_shared<EmbedStream>(front_end, method, context));
//
// Threads: gRPC's, and those of whoever calls Wake; Take and Answer::Next are called by one at a
// time.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "api/service.h"
#include "common/byte_budget.h"
#include "common/exception_status.h"
#include "grpc/grpc_front_end.h"
#include "grpc/write_watch.h"

namespace penstock {

// The answer to one message of a stream, in the making. It holds the stream while it may call Wake.
template <typename Response>
class StreamAnswer {
 public:
  virtual ~StreamAnswer() = default;
  enum class Step {
    kWait,  // nothing yet: the stream's Wake follows
    kSend,  // `message` is the next one
    kLast,  // the same, and it is the last
    kEnd,   // there is no more
    kFail,  // the stream ends with `status`
  };
  // Until the request is over (kLast, kEnd, kFail), also where nobody reads any more.
  virtual Step Next(Response* message, Status* status) = 0;
};

template <typename Request, typename Response>
class MessageStream : public grpc::ServerBidiReactor<Request, Response>,
                      public std::enable_shared_from_this<MessageStream<Request, Response>> {
 public:
  using Answer = StreamAnswer<Response>;
  static constexpr size_t kUnderWayMax = 64;

  // Begins the call, which holds the stream until it is over.
  static grpc::ServerBidiReactor<Request, Response>* Start(std::shared_ptr<MessageStream> stream) {
    MessageStream* const raw = stream.get();
    raw->self_ = std::move(stream);
    raw->Begin();
    return raw;
  }

  // There is something new: goes on with what can be done. Any thread.
  void Wake() {
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

  void OnReadDone(bool ok) final {
    Change([ok](State* state) {
      state->has_request = ok;
      state->read_closed = !ok;
    });
  }
  void OnWriteDone(bool ok) final {
    watch_->End();
    if (!ok) Fail(MakeStatus(StatusCode::kCancelled, "the client has left"));
    Change([](State* state) { state->writing = false; });
  }
  void OnCancel() final { Fail(MakeStatus(StatusCode::kCancelled, "the client has left")); }
  void OnDone() final {
    watch_->Stop();
    front_end_->End(code_, sent_bytes_, grpc_context_, &call_);
    // The last to hold it, perhaps.
    const std::shared_ptr<MessageStream> self = std::move(self_);
  }

 protected:
  MessageStream(GrpcFrontEnd* front_end, int32_t method, grpc::CallbackServerContext* context)
      : front_end_(front_end),
        method_(method),
        grpc_context_(context),
        watch_(std::make_shared<WriteWatch>(front_end->write_timeout(),
                                            [context] { context->TryCancel(); })) {}

  // The answer to a message; called in their order. `context`: with the stream's deadline, priority
  // and cancel token, and with memory of its own, in which the message's bytes are counted.
  virtual std::shared_ptr<Answer> Take(Request&& request, RequestContext&& context) = 0;
  // The answer to a message for which there is no memory.
  virtual std::shared_ptr<Answer> Refuse(Request&& request, const Status& status) = 0;
  // On the wire.
  virtual size_t BytesOf(const Request& request) const = 0;
  virtual size_t BytesOfAnswer(const Response& response) const = 0;

  GrpcFrontEnd* front_end() const { return front_end_; }
  const GrpcCall& call() const { return call_; }

 private:
  struct State {
    bool has_request = false;  // request_ is filled, and not taken
    bool read_closed = false;  // the client sends no more
    bool writing = false;      // response_ is being sent
    bool failed = false;       // nothing more is read or sent
    bool finished = false;
  };

  void Begin() {
    Status status;
    try {
      status = front_end_->Begin(method_, grpc_context_, 0, &call_);
    } catch (...) {
      status = ExceptionStatus();
    }
    call_.items = 0;
    cancel_ = call_.context().cancel;
    if (status.ok()) {
      this->StartRead(&request_);
    } else {
      Fail(std::move(status));
    }
  }

  template <typename How>
  void Change(How how) {
    {
      const std::lock_guard lock(mutex_);
      how(&state_);
    }
    Wake();
  }

  // Only the first failure is told.
  void Fail(Status status) {
    if (cancel_ != nullptr) cancel_->Cancel();
    Change([&](State* state) {
      if (!std::exchange(state->failed, true)) failure_ = std::move(status);
    });
  }

  // What can be done in this state, by one thread at a time.
  void Pump(const State& state) {
    try {
      if (state.has_request && !state.failed && answers_.size() < kUnderWayMax) TakeRequest();
      const bool writing = state.writing || SendNext(state.failed);
      const bool drained = state.failed || (state.read_closed && !state.has_request);
      if (!writing && drained && answers_.empty() && !state.finished) End();
    } catch (...) {
      Fail(ExceptionStatus());
    }
  }

  void TakeRequest() {
    RequestContext context = call_.context();
    context.trace = nullptr;
    context.memory = front_end_->service()->NewRequestMemory(context.priority);
    const Status taken = context.memory->Take(static_cast<int64_t>(BytesOf(request_)));
    Request request = std::move(request_);
    request_ = Request();
    answers_.push_back(taken.ok() ? Take(std::move(request), std::move(context))
                                  : Refuse(std::move(request), taken));
    {
      const std::lock_guard lock(mutex_);
      state_.has_request = false;
    }
    this->StartRead(&request_);
  }

  // True: a message is being sent.
  bool SendNext(bool failed) {
    if (std::exchange(sent_last_, false)) Drop();
    while (!answers_.empty()) {
      Status status;
      const auto step = NextOf(answers_.front().get(), &status);
      if (step == Answer::Step::kWait) return false;
      if (step == Answer::Step::kFail) Fail(std::move(status));
      const bool message = step == Answer::Step::kSend || step == Answer::Step::kLast;
      if (!message || failed) {
        if (step != Answer::Step::kSend) Drop();
        failed = failed || step == Answer::Step::kFail;
        continue;
      }
      // The answer stays until it was sent, as its memory counts the message.
      sent_last_ = step == Answer::Step::kLast;
      sent_bytes_ += BytesOfAnswer(response_);
      ++call_.items;
      {
        const std::lock_guard lock(mutex_);
        state_.writing = true;
      }
      watch_->Begin();
      this->StartWrite(&response_);
      return true;
    }
    return false;
  }

  typename Answer::Step NextOf(Answer* answer, Status* status) {
    try {
      return answer->Next(&response_, status);
    } catch (...) {
      *status = ExceptionStatus();
      return Answer::Step::kFail;
    }
  }

  // There is room for one more.
  void Drop() {
    answers_.pop_front();
    const std::lock_guard lock(mutex_);
    again_ = true;
  }

  void End() {
    Status failure;
    {
      const std::lock_guard lock(mutex_);
      state_.finished = true;
      failure = std::move(failure_);
    }
    grpc::Status wire(grpc::StatusCode::INTERNAL, "");  // allocates nothing
    RunGuarded("end of a stream",
               [&] { wire = front_end_->StatusOf(failure, grpc_context_, &call_); });
    code_ = wire.error_code();
    this->Finish(std::move(wire));
  }

  GrpcFrontEnd* const front_end_;
  const int32_t method_;
  grpc::CallbackServerContext* const grpc_context_;
  const std::shared_ptr<WriteWatch> watch_;
  GrpcCall call_;
  std::shared_ptr<CancelToken> cancel_;
  std::shared_ptr<MessageStream> self_;  // until OnDone

  // Of whoever pumps.
  std::deque<std::shared_ptr<Answer>> answers_;
  Request request_;
  Response response_;
  bool sent_last_ = false;
  size_t sent_bytes_ = 0;
  grpc::StatusCode code_ = grpc::StatusCode::OK;

  std::mutex mutex_;
  // Guarded by mutex_.
  State state_;
  Status failure_;
  bool pumping_ = false;
  bool again_ = false;
};

}  // namespace penstock
