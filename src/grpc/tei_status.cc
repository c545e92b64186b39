#include "grpc/tei_status.h"

#include "grpc/grpc_status.h"

namespace penstock {

grpc::Status TeiStatus(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kPayloadTooLarge:
      return {grpc::StatusCode::INVALID_ARGUMENT, "Input validation error: " + status.message()};
    case StatusCode::kUnprocessable:
    case StatusCode::kUnsupported:
      return {grpc::StatusCode::FAILED_PRECONDITION, "Backend error: " + status.message()};
    case StatusCode::kResourceExhausted:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "Model is overloaded: " + status.message()};
    default:
      return ToGrpc(status);
  }
}

}  // namespace penstock
