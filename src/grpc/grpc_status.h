// How a Status looks to clients of gRPC.
//
//   kInvalidArgument, kUnprocessable   INVALID_ARGUMENT
//   kUnauthenticated                   UNAUTHENTICATED
//   kNotFound                          NOT_FOUND
//   kPayloadTooLarge                   RESOURCE_EXHAUSTED, as gRPC says it of a message itself
//   kResourceExhausted                 RESOURCE_EXHAUSTED, with when to try again
//   kUnavailable                       UNAVAILABLE
//   kDeadlineExceeded                  DEADLINE_EXCEEDED
//   kCancelled                         CANCELLED
//   kUnsupported                       UNIMPLEMENTED
//   kInternal                          INTERNAL
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace penstock::grpc {

// Numbers of the protocol (grpc.io/docs/guides/status-codes).
enum class GrpcCode : int32_t {
  kOk = 0,
  kCancelled,
  kUnknown,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kAborted,
  kOutOfRange,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kDataLoss,
  kUnauthenticated,
};

// What a call ends with.
struct GrpcStatus {
  GrpcCode code = GrpcCode::kOk;
  std::string message;

  bool ok() const { return code == GrpcCode::kOk; }
};

GrpcCode GrpcCodeOf(StatusCode code);
GrpcStatus ToGrpc(const Status& status);

// "OK", "INVALID_ARGUMENT", ...
const char* GrpcCodeName(GrpcCode code);
// The HTTP status that says the same, for logs which tell of both protocols.
int HttpStatusOfGrpc(GrpcCode code);

}  // namespace penstock::grpc
