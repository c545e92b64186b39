// When an exchange ends early, and what is said of it then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "net/http_client.h"

namespace penstock::net {

inline HttpResult Failed(HttpFailure failure, const Url& url, const std::string& why) {
  const StatusCode code = failure == HttpFailure::kCancelled     ? StatusCode::kCancelled
                          : failure == HttpFailure::kCertificate ? StatusCode::kInvalidArgument
                                                                 : StatusCode::kUnavailable;
  return {failure, Status(code, url.authority() + ": " + why)};
}

// One exchange, with the connection that is made for it. The request outlives it.
class Limits {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Limits(const HttpRequest& request) : request_(request), began_(Clock::now()) {
    stall_began_ = began_;
  }
  void Received(size_t bytes) { received_ += bytes; }
  // kNone: it goes on.
  HttpFailure Check() {
    if (request_.cancelled && request_.cancelled()) return HttpFailure::kCancelled;
    const auto now = Clock::now();
    if (now > step_end_) return HttpFailure::kTimeout;
    if (request_.timeout_ms > 0 && now - began_ > std::chrono::milliseconds(request_.timeout_ms)) {
      return HttpFailure::kTimeout;
    }
    if (request_.stall_s == 0 || now - stall_began_ < std::chrono::seconds(request_.stall_s)) {
      return HttpFailure::kNone;
    }
    const uint64_t least = request_.stall_bytes * static_cast<uint64_t>(request_.stall_s);
    if (received_ < least) return HttpFailure::kTimeout;
    stall_began_ = now;
    received_ = 0;
    return HttpFailure::kNone;
  }
  // The end of what is done now; max(): none.
  void SetStepEnd(Clock::time_point end) { step_end_ = end; }
  Clock::time_point step_end() const { return step_end_; }

 private:
  const HttpRequest& request_;
  const Clock::time_point began_;
  Clock::time_point stall_began_, step_end_ = Clock::time_point::max();
  uint64_t received_ = 0;
};

}  // namespace penstock::net
