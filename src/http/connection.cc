#include "http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <type_traits>

#include "base/ascii.h"
#include "http/chunk_check.h"
#include "http/header_checks.h"
#include "http/http2_connection.h"
#include "http/request_begin.h"
#include "http/response_head.h"
#include "http/stream.h"
#include "http/stream_clock.h"
#include "http2/http2_session.h"
#include "log/exception_status.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;

// Bytes of pipelined requests read while one is worked on.
constexpr size_t kReadAheadBytesMax = 64 << 10;
// A body up to this size is sent in one piece with the header.
constexpr size_t kJoinBytesMax = 16 << 10;
constexpr std::chrono::seconds kLinger{2};
// Unsent bytes of a stream that the kernel may hold. Without this bound it takes megabytes for a
// client that does not read.
constexpr int kStreamNotSentBytes = 64 << 10;

template <typename Stream>
class ConnectionOn final : public Connection,
                           public AnswerTarget,
                           public std::enable_shared_from_this<ConnectionOn<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  template <typename... Args>
  explicit ConnectionOn(std::shared_ptr<IoThread> thread, Args&&... args)
      : thread_(thread.get()),
        weak_thread_(thread),
        stream_(std::forward<Args>(args)...),
        timer_(thread->context) {}

  void Start() override {
    thread_->OnConnections(+1);
    Guarded([this] { Open(); });
  }

  void BeginShutdown() override {
    if (state_ == State::kHandshake) return Close();
    if (state_ != State::kIdle) return;
    // A request that has reached the kernel is still answered. (What was read and is none yet is a
    // part of the preface of HTTP/2.)
    error_code ec;
    if (Socket().available(ec) == 0 || ec) Close();
  }

  void Interrupt() override {
    keep_alive_ = false;  // it may have been promised before
    if (state_ == State::kWriting || state_ == State::kLingering) return;
    const bool owed = state_ == State::kHeader || state_ == State::kBody ||
                      state_ == State::kWaiting || state_ == State::kStreaming;
    if (!owed) return Close();
    Guarded([this] {
      request_->context.cancel->Cancel(CancelToken::Cause::kShutdown);
      if (state_ != State::kStreaming) return Fail(503, "the server is shutting down");
      outgoing_->CallReady();
    });
  }

  void Abort() override { Close(); }

  void OnAnswer(uint64_t number, const Responder::Print& print) noexcept override {
    Guarded([&] {
      if (number != exchange_ || state_ != State::kWaiting) return;
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

  void OnStream(uint64_t number, const std::shared_ptr<StreamBuffer>& stream) noexcept override {
    Guarded([&] {
      if (state_ == State::kStreaming && outgoing_ == stream) return SendMore();
      if (number != exchange_ || state_ != State::kWaiting) return stream->Leave();
      BeginStream(stream);
    });
  }

 private:
  enum class State {
    kHandshake,
    kIdle,
    kHeader,
    kContinue,
    kBody,
    kWaiting,
    kWriting,
    kStreaming,
    kLingering,
    kClosed,
  };
  using Parser = http::request_parser<http::string_body>;

  auto& Socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }
  const ServerOptions& Options() const { return *thread_->options; }

  // The barrier of every callback: out of memory, or a bug, ends this connection only.
  template <typename Work>
  void Guarded(Work&& work) noexcept {
    if (!RunGuarded("connection", std::forward<Work>(work))) Close();
  }

  void Open() {
    thread_->connections.emplace(this, this->shared_from_this());
    error_code ignored;
    Socket().set_option(tcp::no_delay(true), ignored);
    error_code ec;
    const auto peer = Socket().remote_endpoint(ec);
    if (!ec) remote_ = peer.address().to_string() + ":" + std::to_string(peer.port());
    if constexpr (kTls) {
      state_ = State::kHandshake;
      Arm(Clock::now() + Options().read_timeout);
      stream_.async_handshake(ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code failed) {
                                self->Guarded([&] {
                                  if (self->state_ == State::kClosed) return;
                                  if (failed) return self->Close();
                                  self->BeginProtocol();
                                });
                              });
    } else {
      BeginProtocol();
    }
  }

  void BeginProtocol() {
    bool http2 = false;
    if constexpr (kTls) {
      const unsigned char* name = nullptr;
      unsigned size = 0;
      SSL_get0_alpn_selected(stream_.native_handle(), &name, &size);
      http2 = size == 2 && name[0] == 'h' && name[1] == '2';
      if (!http2 && thread_->handler == nullptr) return Close();
    } else {
      http2 = thread_->handler == nullptr;
    }
    if (http2) return BecomeHttp2();
    BecomeIdle();
  }

  // RFC 9113 3.3: a client may know that the server speaks HTTP/2. True: the bytes at hand are for
  // HTTP/2, or begin so.
  bool BeginsHttp2() {
    if (!fresh_ || buffer_.size() == 0) return false;
    const size_t size = std::min(buffer_.size(), http2::kHttp2Preface.size());
    const std::string_view begin(static_cast<const char*>(buffer_.cdata().data()), size);
    fresh_ = http2::kHttp2Preface.starts_with(begin);
    if (!fresh_) return false;
    if (size < http2::kHttp2Preface.size()) {
      if (!std::exchange(part_of_preface_, true)) Arm(Clock::now() + Options().read_timeout);
      ReadOrClose();
    } else {
      BecomeHttp2();
    }
    return true;
  }

  // Hands the socket over. This connection has no part in it from here on.
  void BecomeHttp2() {
    const auto bytes = buffer_.cdata();
    std::string read(static_cast<const char*>(bytes.data()), bytes.size());
    const auto next = MakeHttp2Connection(std::move(stream_), weak_thread_.lock(),
                                          std::move(remote_), std::move(read));
    Disarm();
    state_ = State::kClosed;
    const auto self = this->shared_from_this();
    thread_->connections.erase(this);
    next->Start();
  }

  // ---- The timer; the state decides its meaning.

  void Arm(Clock::time_point at) {
    const uint64_t serial = ++timer_serial_;
    timer_.expires_at(at);
    timer_.async_wait([self = this->shared_from_this(), serial](error_code ec) {
      // A wait that has fired already cannot be cancelled; the serial tells.
      if (!ec && serial == self->timer_serial_) self->Guarded([&] { self->OnTimer(); });
    });
  }
  void ArmOrNot(Clock::time_point at) {
    if (at == Clock::time_point::max()) return Disarm();
    Arm(at);
  }
  void Disarm() {
    ++timer_serial_;
    timer_.cancel();
  }

  void OnTimer() {
    switch (state_) {
      case State::kHeader:
      case State::kBody:
        return Fail(408, NotArrived(Options()));
      case State::kWaiting:
        request_->context.cancel->Cancel();
        return Answer(thread_->handler->OnError(*request_, 503, NotAnsweredInTime(*request_)));
      case State::kStreaming:
        return OnStreamTimer();
      case State::kClosed:
        return;
      default:
        return Close();
    }
  }

  // ---- Reading

  void StartRead() {
    if (reading_ || eof_) return;
    reading_ = true;
    // Not straight into buffer_, from which requests are taken while this read is pending.
    stream_.async_read_some(asio::buffer(arrived_),
                            [self = this->shared_from_this()](error_code ec, size_t bytes) {
                              self->Guarded([&] { self->OnRead(ec, bytes); });
                            });
  }

  void OnRead(error_code ec, size_t bytes) {
    reading_ = false;
    if (state_ == State::kClosed) return;
    if (bytes > 0) thread_->OnBytes(bytes, 0);
    if (state_ == State::kLingering) {
      if (ec) return Close();
      return StartRead();  // what came is thrown away
    }
    if (ec) return OnReadError(ec);
    buffer_.commit(asio::buffer_copy(buffer_.prepare(bytes), asio::buffer(arrived_, bytes)));
    Advance();
  }

  void OnReadError(error_code ec) {
    // A TLS client that leaves without close_notify is as gone as one that says so.
    const bool end = ec == asio::error::eof || ec == ssl::error::stream_truncated;
    eof_ = true;
    if (!end || (state_ != State::kWaiting && state_ != State::kWriting)) return Close();
    if (state_ == State::kWaiting) request_->context.cancel->Cancel();
  }

  void BecomeIdle() {
    state_ = State::kIdle;
    if (buffer_.size() == 0) {
      // An idle connection holds nothing of the last request.
      buffer_ = {};
      std::string().swap(head_);
      if (thread_->stopping || eof_) {
        error_code ec;
        if (eof_ || Socket().available(ec) == 0 || ec) return Close();
      }
      Arm(Clock::now() + Options().idle_timeout);
    }
    Advance();
  }

  // Processes the bytes at hand, and reads more where needed.
  void Advance() {
    if (state_ == State::kIdle && BeginsHttp2()) return;
    if (state_ == State::kIdle && !BeginRequest()) return ReadOrClose();
    if (state_ == State::kHeader) AdvanceHeader();
    if (state_ == State::kBody) AdvanceBody();
    const bool at_work = state_ == State::kWaiting || state_ == State::kStreaming;
    if (at_work && buffer_.size() < kReadAheadBytesMax) StartRead();
  }

  void ReadOrClose() {
    if (eof_) return Close();
    StartRead();
  }

  // True if a first byte is there.
  bool BeginRequest() {
    // RFC 9112 2.2: empty lines before a request are to be ignored.
    while (buffer_.size() > 0) {
      const char c = *static_cast<const char*>(buffer_.data().data());
      if (c != '\r' && c != '\n') break;
      buffer_.consume(1);
    }
    if (buffer_.size() == 0) return false;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(Options().header_bytes_max));
    // Checked in OnHeader, where the answer can have the format of the route. (boost::none would
    // refuse every body: Beast 1.74 compares it as the least of all limits.)
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    parser_->eager(false);
    header_bytes_ = 0;
    header_lines_ = {};
    chunks_.reset();
    fresh_ = false;
    request_ = NewRequest(Options(), remote_, Clock::now());
    refusal_.reset();
    reported_ = false;
    items_ = -1;
    state_ = State::kHeader;
    Arm(request_->begin + Options().read_timeout);
    return true;
  }

  void AdvanceHeader() {
    error_code ec;
    const size_t used = parser_->put(buffer_.cdata(), ec);
    const char* const bad_line =
        header_lines_.Feed({static_cast<const char*>(buffer_.cdata().data()), used});
    buffer_.consume(used);
    header_bytes_ += used;
    const auto limit = static_cast<size_t>(Options().header_bytes_max);
    const bool more = ec == http::error::need_more;
    if (ec == http::error::header_limit || header_bytes_ + (more ? buffer_.size() : 0) > limit) {
      return Fail(431, HeaderTooLong(Options()));
    }
    if (bad_line != nullptr) return Fail(400, std::string("malformed HTTP request: ") + bad_line);
    if (more) return ReadOrClose();
    if (ec) return Fail(400, "malformed HTTP request: " + ec.message());
    OnHeader();
  }

  void OnHeader() {
    const auto& message = parser_->get();
    HttpRequest& request = *request_;
    request.method = std::string(message.method_string());
    for (const auto& field : message) {
      request.headers.emplace_back(
          LowerAscii({field.name_string().data(), field.name_string().size()}),
          std::string(field.value()));
    }
    const std::string_view sent(message.target().data(), message.target().size());
    if (!SetTarget(sent, &request)) {
      return Fail(400, "malformed HTTP request: bad request target");
    }
    if (auto wrong = CheckHeader(static_cast<int>(message.version()), sent, &request)) {
      return Fail(wrong->status, wrong->message);
    }
    std::optional<uint64_t> length;
    if (const auto said = parser_->content_length()) length = *said;
    // RFC 9110 10.1.1: HTTP/1.0 has no Expect.
    if (auto wrong =
            CheckBody(Options(), request, length, length.value_or(0) > 0 || message.chunked(),
                      message.version() >= 11)) {
      return Fail(wrong->status, wrong->message);
    }
    parser_->body_limit(static_cast<uint64_t>(Options().body_bytes_max));
    parser_->eager(true);
    if (message.chunked()) chunks_.emplace(static_cast<size_t>(Options().header_bytes_max));
    keep_alive_ = AsksKeepAlive(static_cast<int>(message.version()), request);
    BeginBody();
  }

  void BeginBody() {
    const bool expects = parser_->get().version() >= 11 && Expects100(*request_);
    refusal_ = thread_->handler->OnHeader(request_.get());
    if (parser_->is_done()) return Dispatch();
    if (refusal_) {
      // Reading a small body keeps the connection; a large one is not worth it.
      const auto length = parser_->content_length();
      if (expects || !length || *length > kDrainBytesMax) {
        keep_alive_ = false;
        return Answer(std::move(*refusal_));
      }
    }
    Arm(Clock::now() + Options().read_timeout);
    if (expects && buffer_.size() == 0) return SendContinue();
    state_ = State::kBody;
  }

  void SendContinue() {
    static constexpr std::string_view kContinueLine = "HTTP/1.1 100 Continue\r\n\r\n";
    state_ = State::kContinue;
    asio::async_write(stream_, asio::buffer(kContinueLine.data(), kContinueLine.size()),
                      [self = this->shared_from_this()](error_code ec, size_t bytes) {
                        self->Guarded([&] {
                          self->thread_->OnBytes(0, bytes);
                          if (self->state_ != State::kContinue) return;
                          if (ec) return self->Close();
                          self->state_ = State::kBody;
                          self->Advance();
                        });
                      });
  }

  void AdvanceBody() {
    while (!parser_->is_done()) {
      if (buffer_.size() == 0) return ReadOrClose();
      const size_t bytes = parser_->get().body().size() + buffer_.size();
      if (const Status taken = refusal_ ? Status::Ok() : TakeBodyMemory(*request_, bytes);
          !taken.ok()) {
        return Fail(MemoryStatus(taken), taken.message());
      }
      if (chunks_) {
        const auto unread = buffer_.cdata();
        const char* wrong =
            chunks_->Check({static_cast<const char*>(unread.data()), unread.size()});
        if (wrong) return Fail(400, std::string("malformed HTTP request: ") + wrong);
      }
      error_code ec;
      const size_t used = parser_->put(buffer_.cdata(), ec);
      buffer_.consume(used);
      if (chunks_) chunks_->Used(used);
      if (ec == http::error::need_more) {
        // Only the line of a chunk or the trailer can be incomplete.
        if (buffer_.size() > static_cast<size_t>(Options().header_bytes_max)) {
          return Fail(400, "malformed HTTP request: a chunk's header is too long");
        }
        if (used == 0) return ReadOrClose();
      } else if (ec == http::error::body_limit) {
        return Fail(413, BodyTooLong(Options()));
      } else if (ec) {
        return Fail(400, "malformed HTTP request: " + ec.message());
      }
    }
    if (chunks_ && !chunks_->AtEnd()) {
      return Fail(400, "malformed HTTP request: bad end of a chunked body");
    }
    Dispatch();
  }

  // ---- Working

  void Dispatch() {
    if (refusal_) return Answer(std::move(*refusal_));
    std::string body = std::move(parser_->get().body());
    request_->body_bytes = body.size();
    state_ = State::kWaiting;
    EnterStage(*request_, metrics::Stage::kParse);
    if (eof_) request_->context.cancel->Cancel();
    ArmOrNot(AnswerDeadline(*request_));
    const bool chunked = parser_->get().version() >= 11;
    const auto pending = std::make_shared<PendingAnswer>(this->weak_from_this(),
                                                         weak_thread_.lock(), ++exchange_, chunked);
    Responder respond(pending);
    try {
      thread_->handler->OnRequest(request_, std::move(body), std::move(respond));
    } catch (...) {  // its responder, now destroyed, has answered it
      LogException("handling a request");
    }
  }

  // ---- Writing

  // Answers an error of the connection and closes: the bytes that follow may not be a request.
  void Fail(int status, const std::string& message) {
    keep_alive_ = false;
    if (request_->method.empty() && parser_) {  // for the log line
      request_->method = std::string(parser_->get().method_string());
    }
    Answer(thread_->handler->OnError(*request_, status, message));
  }

  // `framing`: as the head says it; the body of a HEAD is not sent.
  void Answer(HttpResponse response, HeadOptions::Body framing = HeadOptions::Body::kLength) {
    const bool complete = state_ == State::kWaiting || (parser_ && parser_->is_done());
    unread_ = !complete;
    keep_alive_ = keep_alive_ && complete && thread_->keeps_alive;
    status_ = response.status;
    body_bytes_ = response.body.size();
    const bool head_only = request_->method == "HEAD" || response.status == 204;
    head_.clear();
    head_.reserve(512 + (response.body.size() <= kJoinBytesMax ? response.body.size() : 0));
    AppendHead(*request_, response,
               {.date = thread_->Date(), .keep_alive = keep_alive_, .body = framing}, &head_);
    body_.clear();
    if (!head_only) {
      if (response.body.size() <= kJoinBytesMax) {
        head_ += response.body;
      } else {
        body_ = std::move(response.body);
      }
    }
    state_ = State::kWriting;
    EnterStage(*request_, metrics::Stage::kSend);
    head_sent_ = body_sent_ = 0;
    WriteSome();
  }

  void WriteSome() {
    Arm(Clock::now() + Options().write_timeout);
    WriteOnce();
  }

  void WriteOnce() {
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head_) + head_sent_,
                                                       asio::buffer(body_) + body_sent_};
    stream_.async_write_some(buffers, [self = this->shared_from_this()](error_code ec, size_t n) {
      self->Guarded([&] { self->OnWritten(ec, n); });
    });
  }

  void OnWritten(error_code ec, size_t bytes) {
    if (state_ != State::kWriting && state_ != State::kStreaming) return;
    thread_->OnBytes(0, bytes);
    if (ec) return Close();
    const size_t of_head = std::min(bytes, head_.size() - head_sent_);
    head_sent_ += of_head;
    body_sent_ += bytes - of_head;
    const bool all = head_sent_ == head_.size() && body_sent_ == body_.size();
    if (state_ == State::kStreaming) return all ? OnBatchSent() : WriteOnce();
    if (!all) return WriteSome();
    FinishAnswer();
  }

  void FinishAnswer() {
    Report(status_);
    std::string().swap(body_);  // may be large
    parser_.reset();
    refusal_.reset();
    request_.reset();
    if (!keep_alive_) return Finish();
    BecomeIdle();
  }

  void Report(int status) noexcept {
    if (reported_ || request_ == nullptr) return;
    reported_ = true;
    RunGuarded("reporting a request",
               [&] { thread_->handler->OnDone(*request_, status, body_bytes_, items_); });
  }

  // ---- Streaming: the body is written while it is made, batch after batch.

  void BeginStream(const std::shared_ptr<StreamBuffer>& stream) {
    if (request_->method == "HEAD") {
      stream->Leave();
      using Body = HeadOptions::Body;
      return Answer(stream->TakeHead(), stream->chunked() ? Body::kChunked : Body::kUntilClose);
    }
    state_ = State::kStreaming;
    outgoing_ = stream;
    thread_->handler->OnStreams(+1);
    SetNotSentMax(kStreamNotSentBytes);
    HttpResponse head = stream->TakeHead();
    using Body = HeadOptions::Body;
    const Body body = stream->chunked() ? Body::kChunked : Body::kUntilClose;
    keep_alive_ = keep_alive_ && stream->chunked() && thread_->keeps_alive;
    unread_ = false;
    status_ = head.status;
    body_bytes_ = 0;
    items_ = 0;
    head_.clear();
    AppendHead(*request_, head, {.date = thread_->Date(), .keep_alive = keep_alive_, .body = body},
               &head_);
    body_.clear();
    clock_.emplace(*request_, &head);
    SendMore();
  }

  // Sends what waits, unless a write is under way.
  void SendMore() {
    if (outgoing_->overrun()) return DropSlowClient();
    if (outgoing_->aborted()) return Close();
    if (batch_) return;
    auto batch = outgoing_->Take();
    if (batch.text.empty() && head_.empty()) {
      if (batch.last) return EndStream();
      return ArmOrNot(clock_->Next(false));  // until the producer has more
    }
    Send(std::move(batch));
  }

  void Send(StreamBuffer::Batch batch) {
    body_ = std::move(batch.text);
    head_sent_ = body_sent_ = 0;
    if (batch.last) EnterStage(*request_, metrics::Stage::kSend);
    batch_ = std::move(batch);
    // For the whole batch, so that a client cannot keep a stream by a byte now and then.
    batch_deadline_ = Clock::now() + Options().write_timeout;
    Arm(std::min(batch_deadline_, clock_->Next(true)));
    WriteOnce();
  }

  void OnBatchSent() {
    const StreamBuffer::Batch sent = *std::exchange(batch_, std::nullopt);
    head_.clear();
    body_bytes_ += sent.body_bytes;
    items_ += sent.items;
    clock_->Sent(Clock::now());
    outgoing_->Sent(sent);
    return sent.last ? EndStream() : SendMore();
  }

  // 0: the system's default.
  void SetNotSentMax(int bytes) {
    setsockopt(Socket().native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
  }

  void EndStream() {
    SetNotSentMax(0);
    status_ = outgoing_->end_status();
    LeaveStream();
    FinishAnswer();
  }

  void OnStreamTimer() {
    const auto now = Clock::now();
    if (batch_ && now >= batch_deadline_) return DropSlowClient();
    if (!batch_ && clock_->IdleIsDue(now)) return Send(outgoing_->Idle(clock_->idle_text()));
    if (!clock_->BecomeLate()) return Close();
    outgoing_->CallReady();
    const auto next = clock_->Next(batch_.has_value());
    Arm(batch_ ? std::min(batch_deadline_, next) : next);
  }

  void DropSlowClient() {
    thread_->handler->OnStreamDropped();
    Close();
  }

  void LeaveStream() {
    if (outgoing_ == nullptr) return;
    batch_.reset();
    const auto left = std::exchange(outgoing_, nullptr);
    thread_->handler->OnStreams(-1);
    left->Leave();
  }

  // ---- Ending

  // Closing a socket that has unread bytes resets the connection, and the client may lose the
  // answer. So: say that no more comes, and read on for a moment.
  void Finish() {
    Disarm();
    error_code ec;
    if (eof_) return Close();
    if (!kTls && !unread_ && buffer_.size() == 0 && Socket().available(ec) == 0 && !ec) {
      return Close();
    }
    state_ = State::kLingering;
    buffer_.clear();
    Arm(Clock::now() + kLinger);
    if constexpr (kTls) {
      stream_.async_shutdown([self = this->shared_from_this()](error_code) {
        if (self->state_ != State::kLingering) return;
        if (!self->unread_ || self->reading_) return self->Close();
        error_code failed;
        self->Socket().shutdown(tcp::socket::shutdown_send, failed);
        self->Guarded([&] { self->DiscardRaw(); });
      });
    } else {
      Socket().shutdown(tcp::socket::shutdown_send, ec);
      if (ec) return Close();
      StartRead();
    }
  }

  // After TLS has ended, the bytes under it.
  void DiscardRaw() {
    Socket().async_read_some(asio::buffer(arrived_),
                             [self = this->shared_from_this()](error_code ec, size_t) {
                               if (self->state_ == State::kClosed) return;
                               if (ec) return self->Close();
                               self->Guarded([&] { self->DiscardRaw(); });
                             });
  }

  void Close() {
    if (state_ == State::kClosed) return;
    const bool streaming = state_ == State::kStreaming;
    const bool owed = streaming || state_ == State::kWaiting || state_ == State::kWriting;
    state_ = State::kClosed;
    if (owed && request_ != nullptr) {
      request_->context.cancel->Cancel();
      if (!streaming) body_bytes_ = 0;
      Report(499);
    }
    LeaveStream();
    Disarm();
    error_code ignored;
    Socket().close(ignored);
    thread_->connections.erase(this);
    thread_->OnConnections(-1);
    thread_->open_count->Remove();
  }

  IoThread* const thread_;  // outlives the connection: it owns the context that runs it
  const std::weak_ptr<IoThread> weak_thread_;
  Stream stream_;
  asio::steady_timer timer_;
  uint64_t timer_serial_ = 0;
  std::string remote_;

  State state_ = State::kIdle;
  std::array<char, kReadBytes> arrived_;  // where the pending read writes
  boost::beast::flat_buffer buffer_;      // read and not used yet
  bool reading_ = false;
  bool eof_ = false;
  bool fresh_ = true;             // no request was read yet
  bool part_of_preface_ = false;  // of HTTP/2 was read

  std::optional<Parser> parser_;
  size_t header_bytes_ = 0;
  HeaderLines header_lines_;
  std::optional<ChunkCheck> chunks_;  // of a chunked body
  std::shared_ptr<HttpRequest> request_;
  std::optional<HttpResponse> refusal_;  // sent once the body has been read past
  bool keep_alive_ = false;
  bool unread_ = false;    // the request's body was not read to its end
  bool reported_ = false;  // OnDone was called for request_
  uint64_t exchange_ = 0;  // tells a late answer from the current request's

  std::string head_;
  std::string body_;
  size_t head_sent_ = 0;
  size_t body_sent_ = 0;
  int status_ = 0;
  size_t body_bytes_ = 0;

  // Set while an answer is streamed.
  std::shared_ptr<StreamBuffer> outgoing_;
  std::optional<StreamBuffer::Batch> batch_;  // being written; its text is body_
  Clock::time_point batch_deadline_;
  std::optional<StreamClock> clock_;
  int64_t items_ = -1;  // sent; -1: no stream
};

}  // namespace

std::shared_ptr<Connection> MakeConnection(tcp::socket socket, std::shared_ptr<IoThread> thread) {
  if (thread->tls == nullptr) {
    return std::make_shared<ConnectionOn<tcp::socket>>(thread, std::move(socket));
  }
  using Tls = ssl::stream<tcp::socket>;
  return std::make_shared<ConnectionOn<Tls>>(thread, std::move(socket), *thread->tls->Get());
}

}  // namespace penstock::http
