#include "http/listener.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "http/connection.h"
#include "http/descriptors.h"
#include "http/tls_context.h"
#include "http2/http2_handler.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "log/log_limit.h"
#include "os/thread_latency.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;
using boost::system::error_code;

// Time for interrupted streams to end with an error.
constexpr std::chrono::seconds kLastWords{1};

Status CheckOptions(const ServerOptions& options) {
  const auto within = [](int64_t min, int64_t value, int64_t max, const char* name) {
    if (value >= min && value <= max) return Status::Ok();
    return Status::InvalidArgument(std::string(name) + " must be from " + std::to_string(min) +
                                       " to " + std::to_string(max) + ", is " +
                                       std::to_string(value),
                                   name);
  };
  const auto positive = [&](int64_t value, int64_t max, const char* name) {
    return within(1, value, max, name);
  };
  PENSTOCK_RETURN_IF_ERROR(positive(options.io_threads, 256, "io_threads"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.body_bytes_max, int64_t{4} << 30, "body_bytes_max"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.header_bytes_max, 1 << 20, "header_bytes_max"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.connections_max, 1 << 20, "connections_max"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.idle_timeout.count(), 86'400'000, "idle_timeout"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.read_timeout.count(), 86'400'000, "read_timeout"));
  PENSTOCK_RETURN_IF_ERROR(positive(options.write_timeout.count(), 86'400'000, "write_timeout"));
  PENSTOCK_RETURN_IF_ERROR(
      within(4096, options.stream_unread_bytes_max, int64_t{1} << 30, "stream_unread_bytes_max"));
  if (options.stream_start_timeout.count() != 0) {
    PENSTOCK_RETURN_IF_ERROR(
        positive(options.stream_start_timeout.count(), 86'400'000, "stream_start_timeout"));
  }
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return Status::InvalidArgument(
        "a TLS certificate and its key are needed together",
        options.tls_cert_file.empty() ? "tls_cert_file" : "tls_key_file");
  }
  return Status::Ok();
}

// Refuses a connection: answers 503 and closes.
void TurnAway(tcp::socket socket, const std::string& body) {
  const std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  error_code ec;
  socket.non_blocking(true, ec);
  socket.write_some(asio::buffer(text), ec);
  socket.shutdown(tcp::socket::shutdown_send, ec);
  // Unread bytes would reset the connection, and the answer with it.
  std::array<char, 4096> unread;
  for (int i = 0; i < 16 && !ec; ++i) socket.read_some(asio::buffer(unread), ec);
}

}  // namespace

// Counts the handlers of a kind that wait to be called. The count is shared: a context destroys its
// handlers with itself, which a late answer may put off until after the listener.
class Counted {
 public:
  explicit Counted(std::shared_ptr<int> count) : count_(std::move(count)) { ++*count_; }
  Counted(const Counted& other) : Counted(other.count_) {}
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count_; }

 private:
  const std::shared_ptr<int> count_;
};

struct Listener::Impl {
  Impl(HttpHandler* handler_in, http2::Http2Handler* http2_handler_in,
       const ServerOptions& options_in, const Http2Options& http2_in)
      : handler(handler_in),
        http2_handler(http2_handler_in),
        options(options_in),
        http2(http2_in),
        all_connections(http2_in.all_connections != nullptr ? http2_in.all_connections
                                                            : std::make_shared<OpenCount>()) {}

  static Expected<std::unique_ptr<Impl>> Start(std::unique_ptr<Impl> impl);

  Status Bind();
  void Accept();
  void KeepAccepting();
  void AcceptLater();
  void OnAcceptError(error_code ec);
  void Deal(tcp::socket socket, size_t thread);
  void Refuse(tcp::socket socket);
  void StopAccepting();
  void AwaitAccept(std::shared_ptr<std::promise<void>> ended);
  void Run(IoThread* thread);
  void OnEachThread(const std::function<void(IoThread*)>& work);

  // One of the two is null.
  HttpHandler* const handler;
  http2::Http2Handler* const http2_handler;
  const ServerOptions options;
  const Http2Options http2;
  const std::shared_ptr<OpenCount> all_connections;
  OpenCount open_count{all_connections};
  std::unique_ptr<TlsContext> tls;
  std::vector<std::shared_ptr<IoThread>> io;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
  std::vector<std::thread> threads;

  // On io[0]'s thread.
  std::optional<tcp::acceptor> acceptor;
  std::optional<asio::steady_timer> pause;
  SpareDescriptor spare;
  LogLimit accept_errors{1};
  size_t next_thread = 0;
  const std::shared_ptr<int> accept_waits = std::make_shared<int>(0);
  bool stopping = false;

  uint16_t port = 0;
  bool shut_down = false;
};

Status Listener::Impl::Bind() {
  const std::string where = options.host + ":" + std::to_string(options.port);
  error_code ec;
  tcp::resolver resolver(io[0]->context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) {
    return Status::InvalidArgument("cannot listen on " + where + ": " + ec.message(), "host");
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.emplace(io[0]->context);
  pause.emplace(io[0]->context);
  acceptor->open(endpoint.protocol(), ec);
  if (!ec) acceptor->set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor->bind(endpoint, ec);
  if (!ec) acceptor->listen(tcp::acceptor::max_listen_connections, ec);
  if (!ec) acceptor->non_blocking(true, ec);
  if (!ec) port = acceptor->local_endpoint(ec).port();
  if (ec)
    return Status(StatusCode::kUnavailable, "cannot listen on " + where + ": " + ec.message());
  return Status::Ok();
}

void Listener::Impl::Accept() {
  const size_t thread = next_thread++ % io.size();
  acceptor->async_accept(io[thread]->context, [this, thread, alive = Counted(accept_waits)](
                                                  error_code ec, tcp::socket socket) {
    // Out of memory: this connection only, not all to come.
    RunGuarded("accepting a connection", [&] {
      if (!ec) Deal(std::move(socket), thread);
    });
    if (stopping || ec == asio::error::operation_aborted) return;
    if (!ec) return Accept();
    OnAcceptError(ec);
  });
}

// An exception may have destroyed the accept handler: Asio allocates before it calls.
void Listener::Impl::KeepAccepting() {
  if (*accept_waits == 0 && !stopping && acceptor->is_open()) Accept();
}

void Listener::Impl::AcceptLater() {
  pause->expires_after(std::chrono::milliseconds(50));
  pause->async_wait([this, alive = Counted(accept_waits)](error_code cancelled) {
    if (!cancelled && !stopping) Accept();
  });
}

void Listener::Impl::OnAcceptError(error_code ec) {
  if (const auto left_out = accept_errors.Pass()) {
    LogWarn("cannot accept a connection: {}{}", ec.message(), LogLimit::LeftOut(*left_out));
  }
  const bool full =
      ec == asio::error::no_descriptors || ec == boost::system::errc::too_many_files_open_in_system;
  if (full && spare.Take()) {
    spare.Give();
    error_code failed;
    tcp::socket socket(io[0]->context);
    acceptor->accept(socket, failed);
    if (!failed) Refuse(std::move(socket));
    // The next is accepted at once only if it could be turned away as well.
    if (spare.Take() && !failed) return Accept();
  }
  AcceptLater();
}

void Listener::Impl::Refuse(tcp::socket socket) {
  if (handler == nullptr) return http2_handler->OnConnectionRefused();
  handler->OnConnectionRefused();
  if (tls != nullptr) return;
  HttpRequest none;
  TurnAway(std::move(socket),
           handler->OnError(none, 503, "the server has as many connections as it takes").body);
}

// A connection on its way to its io thread; counted until it is there.
struct Accepted {
  explicit Accepted(tcp::socket socket_in) : socket(std::move(socket_in)) {}
  ~Accepted() {
    if (counted != nullptr) counted->Remove();
  }
  tcp::socket socket;
  OpenCount* counted = nullptr;
};

void Listener::Impl::Deal(tcp::socket socket, size_t thread) {
  // Inside a shared_ptr because posted work is copied in places.
  const auto accepted = std::make_shared<Accepted>(std::move(socket));
  // Streams of HTTP/2 alone: a quarter is left for the other listener, whose health is asked for.
  const int32_t all = options.connections_max;
  if (!open_count.TryAdd(handler != nullptr ? all : std::max(all - all / 4, 1), all)) {
    return Refuse(std::move(accepted->socket));
  }
  accepted->counted = &open_count;
  asio::post(io[thread]->context, [accepted, keep = std::weak_ptr(io[thread])] {
    auto owner = keep.lock();
    if (owner == nullptr) return;
    const auto connection = MakeConnection(std::move(accepted->socket), std::move(owner));
    accepted->counted = nullptr;
    connection->Start();
  });
}

void Listener::Impl::StopAccepting() {
  stopping = true;
  // Clients in the backlog believe they are connected: take them, or they would be reset.
  for (;;) {
    const size_t thread = next_thread++ % io.size();
    tcp::socket socket(io[thread]->context);
    error_code ec;
    acceptor->accept(socket, ec);
    if (ec) break;
    Deal(std::move(socket), thread);
  }
  error_code ignored;
  acceptor->close(ignored);
  pause->cancel();
}

// An accept that was cancelled holds a socket of another thread's context until its handler ran. So
// it must have run before the contexts end, some of which late answers keep for longer.
void Listener::Impl::AwaitAccept(std::shared_ptr<std::promise<void>> ended) {
  if (*accept_waits == 0) return ended->set_value();
  asio::post(io[0]->context, [this, ended] { AwaitAccept(ended); });
}

void Listener::Impl::OnEachThread(const std::function<void(IoThread*)>& work) {
  std::vector<std::future<void>> done;
  for (const auto& thread : io) {
    auto promise = std::make_shared<std::promise<void>>();
    done.push_back(promise->get_future());
    asio::post(thread->context, [promise, &work, target = thread.get()] {
      work(target);
      promise->set_value();
    });
  }
  for (auto& one : done) one.wait();
}

void Listener::Impl::Run(IoThread* thread) {
  pthread_setname_np(pthread_self(), "penstock-io");
  // Liveness must answer while every processor computes.
  PreferShortSlices();
  const bool accepts = thread == io[0].get();
  bool ended = false;
  while (!ended) {
    const bool went_on = RunGuarded("io thread", [&] {
      if (accepts) KeepAccepting();
      thread->answers.Listen();
      thread->context.run();
      ended = true;
    });
    // Out of memory: pause, then serve the other connections.
    if (!went_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() { Shutdown(std::chrono::milliseconds(0)); }

Expected<std::unique_ptr<Listener::Impl>> Listener::Impl::Start(std::unique_ptr<Impl> impl) {
  const ServerOptions& options = impl->options;
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  if (impl->http2.streams_max < 1 || impl->http2.streams_max > 65'535) {
    return Status::InvalidArgument(
        "streams_max must be from 1 to 65535, is " + std::to_string(impl->http2.streams_max),
        "streams_max");
  }
  if (!options.tls_cert_file.empty()) {
    using Protocols = TlsContext::Protocols;
    PENSTOCK_ASSIGN_OR_RETURN(
        impl->tls,
        TlsContext::Load(options, impl->handler != nullptr ? Protocols::kBoth : Protocols::kHttp2));
  }
  for (int32_t i = 0; i < options.io_threads; ++i) {
    auto thread = std::make_shared<IoThread>();
    thread->handler = impl->handler;
    thread->http2_handler = impl->http2_handler;
    thread->http2_streams_max = static_cast<uint32_t>(impl->http2.streams_max);
    thread->options = &impl->options;
    thread->tls = impl->tls.get();
    thread->open_count = &impl->open_count;
    // Sockets want descriptors of a context's own, which are made with the first one. Made now,
    // they are there when no descriptor is left.
    const tcp::socket first(thread->context);
    impl->io.push_back(std::move(thread));
  }
  PENSTOCK_RETURN_IF_ERROR(impl->Bind());
  for (const auto& thread : impl->io) {
    impl->guards.push_back(asio::make_work_guard(thread->context));
    impl->threads.emplace_back([impl = impl.get(), thread = thread.get()] { impl->Run(thread); });
  }
  return impl;
}

Expected<std::unique_ptr<Listener>> Listener::Start(HttpHandler* handler,
                                                    const ServerOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(
      auto impl, Impl::Start(std::make_unique<Impl>(handler, nullptr, options, Http2Options())));
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

Expected<std::unique_ptr<Listener>> Listener::StartHttp2(http2::Http2Handler* handler,
                                                         const ServerOptions& options,
                                                         const Http2Options& http2) {
  PENSTOCK_ASSIGN_OR_RETURN(auto impl,
                            Impl::Start(std::make_unique<Impl>(nullptr, handler, options, http2)));
  return std::unique_ptr<Listener>(new Listener(std::move(impl)));
}

std::shared_ptr<OpenCount> Listener::all_connections() const { return impl_->all_connections; }

void Listener::EndKeepAlive() {
  for (const auto& thread : impl_->io) thread->keeps_alive = false;
}

void Listener::Shutdown(std::chrono::milliseconds timeout) {
  if (impl_->shut_down) return;
  impl_->shut_down = true;
  auto stopped = std::make_shared<std::promise<void>>();
  auto has_stopped = stopped->get_future();
  asio::post(impl_->io[0]->context, [this, stopped] {
    impl_->StopAccepting();
    impl_->AwaitAccept(stopped);
  });
  has_stopped.wait();
  const auto each_connection = [](IoThread* thread, void (Connection::*act)()) {
    const auto copy = thread->connections;  // closing erases
    for (const auto& [connection, owner] : copy) (connection->*act)();
  };
  EndKeepAlive();
  for (const auto& thread : impl_->io) thread->stopping = true;
  impl_->OnEachThread(
      [&](IoThread* thread) { each_connection(thread, &Connection::BeginShutdown); });
  if (!impl_->open_count.WaitForZero(timeout)) {
    impl_->OnEachThread([&](IoThread* thread) { each_connection(thread, &Connection::Interrupt); });
  }
  if (!impl_->open_count.WaitForZero(kLastWords)) {
    impl_->OnEachThread([&](IoThread* thread) { each_connection(thread, &Connection::Abort); });
  }
  impl_->guards.clear();
  for (const auto& thread : impl_->io) thread->context.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  for (const auto& thread : impl_->io) thread->answers.Close();
}

Status Listener::ReloadTls() { return impl_->tls == nullptr ? Status::Ok() : impl_->tls->Reload(); }

uint16_t Listener::port() const { return impl_->port; }

}  // namespace penstock::http
