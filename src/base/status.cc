#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kUnauthenticated:
      return "unauthenticated";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kPayloadTooLarge:
      return "payload_too_large";
    case StatusCode::kUnprocessable:
      return "unprocessable";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Status Status::Annotate(const std::string& context) const {
  if (ok()) return *this;
  Status out = *this;
  out.message_ = context + ": " + message_;
  return out;
}

std::string Status::ToString() const {
  std::string out = StatusCodeName(code_);
  if (!message_.empty()) out += ": " + message_;
  if (!field_.empty()) out += " (" + field_ + ")";
  return out;
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace penstock
