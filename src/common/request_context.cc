#include "common/request_context.h"

#include "common/exception_status.h"

namespace penstock {

Status RequestContext::CheckWanted(Clock::time_point now, const char* message) const noexcept {
  if (cancelled()) return MakeStatus(StatusCode::kCancelled, "the client left");
  if (deadline <= now) return MakeStatus(StatusCode::kDeadlineExceeded, message);
  return Status::Ok();
}

}  // namespace penstock
