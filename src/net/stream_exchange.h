// One request and its answer on a stream of Boost.Asio: a socket, TLS on it, or bytes in memory,
// which the fuzz target has. Includes Boost: for the files of net/ and for that target alone.
#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http_client.h"
#include "net/limits.h"

namespace penstock::net {

using ErrorCode = boost::system::error_code;

// Runs one operation after the other, each within the limits.
class Operations {
 public:
  // How soon a cancelled exchange ends.
  static constexpr std::chrono::milliseconds kPoll{100};

  // `stop` ends the operation under way: it comes back with an error.
  explicit Operations(std::function<void()> stop) : stop_(std::move(stop)) {}

  boost::asio::io_context& context() { return context_; }

  // Runs what `start` begins, which calls its argument at the end.
  template <typename Start>
  HttpFailure Do(Limits* limits, ErrorCode* error, Start&& start) {
    bool done = false;
    context_.restart();
    start([&](const ErrorCode& result, auto&&...) {
      *error = result;
      done = true;
    });
    while (!done) {
      context_.run_one_for(kPoll);
      if (done) break;
      if (const HttpFailure failure = limits->Check(); failure != HttpFailure::kNone) {
        stop_();
        context_.restart();
        context_.run();
        return failure;
      }
      if (context_.stopped()) context_.restart();
    }
    return HttpFailure::kNone;
  }

 private:
  const std::function<void()> stop_;
  boost::asio::io_context context_;
};

// How far an exchange came.
struct ExchangeState {
  bool began_answer = false;  // any byte of it
  bool keeps = false;         // another request may follow on the stream
};

inline std::string WhyOf(HttpFailure failure, const std::string& otherwise) {
  if (failure == HttpFailure::kTimeout) return "it took too long";
  return failure == HttpFailure::kCancelled ? "stopped" : otherwise;
}

// `failure` of Operations::Do; kNone: the operation came back with `error`.
inline HttpResult Broken(const Url& url, HttpFailure failure, const ErrorCode& error) {
  if (failure != HttpFailure::kNone) return Failed(failure, url, WhyOf(failure, ""));
  return Failed(HttpFailure::kBroken, url, "the connection broke: " + error.message());
}

template <typename Stream>
class StreamExchange {
 public:
  using Head = boost::beast::http::request<boost::beast::http::empty_body>;

  // All of them outlive it. `buffer` keeps what was read too far.
  StreamExchange(Operations* operations, Stream* stream, boost::beast::flat_buffer* buffer,
                 Limits* limits)
      : operations_(*operations), stream_(*stream), buffer_(*buffer), limits_(*limits) {}

  // `head` is that of `request`, as it is sent.
  HttpResult Run(Head* head, const HttpRequest& request, const HttpSink& sink,
                 ExchangeState* state) {
    ErrorCode error;
    if (const HttpFailure failure = Send(head, request, &error); failure != HttpFailure::kNone) {
      return Broken(request.url, failure, error);
    }
    // A server may answer, and close, before it has read all of a body: what it says is read.
    const ErrorCode write_error = error;
    HttpFailure failure = HttpFailure::kNone;
    // Heads with 1xx come before the answer's.
    for (int heads = 0; heads == 0 || parser_->get().result_int() / 100 == 1; ++heads) {
      if (heads > HttpClient::kInterimHeadsMax) {
        return Failed(HttpFailure::kBroken, request.url, "it answers 1xx without end");
      }
      parser_.emplace();
      parser_->header_limit(HttpClient::kHeadBytesMax);
      parser_->body_limit(std::numeric_limits<uint64_t>::max());
      parser_->skip(request.method == "HEAD");
      failure = operations_.Do(&limits_, &error, [&](auto done) {
        boost::beast::http::async_read_header(stream_, buffer_, *parser_, done);
      });
      state->began_answer |= parser_->got_some();
      if (failure != HttpFailure::kNone || error) {
        return Broken(request.url, failure, write_error ? write_error : error);
      }
    }
    if (sink.on_head) {
      if (Status status = sink.on_head(ReadHead()); !status.ok()) {
        return {HttpFailure::kSink, std::move(status)};
      }
    }
    HttpResult result = ReadBody(request.url, sink);
    state->keeps = result.ok() && parser_->keep_alive() && !write_error && buffer_.size() == 0;
    return result;
  }

 private:
  static constexpr size_t kReceiveBytes = 64 << 10;
  // The shortest last chunk; Boost 1.74 asserts that it sees no less of one that it saw a part of.
  static constexpr size_t kLastChunkBytes = 5;

  HttpFailure Send(Head* head, const HttpRequest& request, ErrorCode* error) {
    boost::beast::http::request_serializer<boost::beast::http::empty_body> serializer(*head);
    const HttpFailure failure = operations_.Do(&limits_, error, [&](auto done) {
      boost::beast::http::async_write_header(stream_, serializer, done);
    });
    if (failure != HttpFailure::kNone || *error || request.body == nullptr) return failure;
    return operations_.Do(&limits_, error, [&](auto done) {
      boost::asio::async_write(stream_, boost::asio::buffer(*request.body), done);
    });
  }

  HttpHead ReadHead() const {
    HttpHead head;
    head.status = static_cast<int>(parser_->get().result_int());
    for (const auto& field : parser_->get()) {
      std::string name(field.name_string());
      std::ranges::transform(name, name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      });
      head.headers[name] = std::string(field.value());
    }
    return head;
  }

  // A body without a length ends with the connection. By TLS its end has to be said (close_notify):
  // else whoever can cut the connection could pass a part of it off as the whole.
  HttpResult ReadBody(const Url& url, const HttpSink& sink) {
    std::vector<char> piece(parser_->is_done() ? 0 : kReceiveBytes);
    size_t least = 1;  // bytes for the parser to go on with
    while (!parser_->is_done()) {
      ErrorCode error;
      HttpFailure failure = HttpFailure::kNone;
      bool ended = false;
      while (failure == HttpFailure::kNone && !error && !ended && buffer_.size() < least) {
        failure = Receive(&error, &ended);
      }
      if (failure != HttpFailure::kNone || error) return Broken(url, failure, error);
      auto& body = parser_->get().body();
      body.data = piece.data();
      body.size = piece.size();
      if (buffer_.size() < least) {
        parser_->put_eof(error);
      } else {
        buffer_.consume(parser_->put(buffer_.cdata(), error));
      }
      least = 1;
      if (error == boost::beast::http::error::need_more) {
        // The line of a chunk, or the trailers.
        if (buffer_.size() > HttpClient::kHeadBytesMax) {
          return Failed(HttpFailure::kBroken, url, "a chunk's line or the trailers are too long");
        }
        least = std::max(kLastChunkBytes, buffer_.size() + 1);
        error = {};
      }
      if (error == boost::beast::http::error::need_buffer) error = {};
      if (const size_t got = piece.size() - body.size; got > 0) {
        limits_.Received(got);
        if (Status status = sink.on_body(std::string_view(piece.data(), got)); !status.ok()) {
          return {HttpFailure::kSink, std::move(status)};
        }
      }
      // Pieces that come one by one leave no time in which it is looked otherwise.
      failure = limits_.Check();
      if (failure != HttpFailure::kNone || error) return Broken(url, failure, error);
    }
    return {};
  }

  // Bytes into the buffer. `ended`: there are no more.
  HttpFailure Receive(ErrorCode* error, bool* ended) {
    size_t bytes = 0;
    const HttpFailure failure = operations_.Do(&limits_, error, [&](auto done) {
      stream_.async_read_some(buffer_.prepare(kReceiveBytes),
                              [&bytes, done](const ErrorCode& result, size_t got) mutable {
                                bytes = got;
                                done(result);
                              });
    });
    buffer_.commit(bytes);
    *ended = *error == boost::asio::error::eof;
    if (*ended) *error = {};
    return failure;
  }

  Operations& operations_;
  Stream& stream_;
  boost::beast::flat_buffer& buffer_;
  Limits& limits_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::buffer_body>> parser_;
};

}  // namespace penstock::net
