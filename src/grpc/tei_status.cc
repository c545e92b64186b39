#include "grpc/tei_status.h"

namespace penstock {

GrpcStatus TeiStatus(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kPayloadTooLarge:
      return {GrpcCode::kInvalidArgument, "Input validation error: " + status.message()};
    case StatusCode::kUnprocessable:
    case StatusCode::kUnsupported:
      return {GrpcCode::kFailedPrecondition, "Backend error: " + status.message()};
    case StatusCode::kResourceExhausted:
      return {GrpcCode::kResourceExhausted, "Model is overloaded: " + status.message()};
    default:
      return ToGrpc(status);
  }
}

}  // namespace penstock
