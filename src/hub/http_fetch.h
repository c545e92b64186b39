// HTTP for the hub: small requests into memory, large ones into a file with resume. One object
// per thread; calls block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"

namespace penstock::hub {

struct HttpFetchOptions {
  // Sent as a bearer token to the first host only, not where it redirects, and over https only;
  // over http to this machine itself (127.0.0.1, ::1, localhost) alone.
  std::string token;
  int connect_timeout_ms = 10'000;
  int request_timeout_ms = 60'000;  // of requests into memory
  int stall_timeout_s = 30;         // a download that brings under 1 kB/s for so long is given up
  int attempts_max = 5;
  int backoff_ms = 500;  // before the second attempt; doubles with each, at most 30 s
  // Asked several times a second, also while nothing comes; true gives a request up (kCancelled).
  std::function<bool()> cancelled;
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of the last reply
  std::string body;
};

class HttpFetch {
 public:
  static constexpr size_t kRedirectsMax = 5;
  // Largest download of unknown length.
  static constexpr uint64_t kUnknownLengthBytesMax = uint64_t{256} << 20;

  explicit HttpFetch(HttpFetchOptions options);
  ~HttpFetch();

  // Follows redirects, but not from https to http. Any status is a reply; kUnavailable: the host
  // did not answer, named in the message; kPayloadTooLarge: more than bytes_max.
  Expected<HttpReply> Get(const std::string& url, size_t bytes_max);
  // HEAD; follows redirects only within the host, as the hub describes a large file in the redirect
  // itself.
  Expected<HttpReply> Head(const std::string& url);

  // Called with the bytes in the file so far, resumed ones included; false gives up (kCancelled).
  using Progress = std::function<bool(uint64_t bytes_done)>;
  // Downloads into `path`, going on where an earlier download stopped. When it returns OK the file
  // has bytes_total bytes (0 = whatever came, up to `unknown_bytes_max`; kPayloadTooLarge, as soon
  // as more comes). Retries transient failures: lost connections, 408, 429, 500, 502, 503, 504.
  // On failure the received bytes stay in the file, unless they are too many.
  Status Download(const std::string& url, const std::string& path, uint64_t bytes_total,
                  const Progress& progress, uint64_t unknown_bytes_max = kUnknownLengthBytesMax);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "host:port" or "host" of a URL.
std::string HostOf(const std::string& url);
// Whether a token may go there: https, or this machine.
bool MayCarryToken(const std::string& url);
// Milliseconds a header Retry-After asks for, in seconds; 0 for a date or any other text, and never
// more than an hour.
int RetryAfterMs(const std::string& header);
// Percent-encodes all but unreserved characters and '/'.
std::string EncodePath(const std::string& path);

}  // namespace penstock::hub
