// HTTP/1.1 as a client: one exchange at a time over connections that are kept, plain or by TLS,
// directly or by a proxy (net/proxy.h). Calls block. Hides Boost and OpenSSL.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "net/url.h"

namespace penstock::net {

struct HttpClientOptions {
  int connect_timeout_ms = 10'000;  // of name, connection and handshake together
  std::string ca_file;              // PEM; "": SSL_CERT_FILE, SSL_CERT_DIR, else the system's
  bool insecure = false;            // certificates are not checked
};

struct HttpRequest {
  std::string method = "GET";
  Url url;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Host and Content-Length
  const std::string* body = nullptr;                         // null: none; outlives the call
  int timeout_ms = 0;                                        // of the whole exchange; 0: none
  // An exchange that brings fewer than `stall_bytes` a second on average over `stall_s` is given up;
  // 0: it is not.
  uint64_t stall_bytes = 0;
  int stall_s = 0;
  // Asked several times a second, also while nothing comes; true gives the exchange up.
  std::function<bool()> cancelled;
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of several the last
};

// Where an answer goes. Either may end the exchange by an error.
struct HttpSink {
  std::function<Status(const HttpHead&)> on_head;   // may be empty
  std::function<Status(std::string_view)> on_body;  // piece by piece
};

// Why there is no whole answer.
enum class HttpFailure {
  kNone,
  kNotReached,  // no address, or no connection
  kBroken,      // the connection ended, or what came is not HTTP
  kTimeout,
  kCertificate,  // it is not what the host should have
  kTls,          // another failure of TLS
  kCancelled,
  kSink,     // the sink ended it
  kRefused,  // the proxy, the settings or the request itself do not allow it
};
struct HttpResult {
  HttpFailure failure = HttpFailure::kNone;
  Status status;  // where failed: what a person reads; of kSink the sink's
  bool ok() const { return failure == HttpFailure::kNone; }
  // Whether it may pass by itself, so that the request is sent again.
  bool may_pass() const {
    return failure == HttpFailure::kNotReached || failure == HttpFailure::kBroken ||
           failure == HttpFailure::kTimeout;
  }
};

// One thread at a time.
class HttpClient {
 public:
  static constexpr size_t kHeadBytesMax = 1 << 16;
  static constexpr int kInterimHeadsMax = 16;  // 1xx before an answer

  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One request and its answer. Where a connection that was kept ends before a byte of the answer
  // came, the request is sent once more, on a new one. Redirects are answers.
  HttpResult Exchange(const HttpRequest& request, const HttpSink& sink);
  // The same, following up to `redirects` of a GET or HEAD: not from https to http. Headers named
  // Authorization or Cookie go to the first origin alone. The sink sees the last answer; kRefused:
  // more redirects, or one that leads nowhere.
  HttpResult Follow(HttpRequest request, size_t redirects, const HttpSink& sink);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::net
