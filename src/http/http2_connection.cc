#include "http/http2_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <type_traits>
#include <utility>

#include "http/http2_requests.h"
#include "http2/http2_session.h"
#include "log/exception_status.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kWriteBytes = 64 << 10;  // made ready at a time
// Unsent bytes that the kernel may hold; without it, megabytes for a client that does not read.
constexpr int kNotSentBytes = 64 << 10;
// What is read after the end, so that the client gets the last bytes before a reset.
constexpr std::chrono::seconds kDiscardTime{1};
constexpr size_t kLingerBytesMax = 256 << 10;

// Calls a connection on its io thread; posted again and again.
class ConnectionWake final : public http2::Http2Wake,
                             public IoPost,
                             public std::enable_shared_from_this<ConnectionWake> {
 public:
  class Target {
   public:
    virtual ~Target() = default;
    virtual void OnWake() noexcept = 0;
  };

  explicit ConnectionWake(std::weak_ptr<IoThread> thread) : thread_(std::move(thread)) {}

  void SetTarget(std::weak_ptr<Target> target) { target_ = std::move(target); }
  void Wake() noexcept override {
    if (queued_.exchange(true, std::memory_order_acq_rel)) return;
    if (const auto thread = thread_.lock()) thread->answers.Push(shared_from_this());
  }

 private:
  void Arrive() noexcept override {
    queued_.exchange(false, std::memory_order_acq_rel);
    if (const auto target = target_.lock()) target->OnWake();
  }
  void Lose() noexcept override {}

  const std::weak_ptr<IoThread> thread_;
  std::weak_ptr<Target> target_;  // of the io thread
  std::atomic<bool> queued_{false};
};

http2::Http2Limits LimitsOf(const IoThread& thread) {
  http2::Http2Limits limits;
  limits.streams_max = thread.http2_streams_max;
  limits.header_bytes_max = static_cast<size_t>(thread.options->header_bytes_max);
  limits.read_timeout = thread.options->read_timeout;
  limits.write_timeout = thread.options->write_timeout;
  // Streams of programs (gRPC) keep a connection for as long as it answers pings.
  if (thread.http2_handler == nullptr) limits.idle_timeout = thread.options->idle_timeout;
  return limits;
}

template <typename Stream>
class Http2ConnectionOn final : public Connection,
                                public ConnectionWake::Target,
                                public std::enable_shared_from_this<Http2ConnectionOn<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  Http2ConnectionOn(Stream stream, std::shared_ptr<IoThread> thread, std::string remote,
                    std::string read)
      : thread_(thread.get()),
        stream_(std::move(stream)),
        timer_(thread->context),
        wake_(std::make_shared<ConnectionWake>(thread)),
        first_(std::move(read)) {
    if (thread->http2_handler == nullptr) requests_ = MakeHttp2Requests(thread);
    http2::Http2Handler* const handler = requests_ ? requests_.get() : thread->http2_handler;
    session_ = std::make_unique<http2::Http2Session>(handler, LimitsOf(*thread), std::move(remote),
                                                     wake_, Clock::now());
  }

  void Start() override {
    Guarded([this] {
      thread_->connections.emplace(this, this->shared_from_this());
      wake_->SetTarget(this->weak_from_this());
      error_code ignored;
      Socket().set_option(tcp::no_delay(true), ignored);
      const int bytes = kNotSentBytes;
      setsockopt(Socket().native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
      Receive(std::exchange(first_, {}));
      Step();
    });
  }

  void BeginShutdown() override {
    Guarded([this] {
      session_->BeginShutdown(Clock::now());
      Step();
    });
  }

  void Interrupt() override {
    Guarded([this] {
      session_->Interrupt(Clock::now());
      Step();
    });
  }

  void Abort() override { Close(); }

  void OnWake() noexcept override {
    Guarded([this] { Step(); });
  }

 private:
  enum class State { kOpen, kLingering, kClosed };

  auto& Socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  // The barrier of every callback: out of memory, or a bug, ends this connection only.
  template <typename Work>
  void Guarded(Work&& work) noexcept {
    if (state_ == State::kClosed) return;
    if (!RunGuarded("connection", std::forward<Work>(work))) Close();
  }

  void Receive(std::string_view bytes) {
    if (!bytes.empty()) session_->Receive(bytes, Clock::now());
    // As HTTP/1.1 says "Connection: close" in its answers from then on.
    if (thread_->stopping || !thread_->keeps_alive) session_->BeginShutdown(Clock::now());
  }

  // After all that may have changed the session: writes, reads and waits as it wants now.
  void Step() {
    if (state_ != State::kOpen) return;
    const auto now = Clock::now();
    session_->TakePosted(now);
    if (!writing_) {
      out_.clear();
      session_->Produce(kWriteBytes, &out_, now);
      if (!out_.empty()) {
        StartWrite(now);
      } else if (session_->streams() == 0) {
        std::string().swap(out_);  // a silent connection holds nothing of its last answer
      }
    }
    if (!writing_ && session_->done()) return Finish();
    if (session_->WantsRead()) StartRead();
    Arm(std::min(session_->NextTime(), write_by_));
  }

  void StartRead() {
    if (reading_) return;
    reading_ = true;
    stream_.async_read_some(asio::buffer(arrived_),
                            [self = this->shared_from_this()](error_code ec, size_t bytes) {
                              self->reading_ = false;
                              self->Guarded([&] { self->OnRead(ec, bytes); });
                            });
  }

  void OnRead(error_code ec, size_t bytes) {
    if (bytes > 0) thread_->OnBytes(bytes, 0);
    if (ec) return Close();
    if (state_ == State::kLingering) return Discard(bytes);
    Receive({arrived_.data(), bytes});
    Step();
  }

  void StartWrite(Clock::time_point now) {
    writing_ = true;
    written_ = 0;
    write_by_ = now + thread_->options->write_timeout;
    WriteOnce();
  }

  void WriteOnce() {
    stream_.async_write_some(asio::buffer(out_) + written_,
                             [self = this->shared_from_this()](error_code ec, size_t bytes) {
                               self->Guarded([&] { self->OnWritten(ec, bytes); });
                             });
  }

  void OnWritten(error_code ec, size_t bytes) {
    thread_->OnBytes(0, bytes);
    if (ec) return Close();
    const auto now = Clock::now();
    written_ += bytes;
    write_by_ = now + thread_->options->write_timeout;
    session_->Sent(bytes, now);
    if (written_ < out_.size()) return WriteOnce();
    writing_ = false;
    write_by_ = Clock::time_point::max();
    Step();
  }

  // ---- The timer. It is set again where it must fire earlier; a later time is seen when it fires.

  void Arm(Clock::time_point at) {
    if (at >= armed_at_) return;
    armed_at_ = at;
    const uint64_t serial = ++timer_serial_;
    timer_.expires_at(at);
    timer_.async_wait([self = this->shared_from_this(), serial](error_code ec) {
      // A wait that has fired already cannot be cancelled; the serial tells.
      if (!ec && serial == self->timer_serial_) self->Guarded([&] { self->OnTimer(); });
    });
  }

  void OnTimer() {
    armed_at_ = Clock::time_point::max();
    const auto now = Clock::now();
    if (state_ == State::kLingering || now >= write_by_) return Close();
    session_->OnTime(now);
    Step();
  }

  // ---- Ending

  // Closing a socket that has unread bytes resets the connection, and the client may lose what was
  // sent last. So: say that no more comes, and read on for a moment.
  void Finish() {
    session_->Lose();
    state_ = State::kLingering;
    error_code ec;
    Socket().shutdown(tcp::socket::shutdown_send, ec);
    if (ec) return Close();
    armed_at_ = Clock::time_point::max();
    Arm(Clock::now() + kDiscardTime);
    StartRead();
  }

  void Discard(size_t bytes) {
    discarded_ += bytes;
    if (discarded_ > kLingerBytesMax) return Close();
    StartRead();
  }

  void Close() {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    const auto self = this->shared_from_this();
    session_->Lose();
    ++timer_serial_;
    timer_.cancel();
    error_code ignored;
    Socket().close(ignored);
    thread_->connections.erase(this);
    thread_->OnConnections(-1);
    thread_->open_count->Remove();
  }

  IoThread* const thread_;  // outlives the connection: it owns the context that runs it
  Stream stream_;
  asio::steady_timer timer_;
  uint64_t timer_serial_ = 0;
  Clock::time_point armed_at_ = Clock::time_point::max();
  const std::shared_ptr<ConnectionWake> wake_;
  std::unique_ptr<http2::Http2Handler> requests_;  // null: streams go to the thread's handler
  std::unique_ptr<http2::Http2Session> session_;   // ends before its handler

  State state_ = State::kOpen;
  std::string first_;
  std::array<char, kReadBytes> arrived_;  // where the pending read writes
  bool reading_ = false;
  std::string out_;  // being written
  size_t written_ = 0;
  bool writing_ = false;
  Clock::time_point write_by_ = Clock::time_point::max();
  size_t discarded_ = 0;
};

}  // namespace

template <typename Stream>
std::shared_ptr<Connection> MakeHttp2Connection(Stream stream, std::shared_ptr<IoThread> thread,
                                                std::string remote, std::string read) {
  return std::make_shared<Http2ConnectionOn<Stream>>(std::move(stream), std::move(thread),
                                                     std::move(remote), std::move(read));
}

template std::shared_ptr<Connection> MakeHttp2Connection(tcp::socket, std::shared_ptr<IoThread>,
                                                         std::string, std::string);
template std::shared_ptr<Connection> MakeHttp2Connection(asio::ssl::stream<tcp::socket>,
                                                         std::shared_ptr<IoThread>, std::string,
                                                         std::string);

}  // namespace penstock::http
