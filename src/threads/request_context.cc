#include "threads/request_context.h"

#include "log/exception_status.h"

namespace penstock {

Status RequestContext::CheckWanted(Clock::time_point now, const char* message) const noexcept {
  switch (cancel == nullptr ? CancelToken::Cause::kNone : cancel->cause()) {
    case CancelToken::Cause::kClientLeft:
      return MakeStatus(StatusCode::kCancelled, "the client left");
    case CancelToken::Cause::kShutdown:
      return MakeStatus(StatusCode::kUnavailable, "the server is shutting down");
    case CancelToken::Cause::kNone:
      break;
  }
  if (deadline <= now) return MakeStatus(StatusCode::kDeadlineExceeded, message);
  return Status::Ok();
}

}  // namespace penstock
