#include "grpc/grpc_status.h"

#include <string_view>

#include "grpc/rpc.h"

namespace penstock {
namespace {

// Clients take 8 KiB of metadata, and a byte that is not ASCII travels as three.
constexpr size_t kMessageBytesMax = 2000;

}  // namespace

GrpcCode GrpcCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return GrpcCode::kOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnprocessable:
      return GrpcCode::kInvalidArgument;
    case StatusCode::kUnauthenticated:
      return GrpcCode::kUnauthenticated;
    case StatusCode::kNotFound:
      return GrpcCode::kNotFound;
    case StatusCode::kPayloadTooLarge:
    case StatusCode::kResourceExhausted:
      return GrpcCode::kResourceExhausted;
    case StatusCode::kUnavailable:
      return GrpcCode::kUnavailable;
    case StatusCode::kDeadlineExceeded:
      return GrpcCode::kDeadlineExceeded;
    case StatusCode::kCancelled:
      return GrpcCode::kCancelled;
    case StatusCode::kUnsupported:
      return GrpcCode::kUnimplemented;
    case StatusCode::kInternal:
      return GrpcCode::kInternal;
  }
  return GrpcCode::kInternal;
}

GrpcStatus ToGrpc(const Status& status) {
  if (status.ok()) return {};
  std::string_view message = status.message();
  if (message.size() > kMessageBytesMax) {
    message = message.substr(0, kMessageBytesMax);
    // Not within a character.
    while (!message.empty() && (message.back() & 0xc0) == 0x80) message.remove_suffix(1);
    if (!message.empty() && (message.back() & 0x80) != 0) message.remove_suffix(1);
  }
  return {GrpcCodeOf(status.code()), std::string(message)};
}

const char* GrpcCodeName(GrpcCode code) {
  constexpr const char* kNames[] = {"OK",
                                    "CANCELLED",
                                    "UNKNOWN",
                                    "INVALID_ARGUMENT",
                                    "DEADLINE_EXCEEDED",
                                    "NOT_FOUND",
                                    "ALREADY_EXISTS",
                                    "PERMISSION_DENIED",
                                    "RESOURCE_EXHAUSTED",
                                    "FAILED_PRECONDITION",
                                    "ABORTED",
                                    "OUT_OF_RANGE",
                                    "UNIMPLEMENTED",
                                    "INTERNAL",
                                    "UNAVAILABLE",
                                    "DATA_LOSS",
                                    "UNAUTHENTICATED"};
  const auto at = static_cast<size_t>(code);
  return at < std::size(kNames) ? kNames[at] : "UNKNOWN";
}

int HttpStatusOfGrpc(GrpcCode code) {
  switch (code) {
    case GrpcCode::kOk:
      return 200;
    case GrpcCode::kCancelled:
      return 499;
    case GrpcCode::kInvalidArgument:
    case GrpcCode::kFailedPrecondition:
    case GrpcCode::kOutOfRange:
      return 400;
    case GrpcCode::kUnauthenticated:
      return 401;
    case GrpcCode::kPermissionDenied:
      return 403;
    case GrpcCode::kNotFound:
      return 404;
    case GrpcCode::kUnimplemented:
      return 422;
    case GrpcCode::kResourceExhausted:
      return 429;
    case GrpcCode::kUnavailable:
    case GrpcCode::kDeadlineExceeded:
      return 503;
    default:
      return 500;
  }
}

void SetRetry(const Status& status, Rpc* rpc) {
  const int seconds = status.retry_after_s();
  if (seconds <= 0) return;
  rpc->AddTrailingMetadata("retry-after", std::to_string(seconds));
  rpc->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(seconds * 1000LL));
}

}  // namespace penstock
