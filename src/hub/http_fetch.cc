#include "hub/http_fetch.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "common/log.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeaderBytesMax = 1 << 16;
constexpr int kBackoffMsMax = 30'000;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The results of one transfer; lives on the stack of the call, curl's callbacks fill it.
struct Transfer {
  CURL* curl = nullptr;
  HttpReply reply;
  size_t header_bytes = 0;
  size_t body_bytes_max = 0;
  bool too_large = false;
  // Downloads only:
  std::FILE* file = nullptr;
  uint64_t resume_from = 0;
  uint64_t bytes_written = 0;  // in the file, resumed ones included
  uint64_t bytes_max = 0;      // of the file
  bool started = false;
  std::string write_error;
  const HttpFetch::Progress* progress = nullptr;
  bool cancelled = false;
};

size_t OnHeader(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, bytes);
  // Each hop of a redirect begins with a status line; only the last one's headers count.
  if (line.starts_with("HTTP/")) transfer.reply.headers.clear();
  transfer.header_bytes += bytes;
  if (transfer.header_bytes > kHeaderBytesMax) return 0;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  std::string_view value = line.substr(colon + 1);
  const size_t begin = value.find_first_not_of(" \t\r\n");
  const size_t end = value.find_last_not_of(" \t\r\n");
  transfer.reply.headers[name] =
      begin == std::string_view::npos ? "" : std::string(value.substr(begin, end - begin + 1));
  return bytes;
}

size_t OnBody(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.reply.body.size() + bytes > transfer.body_bytes_max) {
    transfer.too_large = true;
    return 0;
  }
  transfer.reply.body.append(data, bytes);
  return bytes;
}

// Prepares the file for the server's choice of body: the rest (206), or all of it (200).
bool StartFile(Transfer& transfer) {
  transfer.started = true;
  if (transfer.reply.status == 206) {
    const auto range = transfer.reply.headers.find("content-range");
    const std::string wanted = "bytes " + std::to_string(transfer.resume_from) + "-";
    if (range == transfer.reply.headers.end() || !range->second.starts_with(wanted)) {
      transfer.write_error = "the server sent another range than asked for";
      return false;
    }
    return true;
  }
  transfer.bytes_written = 0;
  if (std::fseek(transfer.file, 0, SEEK_SET) != 0 || ::ftruncate(::fileno(transfer.file), 0) != 0) {
    transfer.write_error = std::strerror(errno);
    return false;
  }
  return true;
}

size_t OnFileBody(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.started) {
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    if (status != 200 && status != 206) return bytes;  // an error's text is of no use here
    if (!StartFile(transfer)) return 0;
  }
  if (bytes > transfer.bytes_max - std::min(transfer.bytes_written, transfer.bytes_max)) {
    transfer.too_large = true;
    return 0;
  }
  if (std::fwrite(data, 1, bytes, transfer.file) != bytes) {
    transfer.write_error = std::strerror(errno);
    return 0;
  }
  transfer.bytes_written += bytes;
  if (*transfer.progress && !(*transfer.progress)(transfer.bytes_written)) {
    transfer.cancelled = true;
    return 0;
  }
  return bytes;
}

bool MayPass(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

// Whether a network failure may be transient. Others repeat: a scheme that is not allowed,
// redirects in a circle, a bad certificate.
bool MayPass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_AGAIN:
      return true;
    default:
      return false;
  }
}

bool NotReached(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT;
}

Status NoAnswer(const std::string& url, CURLcode code, const char* detail) {
  const std::string why = detail[0] != '\0' ? detail : curl_easy_strerror(code);
  return Status(StatusCode::kUnavailable, "no answer from " + HostOf(url) + ": " + why);
}

// 0 where the server gave none.
int RetryAfterMsOf(const HttpReply& reply) {
  const auto header = reply.headers.find("retry-after");
  return header == reply.headers.end() ? 0 : RetryAfterMs(header->second);
}

}  // namespace

int RetryAfterMs(const std::string& header) {
  constexpr uint64_t kSecondsMax = 3600;
  uint64_t seconds = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), seconds);
  if (end != header.data() + header.size()) return 0;
  if (error == std::errc::result_out_of_range) seconds = kSecondsMax;
  return static_cast<int>(std::min(seconds, kSecondsMax)) * 1000;
}

bool MayCarryToken(const std::string& url) {
  if (url.starts_with("https://")) return true;
  std::string host = HostOf(url);
  // "user@" before it would make it another host.
  if (host.find('@') != std::string::npos) return false;
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.find(':'));
  return host == "127.0.0.1" || host == "localhost";
}

std::string HostOf(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  return url.substr(begin, url.find_first_of("/?#", begin) - begin);
}

std::string EncodePath(const std::string& path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        std::strchr("-_.~/", c) != nullptr) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

struct HttpFetch::Impl {
  HttpFetchOptions options;
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
  char error[CURL_ERROR_SIZE] = {};
  bool told_of_token = false;

  // Settings of every request; the handle keeps its connections from one to the next.
  void Prepare(const std::string& url, Transfer& transfer) {
    curl_easy_reset(curl);
    error[0] = '\0';
    transfer.curl = curl;
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    const bool https = url.starts_with("https://");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(kRedirectsMax));
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options.connect_timeout_ms));
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
    if (MayCarryToken(url)) {
      curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    } else if (headers != nullptr && !std::exchange(told_of_token, true)) {
      LogWarn("the token is not sent to {}, which is not https", HostOf(url));
    }
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  }

  CURLcode Perform(Transfer& transfer) {
    const CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    return code;
  }

  void Wait(int attempt, int at_least_ms) const {
    const int doubled = options.backoff_ms << std::min(attempt, 10);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(std::max(doubled, at_least_ms), kBackoffMsMax)));
  }

  // Whether to try again after attempt number `attempt` (from 0). A host that cannot be reached at
  // all gets a second chance only: without a network the answer should come soon.
  bool TryAgain(int attempt, CURLcode code) const {
    if (code != CURLE_OK && !MayPass(code)) return false;
    return attempt + 1 <
           (NotReached(code) ? std::min(2, options.attempts_max) : options.attempts_max);
  }

  Expected<HttpReply> Small(const std::string& url, size_t bytes_max, bool head) {
    for (int attempt = 0;; ++attempt) {
      Transfer transfer;
      transfer.body_bytes_max = bytes_max;
      Prepare(url, transfer);
      curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options.request_timeout_ms));
      curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, head ? 0L : 1L);
      curl_easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
      curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
      const CURLcode code = Perform(transfer);
      if (transfer.too_large) {
        return Status(StatusCode::kPayloadTooLarge, "the reply to " + url + " is larger than " +
                                                        std::to_string(bytes_max) + " bytes");
      }
      if (code == CURLE_OK && !MayPass(transfer.reply.status)) return std::move(transfer.reply);
      if (!TryAgain(attempt, code)) {
        if (code != CURLE_OK) return NoAnswer(url, code, error);
        return std::move(transfer.reply);
      }
      Wait(attempt, RetryAfterMsOf(transfer.reply));
    }
  }

  // One attempt at the rest of a file. `again` says whether another may help.
  Status Part(const std::string& url, const std::string& path, uint64_t bytes_total,
              const Progress& progress, uint64_t unknown_bytes_max, bool* again, int* wait_ms,
              CURLcode* code) {
    *again = false;
    const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "ab"));
    if (!file) {
      return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
    }
    std::error_code ignored;
    Transfer transfer;
    transfer.file = file.get();
    transfer.resume_from = transfer.bytes_written = fs::file_size(path, ignored);
    transfer.progress = &progress;
    transfer.bytes_max = bytes_total > 0 ? bytes_total : unknown_bytes_max;
    if (bytes_total > 0 && transfer.resume_from == bytes_total) return Status::Ok();
    if (bytes_total > 0 && transfer.resume_from > bytes_total) {
      *again = ::ftruncate(::fileno(file.get()), 0) == 0;
      return Status::Internal(path + " was longer than the file on the hub");
    }
    Prepare(url, transfer);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout_s));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnFileBody);
    const std::string range = std::to_string(transfer.resume_from) + "-";
    if (transfer.resume_from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    *code = Perform(transfer);
    if (transfer.too_large) {
      std::fflush(file.get());
      (void)!::ftruncate(::fileno(file.get()), 0);
      return Status(StatusCode::kPayloadTooLarge,
                    HostOf(url) + " sent more than " + std::to_string(transfer.bytes_max) +
                        " bytes of " + url +
                        (bytes_total > 0 ? ", which is its length"
                                         : ", the most of a file whose length it does not say"));
    }
    if (transfer.cancelled) return Status(StatusCode::kCancelled, "download given up");
    if (!transfer.write_error.empty()) {
      return Status::Internal("cannot write " + path + ": " + transfer.write_error);
    }
    if (std::fflush(file.get()) != 0) {
      return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
    }
    return Verdict(url, path, bytes_total, transfer, again, wait_ms, *code);
  }

  Status Verdict(const std::string& url, const std::string& path, uint64_t bytes_total,
                 const Transfer& transfer, bool* again, int* wait_ms, CURLcode code) {
    const int status = transfer.reply.status;
    if (code != CURLE_OK) {
      *again = true;
      return NoAnswer(url, code, error);
    }
    if (status == 416) {  // nothing there from where the file stands: it is not the same file
      *again = transfer.resume_from > 0 && ::truncate(path.c_str(), 0) == 0;
    } else if (MayPass(status)) {
      *again = true;
      *wait_ms = RetryAfterMsOf(transfer.reply);
    } else if (status == 200 || status == 206) {
      if (bytes_total == 0 || transfer.bytes_written == bytes_total) return Status::Ok();
      *again = true;
      return Status(StatusCode::kUnavailable, HostOf(url) + " sent " +
                                                  std::to_string(transfer.bytes_written) + " of " +
                                                  std::to_string(bytes_total) + " bytes of " + url);
    }
    return Status(StatusCode::kUnavailable,
                  HostOf(url) + " answered " + std::to_string(status) + " for " + url);
  }
};

HttpFetch::HttpFetch(HttpFetchOptions options) : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->options = std::move(options);
  impl_->curl = curl_easy_init();
  PENSTOCK_CHECK(impl_->curl != nullptr);
  if (!impl_->options.token.empty()) {
    // curl does not carry a header of this name to another host when it follows a redirect.
    const std::string header = "Authorization: Bearer " + impl_->options.token;
    impl_->headers = curl_slist_append(nullptr, header.c_str());
  }
}

HttpFetch::~HttpFetch() {
  curl_easy_cleanup(impl_->curl);
  curl_slist_free_all(impl_->headers);
}

Expected<HttpReply> HttpFetch::Get(const std::string& url, size_t bytes_max) {
  return impl_->Small(url, bytes_max, /*head=*/false);
}

Expected<HttpReply> HttpFetch::Head(const std::string& url) {
  std::string at = url;
  for (size_t hop = 0; hop <= kRedirectsMax; ++hop) {
    auto reply = impl_->Small(at, 1 << 16, /*head=*/true);
    if (!reply.ok()) return reply;
    const auto location = reply->headers.find("location");
    const bool redirect = reply->status >= 300 && reply->status < 400 &&
                          location != reply->headers.end() && location->second.starts_with("/") &&
                          !location->second.starts_with("//");
    if (!redirect) return reply;
    at = at.substr(0, at.find("://") + 3) + HostOf(at) + location->second;
  }
  return Status(StatusCode::kUnavailable, HostOf(url) + " redirects " + url + " in a circle");
}

Status HttpFetch::Download(const std::string& url, const std::string& path, uint64_t bytes_total,
                           const Progress& progress, uint64_t unknown_bytes_max) {
  uint64_t bytes_before = 0;
  for (int attempt = 0;; ++attempt) {
    bool again = false;
    int wait_ms = 0;
    CURLcode code = CURLE_OK;
    Status status =
        impl_->Part(url, path, bytes_total, progress, unknown_bytes_max, &again, &wait_ms, &code);
    // Attempts that receive bytes do not count against a long download.
    std::error_code ignored;
    const uint64_t bytes = fs::file_size(path, ignored);
    if (!ignored && bytes > bytes_before) attempt = 0;
    bytes_before = ignored ? 0 : bytes;
    if (status.ok() || !again || !impl_->TryAgain(attempt, code)) return status;
    impl_->Wait(attempt, wait_ms);
  }
}

}  // namespace penstock
