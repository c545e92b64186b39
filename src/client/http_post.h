// POST and GET to one server over connections that are kept. Any thread may call; each call in
// progress has a connection of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::client {

struct PostAnswer {
  int status = 0;
  int retry_after_s = 0;  // of the header, in seconds, kRetryAfterMaxS at most; 0: none
  std::string body;
};

struct HttpPostOptions {
  int connect_timeout_ms = 10'000;
  int timeout_ms = 600'000;  // of a whole exchange
  std::string ca_file;       // PEM; "": that of SSL_CERT_FILE, else the system's
  bool insecure = false;     // certificates are not checked
};

class HttpPost {
 public:
  static constexpr size_t kAnswerBytesMax = 256 << 20;
  static constexpr int kRetryAfterMaxS = 60;

  explicit HttpPost(HttpPostOptions options);
  ~HttpPost();

  // Any HTTP status is an answer. kUnavailable: no connection, or it was lost; kInvalidArgument:
  // the URL or its certificate is invalid, or there is no TLS; kPayloadTooLarge: more than
  // kAnswerBytesMax; kCancelled: Abort was called.
  Expected<PostAnswer> Post(const std::string& url, const std::vector<std::string>& headers,
                            const std::string& body);
  // An answer with status 200 goes to `on_data` as it comes, and its body stays empty. It may take
  // as long as it likes, but must not be silent for timeout_ms.
  Expected<PostAnswer> PostStream(const std::string& url, const std::vector<std::string>& headers,
                                  const std::string& body,
                                  std::function<void(std::string_view)> on_data);
  Expected<PostAnswer> Get(const std::string& url, const std::vector<std::string>& headers);
  // Ends the exchanges under way, and from now on each that is begun, until Continue.
  void Abort();
  void Continue();

 private:
  struct Impl;
  // A GET without a body. `on_data` may be empty.
  Expected<PostAnswer> Exchange(const std::string& url, const std::vector<std::string>& headers,
                                const std::string* body,
                                std::function<void(std::string_view)> on_data);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::client
