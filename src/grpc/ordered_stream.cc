#include "grpc/ordered_stream.h"

#include <algorithm>
#include <atomic>

#include "api/service.h"
#include "common/exception_status.h"

namespace penstock {
namespace {

// Of a message: itself, and its texts as they are handed over.
constexpr int64_t kCopies = 2;

}  // namespace

// One try to run a request.
struct StreamReply::Attempt {
  Attempt(std::shared_ptr<OrderedStream> stream_in, std::shared_ptr<StreamRequest> request_in)
      : stream(std::move(stream_in)), request(std::move(request_in)) {}
  ~Attempt() {
    if (ended.load()) return;
    RunGuarded("a request of a stream", [this] {
      End(MakeStatus(StatusCode::kInternal,
                     "the request was lost by a failed allocation or a bug; the log of the server "
                     "says more"),
          nullptr);
    });
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void End(Status status, std::function<void()> print) {
    if (!ended.exchange(true)) stream->OnEnd(this, std::move(status), std::move(print));
  }

  const std::shared_ptr<OrderedStream> stream;
  const std::shared_ptr<StreamRequest> request;
  RequestContext context;
  uint64_t ended_before = 0;  // requests of the stream that had ended when this began
  std::atomic<bool> ended{false};
};

const RequestContext& StreamReply::context() const { return attempt_->context; }

void StreamReply::End(const Status& status) const { attempt_->End(status, nullptr); }

void StreamReply::Print(size_t bytes, std::function<void()> print) const {
  Status taken = attempt_->context.memory->Take(static_cast<int64_t>(bytes));
  attempt_->End(std::move(taken), std::move(print));
}

void OrderedStream::Run(Service* service, const RequestContext& base, Clock::time_point begin) {
  service_ = service;
  base_ = base;
  if (base.deadline != Clock::time_point::max()) limit_ = base.deadline - begin;
  Step(Lock(mutex_));
}

void OrderedStream::OnRead(bool ok) {
  Lock lock(mutex_);
  const std::shared_ptr<StreamRequest> request = std::exchange(reading_, nullptr);
  if (!ok) read_all_ = true;
  if (ok && !failed_) {
    try {
      Add(request);
      lock.unlock();
      Begin(request);
      lock.lock();
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      Fail(ExceptionStatus());
    }
  }
  Step(std::move(lock));
}

void OrderedStream::Add(const std::shared_ptr<StreamRequest>& request) {
  const Clock::time_point now = Clock::now();
  if (limit_.count() > 0) request->deadline_ = now + limit_;
  if (base_.trace != nullptr) request->trace_ = std::make_shared<RequestTrace>(now);
  requests_.push_back(request);
  ++under_way_;
  SetBytes(request.get(), std::max(most_, kCopies * static_cast<int64_t>(BytesOf(*request))));
}

void OrderedStream::Begin(const std::shared_ptr<StreamRequest>& request) {
  const StreamReply reply(std::make_shared<StreamReply::Attempt>(shared_from_this(), request));
  reply.attempt_->ended_before = ended_.load();
  RequestContext& context = reply.attempt_->context;
  try {
    context = base_;
    context.deadline = request->deadline_;
    context.trace = request->trace_;
    if (context.trace != nullptr) context.trace->Enter(Stage::kParse);
    context.memory = service_->NewRequestMemory(context.priority);
    const Status taken = context.memory->Take(kCopies * static_cast<int64_t>(BytesOf(*request)));
    if (!taken.ok()) return reply.End(taken);
    Work(request, reply);
  } catch (...) {
    reply.End(ExceptionStatus());
  }
}

void OrderedStream::OnEnd(StreamReply::Attempt* attempt, Status status,
                          std::function<void()> print) {
  StreamRequest& request = *attempt->request;
  Lock lock(mutex_);
  if (closed_) return;
  --under_way_;
  // Whether another request of the stream will end or be written, and this one be tried again.
  const bool alone =
      under_way_ == 0 && writing_ == nullptr && requests_.front()->state_ != State::kEnded;
  // One that took the room may have ended between the refusal and now.
  const bool freed = ended_.load() != attempt->ended_before;
  if (status.code() == StatusCode::kResourceExhausted && (!alone || freed) && !failed_) {
    request.state_ = State::kHeld;
    ++held_;
    retry_ = retry_ || alone;
    if (request.trace_ != nullptr) request.trace_->Enter(Stage::kQueue);
  } else {
    request.state_ = State::kEnded;
    ended_.fetch_add(1);
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
  const bool first = requests_.front()->state_ == State::kEnded && writing_ == nullptr;
  if ((!first && !retry_) || stepping_ || scheduled_) return;
  scheduled_ = true;
  lock.unlock();
  // Writing takes system calls, and this may be a model's thread.
  const auto step = [self = shared_from_this()] {
    Lock again(self->mutex_);
    self->scheduled_ = false;
    self->Step(std::move(again));
  };
  const bool queued =
      RunGuarded("a stream", [&] { service_->FinishOnWorker(base_.priority, 0, step); });
  if (!queued) step();
}

void OrderedStream::Step(Lock lock) {
  if (stepping_) return;
  // Once it is closed, its owner may let go of it.
  const auto self = shared_from_this();
  stepping_ = true;
  while (!closed_) {
    try {
      if (!StepOnce(&lock)) break;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      Fail(ExceptionStatus());
    }
  }
  stepping_ = false;
  lock.unlock();
}

bool OrderedStream::StepOnce(Lock* lock) {
  const bool all = read_all_ && requests_.empty();
  if ((failed_ || all) && writing_ == nullptr) {
    closed_ = true;
    auto dropped = std::exchange(requests_, {});
    lock->unlock();
    dropped.clear();
    Close(failure_);
    lock->lock();
    return false;
  }
  if (failed_) return false;
  if (writing_ == nullptr && !requests_.empty() && requests_.front()->state_ == State::kEnded) {
    WriteFirst(lock);
    return true;
  }
  if (retry_) {
    Retry(lock);
    return true;
  }
  if (!MayRead()) return false;
  reading_ = NewRequest();
  StreamRequest* const request = reading_.get();
  lock->unlock();
  Read(request);
  lock->lock();
  return true;
}

bool OrderedStream::MayRead() const {
  const size_t kept = requests_.size() + (writing_ != nullptr ? 1 : 0);
  const bool room = kept == 0 || (kept < kRequestsMax && bytes_ + most_ <= kBytesMax);
  return room && reading_ == nullptr && !read_all_ && held_ == 0;
}

void OrderedStream::WriteFirst(Lock* lock) {
  const std::shared_ptr<StreamRequest> request = requests_.front();
  if (!request->status_.ok()) return Fail(request->status_);
  requests_.pop_front();
  writing_ = request;
  lock->unlock();
  Expected<Written> written = Written::kDone;
  try {
    if (request->print_) request->print_();
    request->print_ = nullptr;
    if (request->trace_ != nullptr) request->trace_->Enter(Stage::kSend);
    written = Write(request.get());
  } catch (...) {
    written = ExceptionStatus();
  }
  lock->lock();
  if (written.ok() && *written == Written::kWaits) return;
  Forget(request.get());
  writing_ = nullptr;
  retry_ = held_ > 0;
  if (!written.ok()) Fail(written.status());
}

void OrderedStream::Retry(Lock* lock) {
  retry_ = false;
  const auto held = std::find_if(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->state_ == State::kHeld;
  });
  if (held == requests_.end()) return;
  const std::shared_ptr<StreamRequest> request = *held;
  request->state_ = State::kUnderWay;
  ++under_way_;
  --held_;
  lock->unlock();
  Begin(request);
  lock->lock();
}

void OrderedStream::OnWritten(bool ok) {
  Lock lock(mutex_);
  if (writing_ != nullptr) Forget(writing_.get());
  writing_ = nullptr;
  retry_ = held_ > 0;
  if (!ok) Fail({StatusCode::kCancelled, "the client left"});
  Step(std::move(lock));
}

void OrderedStream::OnGone(Status status) {
  Lock lock(mutex_);
  Fail(std::move(status));
  Step(std::move(lock));
}

void OrderedStream::Fail(Status status) {
  if (failed_ || closed_) return;
  failed_ = true;
  failure_ = std::move(status);
  base_.cancel->Cancel();
}

void OrderedStream::SetBytes(StreamRequest* request, int64_t bytes) {
  bytes_ += bytes - request->bytes_;
  request->bytes_ = bytes;
}

void OrderedStream::Forget(StreamRequest* request) {
  SetBytes(request, 0);
  request->memory_ = nullptr;
  RequestTrace* const trace = request->trace_.get();
  if (trace == nullptr) return;
  trace->Finish();
  if (trace->rows() > 0) service_->RecordTrace(*trace);
}

}  // namespace penstock
