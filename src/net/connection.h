// A connection to an origin, or to it through a proxy, plain or by TLS. Includes Boost: for the files
// of net/ alone.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <optional>

#include "net/stream_exchange.h"

namespace penstock::net {

class Connection {
 public:
  using Tcp = boost::asio::ip::tcp;

  // `tls` outlives it; may be null where the origin is not https.
  Connection(const Url& origin, const std::optional<Url>& proxy, boost::asio::ssl::context* tls);

  bool Serves(const Url& url, const std::optional<Url>& proxy) const;
  // Whether a request may be sent on it, as far as can be seen from here.
  bool IsIdle();
  // Finds, connects, passes the proxy and shakes hands. `insecure`: certificates are not checked.
  HttpResult Open(Limits* limits, bool insecure);
  HttpResult Run(const HttpRequest& request, const HttpSink& sink, Limits* limits,
                 ExchangeState* state);

 private:
  HttpResult ConnectAny(const Url& to, Limits* limits);
  HttpFailure Connect(const Tcp::endpoint& endpoint, bool is_last, Limits* limits,
                      ErrorCode* error);
  HttpResult Tunnel(Limits* limits);
  HttpResult Handshake(Limits* limits, bool insecure);
  boost::beast::http::request<boost::beast::http::empty_body> HeadOf(
      const HttpRequest& request) const;

  const Url origin_;
  const std::optional<Url> proxy_;
  boost::asio::ssl::context* const tls_context_;
  Operations operations_;
  Tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<Tcp::socket&>> tls_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace penstock::net
