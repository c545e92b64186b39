// The interface between the connection layer (listener, connection) and the routes. It has no
// sockets and no Boost, so routes are compiled and tested without them.
//
// A request is owned by its connection and shared with the handler through a shared_ptr; it does
// not change after OnRequest. Each call of HttpHandler comes from the connection's io thread and
// must not block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "threads/request_context.h"

namespace penstock::http {

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string target;  // as sent: "/v1/models/a%2Fb?x=1"
  std::string path;    // target without the query, percent-decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string host;       // of an absolute target, else of Host; see HostOf; "" = none was sent
  size_t body_bytes = 0;  // of the body that came with it
  // Headers added to every answer to this request.
  std::vector<std::pair<std::string, std::string>> response_headers;
  std::string id;           // X-Request-Id, the client's or a generated one
  std::string remote;       // "127.0.0.1:51234"
  int32_t key_number = 0;   // of the API key, see KeyRights; 0 = none was needed or known
  int32_t route = -1;       // index into the route table; -1 = none
  Clock::time_point begin;  // first byte read
  // Deadline of the first part of a streamed answer.
  Clock::time_point start_deadline = Clock::time_point::max();
  RequestContext context;

  // The first header of that name (lower case), or "".
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  const char* content_type = "application/json";
  std::string body;
  // Besides Content-Length, Content-Type, Connection, Date and X-Request-Id, which the connection
  // writes. Values hold no line breaks.
  std::vector<std::pair<std::string, std::string>> headers;
  // For a stream (Responder::Begin): sent each time nothing was sent for `idle_after`, so that
  // neither client nor proxy takes a silent stream for a dead one. 0: never.
  std::string idle_text;
  std::chrono::milliseconds idle_after{0};
};

class Stream;  // http/stream.h

// The path of one answer to its connection, for Responder.
class Exchange {
 public:
  using Print = std::function<HttpResponse()>;
  virtual ~Exchange() = default;
  // Only the first call counts; an empty `print`: the request was lost. Any thread.
  virtual void Post(Print print) noexcept = 0;
  // As Responder::Begin.
  virtual std::unique_ptr<Stream> Begin(HttpResponse head, std::function<void()> ready) = 0;
};

// Sends the answer to the connection. Copies share one answer; any thread may use them, also after
// the connection has closed. Only the first answer counts. If the last copy is destroyed without an
// answer, an exception has lost the request, and the connection answers it.
class Responder {
 public:
  using Print = Exchange::Print;
  explicit Responder(std::shared_ptr<Exchange> exchange)
      : exchange_(exchange.get(), [exchange](Exchange*) { exchange->Post(nullptr); }) {}

  // Runs `print` on the connection's io thread, unless the client has left, and sends the result,
  // so that printing does not hold up a model's thread. The caller or a worker prints answers that
  // take longer than a millisecond.
  void Send(Print print) const { exchange_->Post(std::move(print)); }
  void Send(HttpResponse response) const {
    // std::function wants copyable captures.
    auto shared = std::make_shared<HttpResponse>(std::move(response));
    Send([shared] { return std::move(*shared); });
  }
  // Sends status, type and headers now and the body through the stream. `ready` is called on the io
  // thread when there is room (Stream::CallWhenBelow), once when the client is gone, and when the
  // request's deadline has passed, after which a producer has a second to end; it must not block.
  // It is released at the end of the stream. Throws where memory has run out.
  std::unique_ptr<Stream> Begin(HttpResponse head, std::function<void()> ready) const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // The header is complete, the body not read. Sets request->route and the context's deadline. An
  // answer refuses the request (wrong key, no such route, ...) without looking at its body.
  virtual std::optional<HttpResponse> OnHeader(HttpRequest* request) = 0;

  // The request is complete. Answers through `respond`, now or later.
  virtual void OnRequest(std::shared_ptr<const HttpRequest> request, std::string body,
                         Responder respond) = 0;

  // The body for an error the connection found: 400, 408, 413, 429, 431, 500, 503. `request` may be
  // incomplete.
  virtual HttpResponse OnError(const HttpRequest& request, int status,
                               const std::string& message) = 0;

  // The last byte of an answer was handed to the kernel, or the client left (status 499). `items`:
  // items that a stream sent; -1: no stream.
  virtual void OnDone(const HttpRequest& request, int status, size_t body_bytes, int64_t items) = 0;

  // A stream began (+1) or ended (-1); a stream's client was dropped because it did not read.
  virtual void OnStreams(int change) = 0;
  virtual void OnStreamDropped() = 0;

  // Connections opened (+1) and closed (-1); those turned away because of connections_max.
  virtual void OnConnections(int change) = 0;
  virtual void OnConnectionRefused() = 0;
  virtual void OnBytes(size_t received, size_t sent) = 0;
};

// "Not Found"; "Unknown" for a status that Penstock does not use.
const char* ReasonPhrase(int status);

// The target without scheme and host: "/p?q" of "http://host/p?q"; "*" and "/p?q" as they are.
std::string OriginForm(std::string_view target);

// Decodes %XX. False for a broken escape or a NUL.
bool PercentDecode(std::string_view text, std::string* out);

// 1 to 128 letters, digits and any of "-_.:+=/@": safe in a header and in a log line.
bool IsSaneRequestId(std::string_view id);
// 32 hexadecimal digits.
std::string NewRequestId();

}  // namespace penstock::http
