#include "load/http_link.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

namespace penstock::load {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

Expected<std::unique_ptr<ssl::context>> MakeTlsContext(const HttpTarget& target) {
  if (!target.tls) return std::unique_ptr<ssl::context>();
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  HttpLink::ErrorCode ec;
  if (target.insecure) {
    context->set_verify_mode(ssl::verify_none);
  } else {
    context->set_verify_mode(ssl::verify_peer);
    if (target.ca_file.empty()) {
      context->set_default_verify_paths(ec);  // OpenSSL's: SSL_CERT_FILE counts
    } else {
      context->load_verify_file(target.ca_file, ec);
    }
    if (ec)
      return Status::InvalidArgument(target.ca_file + " holds no certificates (PEM)", "ca-cert");
  }
  return context;
}

Expected<asio::ip::tcp::endpoint> ResolveTarget(const HttpTarget& target,
                                                asio::io_context* context) {
  HttpLink::ErrorCode ec;
  asio::ip::tcp::resolver resolver(*context);
  const auto found = resolver.resolve(target.host, std::to_string(target.port),
                                      asio::ip::tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot find host {}: {}", target.host, ec.message()));
  }
  return found.begin()->endpoint();
}

Status CheckReachable(const HttpTarget& target, const asio::ip::tcp::endpoint& endpoint,
                      asio::io_context* context, ssl::context* tls) {
  HttpLink::ErrorCode result;
  const auto link = std::make_shared<HttpLink>(context, tls);
  link->Connect(endpoint, target.host, [&result](const HttpLink::ErrorCode& ec) { result = ec; });
  context->run();
  context->restart();
  if (!result) return Status::Ok();
  return {StatusCode::kUnavailable, UrlOf(target) + ": " + result.message()};
}

HttpLink::HttpLink(asio::io_context* context, ssl::context* tls) : socket_(*context) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
}

void HttpLink::Connect(const Tcp::endpoint& endpoint, const std::string& host, Done done,
                       int receive_buffer) {
  if (receive_buffer > 0) {  // before the connection, or its window is agreed on already
    ErrorCode ignored;
    socket_.open(endpoint.protocol(), ignored);
    socket_.set_option(asio::socket_base::receive_buffer_size(receive_buffer), ignored);
  }
  socket_.async_connect(endpoint, [this, self = shared_from_this(), host,
                                   done = std::move(done)](const ErrorCode& ec) mutable {
    if (ec) return done(ec);
    ErrorCode ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
    if (!tls_) return done(ec);
    asio::ip::make_address(host, ignored);
    const bool is_name = static_cast<bool>(ignored);
    if (is_name) SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str());
    tls_->set_verify_callback(ssl::host_name_verification(host));
    tls_->async_handshake(ssl::stream_base::client,
                          [self, done = std::move(done)](const ErrorCode& error) { done(error); });
  });
}

void HttpLink::Write(std::string bytes, Done done) {
  auto held = std::make_shared<const std::string>(std::move(bytes));
  const auto buffer = asio::buffer(*held);
  auto written = [self = shared_from_this(), held, done = std::move(done)](const ErrorCode& ec,
                                                                           size_t) { done(ec); };
  if (tls_) {
    asio::async_write(*tls_, buffer, std::move(written));
  } else {
    asio::async_write(socket_, buffer, std::move(written));
  }
}

void HttpLink::BeginAnswer() {
  parser_.emplace();
  parser_->body_limit(kAnswerBytesMax);
  // An eager parser keeps what it has until the size of the next chunk is whole.
  parser_->eager(false);
}

void HttpLink::ReadPart(Done done) {
  auto read = [self = shared_from_this(), done = std::move(done)](const ErrorCode& ec, size_t) {
    done(ec);
  };
  if (tls_) {
    boost::beast::http::async_read_some(*tls_, buffer_, *parser_, std::move(read));
  } else {
    boost::beast::http::async_read_some(socket_, buffer_, *parser_, std::move(read));
  }
}

std::string HttpLink::TakeBody() { return std::exchange(parser_->get().body(), {}); }

void HttpLink::Read(Done done) {
  parser_.emplace();
  parser_->body_limit(kAnswerBytesMax);
  auto read = [self = shared_from_this(), done = std::move(done)](const ErrorCode& ec, size_t) {
    done(ec);
  };
  if (tls_) {
    boost::beast::http::async_read(*tls_, buffer_, *parser_, std::move(read));
  } else {
    boost::beast::http::async_read(socket_, buffer_, *parser_, std::move(read));
  }
}

void HttpLink::Close() {
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace penstock::load
