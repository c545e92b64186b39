#include "hub/hub_request.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "log/log.h"

namespace penstock::hub {
namespace {

constexpr int kBackoffMsMax = 30'000;
constexpr int kWaitPollMs = 100;
constexpr uint64_t kStallBytes = 1000;  // a second

}  // namespace

Expected<net::HttpRequest> HubRequest::To(const std::string& url) const {
  net::HttpRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.url, net::ParseUrl(url));
  request.cancelled = options_.cancelled;
  if (options_.token.empty()) return request;
  if (MayCarryToken(url)) {
    request.headers.emplace_back("Authorization", "Bearer " + options_.token);
  } else if (!told_of_token_.exchange(true)) {
    LogWarn("the token is not sent to {}, which is not https", HostOf(url));
  }
  return request;
}

void HubRequest::LimitStall(net::HttpRequest* request) const {
  request->stall_bytes = kStallBytes;
  request->stall_s = options_.stall_timeout_s;
}

int HubRequest::WaitMs(int attempt, int at_least_ms) const {
  const int doubled = options_.backoff_ms << std::min(attempt, 10);
  return std::min(std::max(doubled, at_least_ms), kBackoffMsMax);
}

bool HubRequest::Wait(int attempt, int at_least_ms) const {
  for (int left = WaitMs(attempt, at_least_ms); left > 0; left -= kWaitPollMs) {
    if (IsCancelled()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(left, kWaitPollMs)));
  }
  return true;
}

bool HubRequest::TryAgain(int attempt, const net::HttpResult& result) const {
  // The hub speaks TLS, so a handshake that fails was cut.
  if (!result.ok() && result.failure != net::HttpFailure::kTls && !result.may_pass()) return false;
  const bool not_reached = result.failure == net::HttpFailure::kNotReached;
  return attempt + 1 < (not_reached ? std::min(2, options_.attempts_max) : options_.attempts_max);
}

bool MayPass(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

Status NoAnswer(const net::HttpResult& result) {
  return Status(StatusCode::kUnavailable, "no answer from " + result.status.message());
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
