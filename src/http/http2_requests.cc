#include "http/http2_requests.h"

#include <charconv>
#include <optional>
#include <utility>

#include "http/request_begin.h"
#include "http/response_head.h"
#include "http/stream.h"
#include "http/stream_clock.h"
#include "log/exception_status.h"
#include "threads/byte_budget.h"

namespace penstock::http {
namespace {

// A connection's answers that wait for the client are not counted up to this number of bytes.
constexpr size_t kUncountedAnswerBytes = 128 << 10;

class RequestStream final : public http2::Http2Receiver,
                            public AnswerTarget,
                            public std::enable_shared_from_this<RequestStream> {
 public:
  // `uncounted`: the answers of the connection that are not counted in memory.
  RequestStream(std::shared_ptr<IoThread> thread, std::shared_ptr<http2::Http2Answer> answer,
                std::shared_ptr<size_t> uncounted)
      : thread_(thread.get()),
        weak_thread_(thread),
        answer_(std::move(answer)),
        uncounted_(std::move(uncounted)) {}

  void Begin(http2::Http2Request begun, bool too_large) {
    request_ = NewRequest(Options(), begun.remote, begun.begin);
    request_->method = std::move(begun.method);
    request_->headers = std::move(begun.headers);
    ended_ = begun.ended;
    if (too_large) return Fail(431, HeaderTooLong(Options()));
    if (!SetTarget(begun.path, request_.get())) {
      return Fail(400, "malformed HTTP request: bad request target");
    }
    if (const auto wrong = CheckFields(begun.authority)) return Fail(wrong->status, wrong->message);
    refusal_ = thread_->handler->OnHeader(request_.get());
    if (ended_) return Dispatch();
    const bool expects = Expects100(*request_);
    // Reading a small body lets clients that send before they read have the answer.
    if (refusal_ && (expects || !length_ || *length_ > kDrainBytesMax)) {
      return Answer(std::move(*refusal_));
    }
    if (expects) answer_->SendHeaders({{":status", "100"}}, false);
    answer_->WakeAt(Clock::now() + Options().read_timeout);
  }

  void OnData(std::string_view bytes) override {
    answer_->Consume(bytes.size());
    if (state_ != State::kBody) return;
    received_ += bytes.size();
    if (received_ > static_cast<uint64_t>(Options().body_bytes_max)) {
      return Fail(413, BodyTooLong(Options()));
    }
    if (refusal_) return;
    // Before the bytes are kept.
    if (const Status taken = TakeBodyMemory(*request_, received_); !taken.ok()) {
      return Fail(MemoryStatus(taken), taken.message());
    }
    body_.append(bytes);
  }

  void OnEnd() override {
    ended_ = true;
    if (state_ == State::kBody) Dispatch();
  }

  void OnSent() override {
    if (batch_ && answer_->unsent() == 0) OnBatchSent();
  }

  void OnTime() override {
    switch (state_) {
      case State::kBody:
        return Fail(408, NotArrived(Options()));
      case State::kWaiting:
        request_->context.cancel->Cancel();
        return Answer(thread_->handler->OnError(*request_, 503, NotAnsweredInTime(*request_)));
      case State::kStreaming:
        return OnStreamTime();
      case State::kSending:
        return;
    }
  }

  void OnInterrupt() override {
    if (state_ == State::kSending) return;
    request_->context.cancel->Cancel(CancelToken::Cause::kShutdown);
    if (state_ != State::kStreaming) return Fail(503, "the server is shutting down");
    outgoing_->CallReady();
  }

  void OnGone(http2::Http2Gone how) override {
    const bool streaming = state_ == State::kStreaming;
    if (how != http2::Http2Gone::kAnswered) {
      request_->context.cancel->Cancel();
      if (!streaming && !streamed_) body_bytes_ = 0;
    }
    if (how == http2::Http2Gone::kTooSlow && streaming) thread_->handler->OnStreamDropped();
    LeaveStream();
    *uncounted_ -= std::exchange(uncounted_bytes_, 0);
    RunGuarded("reporting a request", [&] {
      const int status = how == http2::Http2Gone::kAnswered ? status_ : 499;
      thread_->handler->OnDone(*request_, status, body_bytes_, items_);
    });
  }

  void OnAnswer(uint64_t, const Responder::Print& print) noexcept override {
    Guarded([&] {
      if (state_ != State::kWaiting) return;
      EnterStage(*request_, metrics::Stage::kSerialise);
      const char* failure =
          "the request was lost by a failed allocation or a bug; the log of the server says more";
      try {
        if (print) return Answer(print());
      } catch (...) {
        LogException("printing an answer");
        if (state_ != State::kWaiting) throw;
        failure = "the answer could not be written";
      }
      Answer(thread_->handler->OnError(*request_, 500, failure));
    });
  }

  void OnStream(uint64_t, const std::shared_ptr<StreamBuffer>& stream) noexcept override {
    Guarded([&] {
      if (state_ == State::kStreaming && outgoing_ == stream) return SendMore();
      if (state_ != State::kWaiting || answer_->gone()) return stream->Leave();
      BeginStream(stream);
    });
  }

 private:
  enum class State { kBody, kWaiting, kStreaming, kSending };

  const ServerOptions& Options() const { return *thread_->options; }

  // Out of memory, or a bug, ends this stream only.
  template <typename Work>
  void Guarded(Work&& work) noexcept {
    if (!RunGuarded("request", std::forward<Work>(work))) {
      answer_->Reset(http2::Http2Error::kInternalError);
    }
  }

  // RFC 9113 8.3.1: ":authority" takes the place of Host, and must not differ from it.
  std::optional<HeaderRefusal> CheckFields(const std::string& authority) {
    const std::string_view host = request_->Header("host");
    if (host.empty()) {
      request_->headers.emplace_back("host", authority);
    } else if (host != authority) {
      return HeaderRefusal{400, "malformed HTTP request: :authority and host differ"};
    }
    if (auto wrong = CheckHeader(11, request_->target, request_.get())) return wrong;
    if (const std::string_view said = request_->Header("content-length"); !said.empty()) {
      uint64_t length = 0;
      const auto end = std::from_chars(said.data(), said.data() + said.size(), length);
      if (end.ec != std::errc()) {
        return HeaderRefusal{400, "malformed HTTP request: Content-Length is not a number"};
      }
      length_ = length;
    }
    return CheckBody(Options(), *request_, length_, !ended_, true);
  }

  void Dispatch() {
    if (refusal_) return Answer(std::move(*refusal_));
    request_->body_bytes = body_.size();
    state_ = State::kWaiting;
    EnterStage(*request_, metrics::Stage::kParse);
    answer_->WakeAt(AnswerDeadline(*request_));
    // A connection has many streams, each of which is one target: its number tells nothing.
    const auto pending =
        std::make_shared<PendingAnswer>(weak_from_this(), weak_thread_.lock(), 0, false);
    Responder respond(pending);
    try {
      thread_->handler->OnRequest(request_, std::move(body_), std::move(respond));
    } catch (...) {  // its responder, now destroyed, has answered it
      LogException("handling a request");
    }
    std::string().swap(body_);
  }

  void Fail(int status, const std::string& message) {
    Answer(thread_->handler->OnError(*request_, status, message));
  }

  // A connection has many answers, which stay until the client takes them. Not OK: there is no
  // memory for this one.
  Status Keep(const HttpResponse& response) {
    RequestMemory* const memory = request_->context.memory.get();
    const size_t bytes = response.body.size();
    if (memory == nullptr || request_->method == "HEAD") return Status::Ok();
    if (*uncounted_ + bytes > kUncountedAnswerBytes) {
      return memory->Take(static_cast<int64_t>(bytes) - memory->held());
    }
    *uncounted_ += bytes;
    uncounted_bytes_ = bytes;
    return Status::Ok();
  }

  void Answer(HttpResponse response, bool with_length = true) {
    state_ = State::kSending;
    EnterStage(*request_, metrics::Stage::kSend);
    std::string().swap(body_);
    if (const Status kept = Keep(response); !kept.ok()) {
      response = thread_->handler->OnError(*request_, MemoryStatus(kept), kept.message());
    }
    status_ = response.status;
    body_bytes_ = response.body.size();
    const bool head_only = request_->method == "HEAD" || response.status == 204 ||
                           response.status == 304 || response.body.empty();
    answer_->SendHeaders(AnswerFields(*request_, response, thread_->Date(), with_length),
                         head_only);
    if (!head_only) answer_->SendData(std::move(response.body), nullptr, true);
  }

  // ---- Streaming: the body is sent while it is made, one batch at a time.

  void BeginStream(const std::shared_ptr<StreamBuffer>& stream) {
    HttpResponse head = stream->TakeHead();
    if (request_->method == "HEAD") {
      stream->Leave();
      return Answer(std::move(head), false);
    }
    state_ = State::kStreaming;
    outgoing_ = stream;
    streamed_ = true;
    thread_->handler->OnStreams(+1);
    status_ = head.status;
    items_ = 0;
    clock_.emplace(*request_, &head);
    answer_->SendHeaders(AnswerFields(*request_, head, thread_->Date(), false), false);
    SendMore();
  }

  // Sends what waits, unless a batch is on its way.
  void SendMore() {
    if (outgoing_->overrun()) {
      thread_->handler->OnStreamDropped();
      return answer_->Reset(http2::Http2Error::kCancel);
    }
    if (outgoing_->aborted()) return answer_->Reset(http2::Http2Error::kInternalError);
    if (batch_) return;
    auto batch = outgoing_->Take();
    if (!batch.text.empty() || batch.last) return Send(std::move(batch));
    answer_->WakeAt(clock_->Next(false));  // until the producer has more
  }

  void Send(StreamBuffer::Batch batch) {
    if (batch.last) EnterStage(*request_, metrics::Stage::kSend);
    std::string text = std::move(batch.text);
    const bool nothing = text.empty();
    batch_ = std::move(batch);
    answer_->WakeAt(clock_->Next(true));
    answer_->SendData(std::move(text), nullptr, batch_->last);
    if (nothing) OnBatchSent();  // the end alone
  }

  void OnBatchSent() {
    const StreamBuffer::Batch sent = *std::exchange(batch_, std::nullopt);
    body_bytes_ += sent.body_bytes;
    items_ += sent.items;
    clock_->Sent(Clock::now());
    outgoing_->Sent(sent);
    if (!sent.last) return SendMore();
    status_ = outgoing_->end_status();
    LeaveStream();
    state_ = State::kSending;
  }

  void OnStreamTime() {
    const auto now = Clock::now();
    if (!batch_ && clock_->IdleIsDue(now)) return Send(outgoing_->Idle(clock_->idle_text()));
    if (!clock_->BecomeLate()) return answer_->Reset(http2::Http2Error::kCancel);
    answer_->WakeAt(clock_->Next(batch_.has_value()));
    outgoing_->CallReady();
  }

  void LeaveStream() {
    if (outgoing_ == nullptr) return;
    batch_.reset();
    const auto left = std::exchange(outgoing_, nullptr);
    thread_->handler->OnStreams(-1);
    left->Leave();
  }

  IoThread* const thread_;  // runs this, so it is there
  const std::weak_ptr<IoThread> weak_thread_;
  const std::shared_ptr<http2::Http2Answer> answer_;
  const std::shared_ptr<size_t> uncounted_;
  size_t uncounted_bytes_ = 0;  // of this answer

  State state_ = State::kBody;
  std::shared_ptr<HttpRequest> request_;
  std::optional<uint64_t> length_;       // of the body, as the client says it
  std::optional<HttpResponse> refusal_;  // sent once the body has been read past
  uint64_t received_ = 0;
  std::string body_;
  bool ended_ = false;  // the client has sent all

  int status_ = 0;
  size_t body_bytes_ = 0;

  // Set while an answer is streamed.
  std::shared_ptr<StreamBuffer> outgoing_;
  std::optional<StreamBuffer::Batch> batch_;  // on its way
  std::optional<StreamClock> clock_;
  bool streamed_ = false;
  int64_t items_ = -1;  // sent; -1: no stream
};

class Http2Requests final : public http2::Http2Handler {
 public:
  explicit Http2Requests(std::weak_ptr<IoThread> thread) : thread_(std::move(thread)) {}

  std::shared_ptr<http2::Http2Receiver> OnStream(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    const auto stream =
        std::make_shared<RequestStream>(thread_.lock(), std::move(answer), uncounted_);
    stream->Begin(std::move(request), false);
    return stream;
  }

  std::shared_ptr<http2::Http2Receiver> OnHeaderTooLarge(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    const auto stream =
        std::make_shared<RequestStream>(thread_.lock(), std::move(answer), uncounted_);
    stream->Begin(std::move(request), true);
    return stream;
  }

 private:
  const std::weak_ptr<IoThread> thread_;
  const std::shared_ptr<size_t> uncounted_ = std::make_shared<size_t>(0);
};

}  // namespace

std::unique_ptr<http2::Http2Handler> MakeHttp2Requests(std::shared_ptr<IoThread> thread) {
  return std::make_unique<Http2Requests>(std::move(thread));
}

}  // namespace penstock::http
