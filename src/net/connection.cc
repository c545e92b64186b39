#include "net/connection.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = Limits::Clock;
using Tcp = asio::ip::tcp;

// An address that does not answer leaves time for the next one.
constexpr std::chrono::milliseconds kAddressTime{3000};

// The addresses of a name. The resolver of the system cannot be interrupted: it has a thread of its
// own, which may outlive the call.
class Lookup {
 public:
  Lookup(const std::string& host, const std::string& port) : shared_(std::make_shared<Shared>()) {
    std::thread([shared = shared_, host, port] {
      asio::io_context context;
      Tcp::resolver resolver(context);
      ErrorCode error;
      const auto results = resolver.resolve(host, port, error);
      const std::lock_guard lock(shared->mutex);
      shared->error = error;
      for (const auto& one : results) shared->endpoints.push_back(one.endpoint());
      shared->done = true;
      shared->changed.notify_all();
    }).detach();
  }
  HttpFailure Wait(Limits* limits, std::vector<Tcp::endpoint>* endpoints, std::string* why) {
    std::unique_lock lock(shared_->mutex);
    while (!shared_->done) {
      if (const HttpFailure failure = limits->Check(); failure != HttpFailure::kNone)
        return failure;
      shared_->changed.wait_for(lock, Operations::kPoll);
    }
    *endpoints = shared_->endpoints;
    if (!shared_->error && !endpoints->empty()) return HttpFailure::kNone;
    *why = "the name has no address: " + shared_->error.message();
    return HttpFailure::kNotReached;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    ErrorCode error;
    std::vector<Tcp::endpoint> endpoints;
  };
  const std::shared_ptr<Shared> shared_;
};

std::string Basic(const std::string& user) {
  std::string out((user.size() + 2) / 3 * 4 + 1, '\0');
  out.resize(static_cast<size_t>(EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(out.data()),
      reinterpret_cast<const unsigned char*>(user.data()), static_cast<int>(user.size()))));
  return "Basic " + out;
}

}  // namespace

Connection::Connection(const Url& origin, const std::optional<Url>& proxy, asio::ssl::context* tls)
    : origin_(origin),
      proxy_(proxy),
      tls_context_(tls),
      operations_([this] {
        ErrorCode ignored;
        socket_.close(ignored);
      }),
      socket_(operations_.context()) {}

bool Connection::Serves(const Url& url, const std::optional<Url>& proxy) const {
  if (proxy.has_value() != proxy_.has_value()) return false;
  return origin_.SameOrigin(url) &&
         (!proxy || (proxy->SameOrigin(*proxy_) && proxy->user == proxy_->user));
}

bool Connection::IsIdle() {
  // A closed one is readable, and so is one that has sent what was not asked for.
  ErrorCode error;
  socket_.non_blocking(true, error);
  char byte;
  const size_t got = socket_.receive(asio::buffer(&byte, 1), Tcp::socket::message_peek, error);
  return got == 0 && error == asio::error::would_block;
}

HttpResult Connection::Open(Limits* limits, bool insecure) {
  if (HttpResult connected = ConnectAny(proxy_ ? *proxy_ : origin_, limits); !connected.ok()) {
    return connected;
  }
  ErrorCode ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  if (!origin_.tls) return {};
  if (proxy_) {
    if (HttpResult tunnel = Tunnel(limits); !tunnel.ok()) return tunnel;
  }
  return Handshake(limits, insecure);
}

HttpResult Connection::Run(const HttpRequest& request, const HttpSink& sink, Limits* limits,
                           ExchangeState* state) {
  auto head = HeadOf(request);
  if (tls_) {
    return StreamExchange(&operations_, &*tls_, &buffer_, limits).Run(&head, request, sink, state);
  }
  return StreamExchange(&operations_, &socket_, &buffer_, limits).Run(&head, request, sink, state);
}

HttpResult Connection::ConnectAny(const Url& to, Limits* limits) {
  std::vector<Tcp::endpoint> endpoints;
  std::string why;
  HttpFailure failure = Lookup(to.host, to.port).Wait(limits, &endpoints, &why);
  if (failure != HttpFailure::kNone) return Failed(failure, to, WhyOf(failure, why));
  ErrorCode error;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    failure = Connect(endpoints[i], i + 1 == endpoints.size(), limits, &error);
    if (failure != HttpFailure::kNone) return Failed(failure, to, WhyOf(failure, ""));
    if (!error) return {};
  }
  return Failed(HttpFailure::kNotReached, to, "no connection: " + error.message());
}

HttpFailure Connection::Connect(const Tcp::endpoint& endpoint, bool is_last, Limits* limits,
                                ErrorCode* error) {
  ErrorCode ignored;
  socket_.close(ignored);
  const auto end = limits->step_end();
  if (!is_last) limits->SetStepEnd(std::min(end, Clock::now() + kAddressTime));
  const HttpFailure failure =
      operations_.Do(limits, error, [&](auto done) { socket_.async_connect(endpoint, done); });
  limits->SetStepEnd(end);
  if (failure != HttpFailure::kTimeout || is_last || limits->Check() != HttpFailure::kNone) {
    return failure;
  }
  *error = asio::error::timed_out;  // of this address alone
  return HttpFailure::kNone;
}

// CONNECT (RFC 9110, 9.3.6).
HttpResult Connection::Tunnel(Limits* limits) {
  const bool is_ipv6 = origin_.host.find(':') != std::string::npos;
  const std::string to = (is_ipv6 ? "[" + origin_.host + "]" : origin_.host) + ":" + origin_.port;
  http::request<http::empty_body> request(http::verb::connect, to, 11);
  request.set(http::field::host, to);
  request.set(http::field::user_agent, "penstock/" PENSTOCK_VERSION);
  if (!proxy_->user.empty()) request.set(http::field::proxy_authorization, Basic(proxy_->user));
  ErrorCode error;
  HttpFailure failure =
      operations_.Do(limits, &error, [&](auto done) { http::async_write(socket_, request, done); });
  if (failure != HttpFailure::kNone || error) return Broken(*proxy_, failure, error);
  http::response_parser<http::empty_body> parser;
  parser.skip(true);
  parser.header_limit(HttpClient::kHeadBytesMax);
  failure = operations_.Do(
      limits, &error, [&](auto done) { http::async_read_header(socket_, buffer_, parser, done); });
  if (failure != HttpFailure::kNone || error) return Broken(*proxy_, failure, error);
  const int status = static_cast<int>(parser.get().result_int());
  if (status / 100 != 2) {
    return Failed(HttpFailure::kRefused, *proxy_, "the proxy answered " + std::to_string(status));
  }
  if (buffer_.size() == 0) return {};
  // They would be read as the first bytes of what the origin says by TLS.
  return Failed(HttpFailure::kRefused, *proxy_, "the proxy sent more than its answer");
}

HttpResult Connection::Handshake(Limits* limits, bool insecure) {
  tls_.emplace(socket_, *tls_context_);
  SSL* const ssl = tls_->native_handle();
  ErrorCode no_address;
  (void)asio::ip::make_address(origin_.host, no_address);
  const bool is_address = !no_address.failed();
  // SNI has names alone (RFC 6066, 3).
  if (!is_address) SSL_set_tlsext_host_name(ssl, origin_.host.c_str());
  tls_->set_verify_mode(insecure ? asio::ssl::verify_none : asio::ssl::verify_peer);
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool set = is_address
                       ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), origin_.host.c_str())
                       : SSL_set1_host(ssl, origin_.host.c_str());
  // Without it any host's certificate would do.
  if (!set)
    return Failed(HttpFailure::kTls, origin_, "TLS: the name of the host cannot be checked");
  ErrorCode error;
  const HttpFailure failure = operations_.Do(limits, &error, [&](auto done) {
    tls_->async_handshake(asio::ssl::stream_base::client, done);
  });
  if (failure != HttpFailure::kNone) return Failed(failure, origin_, WhyOf(failure, ""));
  if (!error) return {};
  const long verified = SSL_get_verify_result(ssl);
  if (verified != X509_V_OK && !insecure) {
    return Failed(
        HttpFailure::kCertificate, origin_,
        std::string("its certificate is not trusted: ") + X509_verify_cert_error_string(verified));
  }
  return Failed(HttpFailure::kTls, origin_, "TLS: " + error.message());
}

http::request<http::empty_body> Connection::HeadOf(const HttpRequest& request) const {
  const bool by_proxy = proxy_ && !origin_.tls;
  http::request<http::empty_body> head;
  head.version(11);
  head.method_string(request.method);
  head.target(by_proxy ? request.url.ToString() : request.url.target);
  head.set(http::field::host, request.url.authority());
  head.set(http::field::user_agent, "penstock/" PENSTOCK_VERSION);
  head.set(http::field::accept, "*/*");
  if (!request.url.user.empty()) head.set(http::field::authorization, Basic(request.url.user));
  if (by_proxy && !proxy_->user.empty()) {
    head.set(http::field::proxy_authorization, Basic(proxy_->user));
  }
  for (const auto& [name, value] : request.headers) head.set(name, value);
  if (request.body != nullptr) head.content_length(request.body->size());
  return head;
}

}  // namespace penstock::net
