#include "grpc/grpc_status.h"

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

namespace penstock {
namespace {

// Clients take 8 KiB of metadata, and a byte that is not ASCII travels as three.
constexpr size_t kMessageBytesMax = 2000;

}  // namespace

grpc::StatusCode GrpcCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return grpc::StatusCode::OK;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnprocessable:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kPayloadTooLarge:
    case StatusCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case StatusCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case StatusCode::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case StatusCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status();
  std::string_view message = status.message();
  if (message.size() > kMessageBytesMax) {
    message = message.substr(0, kMessageBytesMax);
    // Not within a character.
    while (!message.empty() && (message.back() & 0xc0) == 0x80) message.remove_suffix(1);
    if (!message.empty() && (message.back() & 0x80) != 0) message.remove_suffix(1);
  }
  return {GrpcCodeOf(status.code()), std::string(message)};
}

const char* GrpcCodeName(grpc::StatusCode code) {
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

int HttpStatusOfGrpc(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::CANCELLED:
      return 499;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 422;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 503;
    default:
      return 500;
  }
}

void SetRetry(const Status& status, grpc::CallbackServerContext* context) {
  const int seconds = status.retry_after_s();
  if (seconds <= 0) return;
  context->AddTrailingMetadata("retry-after", std::to_string(seconds));
  context->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(seconds * 1000LL));
}

}  // namespace penstock
