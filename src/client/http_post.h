// POST to one server over connections that are kept. Any thread may call; each call in progress
// has a connection of its own. Hides libcurl.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace penstock {

struct PostAnswer {
  int status = 0;
  int retry_after_s = 0;  // of the header, in seconds, kRetryAfterMaxS at most; 0: none
  std::string body;
};

class HttpPost {
 public:
  static constexpr size_t kAnswerBytesMax = 256 << 20;
  static constexpr int kRetryAfterMaxS = 60;

  // `timeout_ms`: of a whole exchange.
  HttpPost(int connect_timeout_ms, int timeout_ms);
  ~HttpPost();

  // Any HTTP status is an answer. kUnavailable: no connection, or it was lost; kInvalidArgument:
  // the URL or its certificate is no good; kPayloadTooLarge: more than kAnswerBytesMax.
  Expected<PostAnswer> Post(const std::string& url, const std::vector<std::string>& headers,
                            const std::string& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
