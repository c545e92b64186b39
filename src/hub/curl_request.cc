#include "hub/curl_request.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "common/log.h"

namespace penstock::hub {
namespace {

constexpr size_t kHeaderBytesMax = 1 << 16;
constexpr int kBackoffMsMax = 30'000;
constexpr int kWaitPollMs = 100;

size_t OnHeader(char* data, size_t, size_t bytes, void* user) {
  auto& transfer = *static_cast<CurlReply*>(user);
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

// curl calls it about once a second while nothing comes, more often otherwise.
int OnTick(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const CurlRequest*>(user)->IsCancelled() ? 1 : 0;
}

bool NotReached(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT;
}

}  // namespace

CurlRequest::CurlRequest(HttpFetchOptions options) : options_(std::move(options)) {}

CurlRequest::~CurlRequest() {
  if (headers_ != nullptr) Curl().slist_free_all(headers_);
}

Status CurlRequest::Open() {
  PENSTOCK_RETURN_IF_ERROR(LoadCurl());
  if (!options_.token.empty() && headers_ == nullptr) {
    // curl does not carry a header of this name to another host when it follows a redirect.
    const std::string header = "Authorization: Bearer " + options_.token;
    headers_ = Curl().slist_append(nullptr, header.c_str());
  }
  return Status::Ok();
}

void CurlRequest::Prepare(CURL* curl, const std::string& url, CurlReply* reply, char* error) {
  Curl().easy_reset(curl);
  error[0] = '\0';
  Curl().easy_setopt(curl, CURLOPT_URL, url.c_str());
  Curl().easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  Curl().easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  Curl().easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  const bool https = url.starts_with("https://");
  Curl().easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
  Curl().easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(HttpFetch::kRedirectsMax));
  Curl().easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options_.connect_timeout_ms));
  Curl().easy_setopt(curl, CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
  if (MayCarryToken(url)) {
    Curl().easy_setopt(curl, CURLOPT_HTTPHEADER, headers_);
  } else if (headers_ != nullptr && !std::exchange(told_of_token_, true)) {
    LogWarn("the token is not sent to {}, which is not https", HostOf(url));
  }
  if (options_.cancelled) {
    Curl().easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    Curl().easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnTick);
    Curl().easy_setopt(curl, CURLOPT_XFERINFODATA, this);
  }
  Curl().easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  Curl().easy_setopt(curl, CURLOPT_HEADERDATA, reply);
}

void CurlRequest::LimitStall(CURL* curl) const {
  Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
  Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_timeout_s));
}

int CurlRequest::WaitMs(int attempt, int at_least_ms) const {
  const int doubled = options_.backoff_ms << std::min(attempt, 10);
  return std::min(std::max(doubled, at_least_ms), kBackoffMsMax);
}

bool CurlRequest::Wait(int attempt, int at_least_ms) const {
  for (int left = WaitMs(attempt, at_least_ms); left > 0; left -= kWaitPollMs) {
    if (IsCancelled()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(left, kWaitPollMs)));
  }
  return true;
}

bool CurlRequest::TryAgain(int attempt, CURLcode code) const {
  // The hub speaks TLS, so a handshake that fails was cut.
  if (code != CURLE_OK && code != CURLE_SSL_CONNECT_ERROR && !penstock::MayPass(code)) return false;
  return attempt + 1 <
         (NotReached(code) ? std::min(2, options_.attempts_max) : options_.attempts_max);
}

bool MayPass(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

Status NoAnswer(const std::string& url, CURLcode code, const char* detail) {
  const std::string why = detail[0] != '\0' ? detail : Curl().easy_strerror(code);
  return Status(StatusCode::kUnavailable, "no answer from " + HostOf(url) + ": " + why);
}

Status BadStatus(const std::string& url, const HttpReply& reply) {
  std::string text = HostOf(url) + " answered " + std::to_string(reply.status) + " for " + url;
  if (reply.status == 429) {
    const int seconds = RetryAfterMsOf(reply) / 1000;
    text += ": too many requests; try again ";
    text += seconds > 0 ? "in " + std::to_string(seconds) + " s" : "later";
  }
  return Status(StatusCode::kUnavailable, std::move(text));
}

int RetryAfterMsOf(const HttpReply& reply) {
  const auto header = reply.headers.find("retry-after");
  return header == reply.headers.end() ? 0 : RetryAfterMs(header->second);
}

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

}  // namespace penstock::hub
