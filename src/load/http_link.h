// HttpLink: one connection of the load generator, plain or TLS. One event loop. Exposes Boost
// types, so only .cc files of the generator include it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::load {

// Certificates are checked as the target says. Null for a target without TLS. kInvalidArgument: its
// ca_file cannot be used.
Expected<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const HttpTarget& target);

// kUnavailable: the host has no address.
Expected<boost::asio::ip::tcp::endpoint> ResolveTarget(const HttpTarget& target,
                                                       boost::asio::io_context* context);
// A missing server, or one with another certificate, would give a table of failures. Runs `context`
// until it knows, and restarts it. kUnavailable: no connection.
Status CheckReachable(const HttpTarget& target, const boost::asio::ip::tcp::endpoint& endpoint,
                      boost::asio::io_context* context, boost::asio::ssl::context* tls);

// Operations keep their link alive, so a link may be dropped during one: that ends with an error.
// One operation at a time.
class HttpLink : public std::enable_shared_from_this<HttpLink> {
 public:
  using ErrorCode = boost::system::error_code;
  using Done = std::function<void(const ErrorCode&)>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;
  static constexpr uint64_t kAnswerBytesMax = uint64_t{1} << 30;

  // `tls`: null = plain; outlives the link.
  HttpLink(boost::asio::io_context* context, boost::asio::ssl::context* tls);

  // `host`: the name that the certificate must have.
  // `receive_buffer`: bytes that the kernel holds for a client that reads slowly; 0 = its choice.
  void Connect(const boost::asio::ip::tcp::endpoint& endpoint, const std::string& host, Done done,
               int receive_buffer = 0);
  void Write(std::string bytes, Done done);
  // A whole answer.
  void Read(Done done);
  // An answer as it comes: ReadPart again and again, until answer_done(). TakeBody: the bytes of
  // the body that have come since the last call.
  void BeginAnswer();
  void ReadPart(Done done);
  bool answer_done() const { return parser_->is_done(); }
  bool has_head() const { return parser_->is_header_done(); }
  std::string TakeBody();
  void Close();
  // The last answer.
  const Response& response() const { return parser_->get(); }
  bool keep_alive() const { return parser_->keep_alive(); }

 private:
  using Tcp = boost::asio::ip::tcp;

  Tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<Tcp::socket&>> tls_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser_;
};

}  // namespace penstock::load
