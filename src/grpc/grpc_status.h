// How a Status looks to clients of gRPC.
//
//   kInvalidArgument, kUnprocessable   INVALID_ARGUMENT
//   kUnauthenticated                   UNAUTHENTICATED
//   kNotFound                          NOT_FOUND
//   kPayloadTooLarge                   RESOURCE_EXHAUSTED, as gRPC says it of a message itself
//   kResourceExhausted                 RESOURCE_EXHAUSTED, with when to try again; see SetRetry
//   kUnavailable                       UNAVAILABLE
//   kDeadlineExceeded                  DEADLINE_EXCEEDED
//   kCancelled                         CANCELLED
//   kUnsupported                       UNIMPLEMENTED
//   kInternal                          INTERNAL
#pragma once

#include <grpcpp/support/status.h>

#include "common/status.h"

namespace grpc {
class CallbackServerContext;
}

namespace penstock {

grpc::StatusCode GrpcCodeOf(StatusCode code);
grpc::Status ToGrpc(const Status& status);

// "OK", "INVALID_ARGUMENT", ...
const char* GrpcCodeName(grpc::StatusCode code);
// The HTTP status that says the same, for logs which tell of both protocols.
int HttpStatusOfGrpc(grpc::StatusCode code);

// Where `status` says when to try again, puts it into the trailing metadata: "retry-after" in
// seconds, as over HTTP, and "grpc-retry-pushback-ms" (gRFC A6), which retry policies of clients
// obey. Before the call is finished.
void SetRetry(const Status& status, grpc::CallbackServerContext* context);

}  // namespace penstock
