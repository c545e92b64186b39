#include "grpc/ordered_call.h"

#include <algorithm>

#include "api/service.h"
#include "log/exception_status.h"

namespace penstock::grpc {
namespace {

Status ClientLeft() { return MakeStatus(StatusCode::kCancelled, "the client has left"); }

}  // namespace

// One try to run a request.
struct CallReply::Attempt {
  Attempt(std::shared_ptr<OrderedCall> call_in, std::shared_ptr<CallRequest> request_in)
      : call(std::move(call_in)), request(std::move(request_in)) {}
  ~Attempt() {
    if (ended.load()) return;
    RunGuarded("a request", [this] {
      End(MakeStatus(StatusCode::kInternal,
                     "the request was lost by a failed allocation or a bug; the log of the server "
                     "says more"));
    });
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void End(Status status, size_t print_bytes = 0, std::function<void()> print = nullptr) {
    if (!ended.exchange(true)) call->OnEnd(this, std::move(status), print_bytes, std::move(print));
  }

  const std::shared_ptr<OrderedCall> call;
  const std::shared_ptr<CallRequest> request;
  RequestContext context;
  uint64_t ended_before = 0;  // requests of the call that had ended when this began
  std::atomic<bool> ended{false};
};

const RequestContext& CallReply::context() const { return attempt_->context; }
Rpc& CallReply::rpc() const { return *attempt_->call->rpc_; }
bool CallReply::HasKey() const {
  return attempt_->call->front_end_->HasKey(&attempt_->call->call_);
}

void CallReply::End(const Status& status) const { attempt_->End(status); }

void CallReply::Print(size_t bytes, std::function<void()> print) const {
  Status taken = attempt_->context.memory->Take(static_cast<int64_t>(bytes));
  attempt_->End(std::move(taken), bytes, std::move(print));
}

void CallReply::Wake() const {
  attempt_->ended.store(true);  // Next says when it ends
  attempt_->call->OnWoken(attempt_->request.get());
}

OrderedCall::OrderedCall(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc, CallParts parts)
    : front_end_(front_end),
      service_(front_end->service()),
      rpc_(std::move(rpc)),
      parts_(std::move(parts)),
      single_(!rpc_->streams()) {}

void OrderedCall::AddMethod(GrpcFrontEnd* front_end, const GrpcMethod& method,
                            std::function<CallParts(const std::shared_ptr<Rpc>&)> parts_of) {
  front_end->AddMethod(method, [front_end, parts_of = std::move(parts_of)](
                                   int32_t index, const std::shared_ptr<Rpc>& rpc) {
    std::make_shared<OrderedCall>(front_end, rpc, parts_of(rpc))->Start(index);
  });
}

void OrderedCall::Start(int32_t method) {
  self_ = shared_from_this();
  rpc_->SetReactor(this);
  Status status = front_end_->Begin(method, rpc_.get(), &call_);
  try {
    base_ = call_.context();
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!single_) call_.items = 0;
  if (base_.deadline != Clock::time_point::max()) limit_ = base_.deadline - call_.request.begin;
  Lock lock(mutex_);
  if (!status.ok()) Fail(std::move(status));
  Step(std::move(lock));
}

void OrderedCall::OnMessage(std::string message) {
  Lock lock(mutex_);
  const std::shared_ptr<CallRequest> request = reading_;
  lock.unlock();
  request->size_ = static_cast<int64_t>(message.size());
  if (single_) call_.request.body_bytes = message.size();
  if (base_.trace != nullptr) base_.trace->Enter(metrics::Stage::kParse);
  int64_t counted = 0;
  try {
    request->read_ = request->Read(std::move(message), base_.memory.get(), &counted);
  } catch (...) {
    request->read_ = ExceptionStatus();
  }
  request->size_ = std::max(request->size_, counted);
  // It is the call's until the request has memory of its own.
  if (!single_ && counted > 0) base_.memory->Give(counted);
  lock.lock();
  reading_ = nullptr;
  read_all_ = single_;
  if (!failed_) {
    try {
      Add(request);
      lock.unlock();
      Begin(request);
      lock.lock();
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      Fail(ExceptionStatus());
    }
    request->beginning_ = false;
  }
  const bool too_late = closed_;
  Step(std::move(lock));
  if (too_late) request->Drop();
}

void OrderedCall::OnReadEnd(const Status& status) {
  Lock lock(mutex_);
  reading_ = nullptr;
  read_all_ = true;
  if (!status.ok()) Fail(status);
  Step(std::move(lock));
}

void OrderedCall::Add(const std::shared_ptr<CallRequest>& request) {
  if (single_) {
    request->deadline_ = base_.deadline;
    request->trace_ = base_.trace;
  } else {
    const Clock::time_point now = Clock::now();
    if (limit_.count() > 0) request->deadline_ = now + limit_;
    if (base_.trace != nullptr) request->trace_ = std::make_shared<metrics::RequestTrace>(now);
  }
  requests_.push_back(request);
  ++under_way_;
  SetBytes(request.get(), std::max(most_, parts_.limits.copies * request->size_));
}

void OrderedCall::Begin(const std::shared_ptr<CallRequest>& request) {
  const CallReply reply(std::make_shared<CallReply::Attempt>(shared_from_this(), request));
  reply.attempt_->ended_before = ended_.load();
  RequestContext& context = reply.attempt_->context;
  try {
    context = base_;
    if (!single_) {
      context.deadline = request->deadline_;
      context.trace = request->trace_;
      if (context.trace != nullptr) context.trace->Enter(metrics::Stage::kParse);
      context.memory = service_->NewRequestMemory(context.priority);
      const Status taken = context.memory->Take(parts_.limits.copies * request->size_);
      if (!taken.ok()) return reply.End(taken);
    }
    if (!request->read_.ok()) return reply.End(request->read_);
    request->Work(reply);
  } catch (...) {
    reply.End(ExceptionStatus());
  }
}

void OrderedCall::OnEnd(CallReply::Attempt* attempt, Status status, size_t print_bytes,
                        std::function<void()> print) {
  CallRequest& request = *attempt->request;
  if (!status.ok() && request.Refuse(status)) status = Status::Ok();
  Lock lock(mutex_);
  if (closed_) return;
  --under_way_;
  // Whether another request of the call will end or be written, and this one be tried again.
  const bool alone = under_way_ == 0 && !writing_ && requests_.front()->state_ != State::kEnded;
  // One that took the room may have ended between the refusal and now.
  const bool freed = ended_.load() != attempt->ended_before;
  if (status.code() == StatusCode::kResourceExhausted && (!alone || freed) && !failed_) {
    request.state_ = State::kHeld;
    ++held_;
    retry_ = retry_ || alone;
    if (request.trace_ != nullptr) request.trace_->Enter(metrics::Stage::kQueue);
  } else {
    request.state_ = State::kEnded;
    ended_.fetch_add(1);
    if (status.ok()) request.print_bytes_ = print_bytes;
    request.status_ = std::move(status);
    request.print_ = std::move(print);
    request.memory_ = attempt->context.memory;
    if (request.memory_ != nullptr) {
      const int64_t held = request.memory_->held();
      most_ = most_known_ ? std::max(most_, held) : held;
      most_known_ = true;
      SetBytes(&request, held);
    }
    retry_ = held_ > 0;
  }
  if (!request.beginning_ && (FirstIsReady() || retry_)) Schedule(std::move(lock));
}

void OrderedCall::OnWoken(CallRequest* request) {
  Lock lock(mutex_);
  request->woken_ = true;
  if (!closed_ && !request->beginning_ && FirstIsReady()) Schedule(std::move(lock));
}

void OrderedCall::Schedule(Lock lock) {
  if (stepping_ || std::exchange(scheduled_, true)) return;
  const size_t bytes = requests_.front()->print_bytes_;
  lock.unlock();
  // Writing takes system calls, and this may be a model's thread.
  const auto step = [self = shared_from_this()] {
    Lock again(self->mutex_);
    self->scheduled_ = false;
    self->Step(std::move(again), /*on_worker=*/true);
  };
  const bool queued =
      RunGuarded("a call", [&] { service_->FinishOnWorker(base_.priority, bytes, step); });
  if (!queued) step();
}

void OrderedCall::Step(Lock lock, bool on_worker) {
  if (stepping_) return;
  // Once it is closed, its owner may let go of it.
  const auto self = shared_from_this();
  stepping_ = true;
  while (!closed_ && (on_worker || !FirstIsLong())) {
    try {
      if (!StepOnce(&lock)) break;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      Fail(ExceptionStatus());
    }
  }
  stepping_ = false;
  if (!closed_ && !on_worker && FirstIsLong()) return Schedule(std::move(lock));
  lock.unlock();
}

bool OrderedCall::StepOnce(Lock* lock) {
  const bool all = read_all_ && requests_.empty();
  if ((failed_ || all) && !writing_) {
    closed_ = true;
    auto dropped = std::exchange(requests_, {});
    std::erase_if(dropped, [](const auto& request) { return request->beginning_; });
    lock->unlock();
    for (const auto& request : dropped) {
      request->print_ = nullptr;
      request->Drop();
    }
    dropped.clear();
    Close();
    lock->lock();
    return false;
  }
  if (failed_) return false;
  if (FirstIsReady()) {
    SendFirst(lock);
    return true;
  }
  if (retry_) {
    Retry(lock);
    return true;
  }
  if (!MayRead()) return false;
  reading_ = parts_.new_request();
  lock->unlock();
  rpc_->Read();
  lock->lock();
  return true;
}

bool OrderedCall::FirstIsReady() const {
  if (writing_ || requests_.empty()) return false;
  return requests_.front()->state_ == State::kEnded || requests_.front()->woken_;
}

bool OrderedCall::FirstIsLong() const {
  return FirstIsReady() && requests_.front()->print_bytes_ > kPrintHereBytesMax;
}

bool OrderedCall::MayRead() const {
  const bool room = requests_.empty() || (requests_.size() < parts_.limits.requests_max &&
                                          bytes_ + most_ <= parts_.limits.bytes_max);
  return room && reading_ == nullptr && !read_all_ && held_ == 0;
}

void OrderedCall::SendFirst(Lock* lock) {
  using Next = CallRequest::Step;
  const std::shared_ptr<CallRequest> request = requests_.front();
  if (request->state_ == State::kEnded && !request->status_.ok()) return Fail(request->status_);
  request->woken_ = false;
  lock->unlock();
  RpcMessage message;
  Expected<Next> next = Next::kWait;
  try {
    if (request->print_) std::exchange(request->print_, nullptr)();
    next = request->Next(&message);
  } catch (...) {
    next = ExceptionStatus();
  }
  const bool last = next.ok() && (*next == Next::kLast || *next == Next::kEnd);
  if (last && request->trace_ != nullptr) request->trace_->Enter(metrics::Stage::kSend);
  lock->lock();
  if (!next.ok()) return Fail(next.status());
  if (*next == Next::kWait) return;
  if (*next == Next::kEnd) return Pop();
  if (!last) request->woken_ = true;
  if (last && single_) {
    answer_ = std::move(message);
    return Pop();
  }
  call_.items = std::max<int64_t>(call_.items, 0) + 1;
  writing_ = true;
  last_ = last;
  lock->unlock();
  try {
    rpc_->Write(std::move(message));
    lock->lock();
  } catch (...) {
    lock->lock();
    writing_ = false;
    Fail(ExceptionStatus());
  }
}

void OrderedCall::Pop() {
  const std::shared_ptr<CallRequest> request = std::move(requests_.front());
  requests_.pop_front();
  if (request->state_ == State::kUnderWay) {
    request->state_ = State::kEnded;
    --under_way_;
    ended_.fetch_add(1);
  }
  retry_ = held_ > 0;
  SetBytes(request.get(), 0);
  request->memory_ = nullptr;
  metrics::RequestTrace* const trace = request->trace_.get();
  if (trace == nullptr || single_) return;  // that of a single call is the front end's
  trace->Finish();
  if (trace->rows() > 0) service_->RecordTrace(*trace);
}

void OrderedCall::Retry(Lock* lock) {
  retry_ = false;
  const auto held = std::find_if(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->state_ == State::kHeld;
  });
  if (held == requests_.end()) return;
  const std::shared_ptr<CallRequest> request = *held;
  request->state_ = State::kUnderWay;
  ++under_way_;
  --held_;
  lock->unlock();
  Begin(request);
  lock->lock();
}

void OrderedCall::OnWritten(bool ok) {
  Lock lock(mutex_);
  if (std::exchange(writing_, false) && last_) Pop();
  if (!ok) Fail(ClientLeft());
  Step(std::move(lock));
}

void OrderedCall::OnWake() {
  Lock lock(mutex_);
  if (!requests_.empty()) requests_.front()->woken_ = true;
  Step(std::move(lock));
}

void OrderedCall::OnCancel() {
  Lock lock(mutex_);
  Fail(ClientLeft());
  Step(std::move(lock));
}

void OrderedCall::OnDone() {
  front_end_->End(*rpc_, &call_);
  // The last to hold it, perhaps.
  const std::shared_ptr<OrderedCall> self = std::move(self_);
}

void OrderedCall::Fail(Status status) {
  if (failed_ || closed_) return;
  failed_ = true;
  failure_ = std::move(status);
  if (base_.cancel != nullptr) base_.cancel->Cancel();
}

void OrderedCall::SetBytes(CallRequest* request, int64_t bytes) {
  bytes_ += bytes - request->bytes_;
  request->bytes_ = bytes;
}

void OrderedCall::Close() {
  Status end = failure_;
  std::optional<RpcMessage> last = std::move(answer_);
  try {
    if (end.ok() && parts_.conclude != nullptr) end = parts_.conclude(base_, &last);
  } catch (...) {
    end = ExceptionStatus();
  }
  front_end_->Finish(rpc_, &call_, end, std::move(last));
}

}  // namespace penstock::grpc
