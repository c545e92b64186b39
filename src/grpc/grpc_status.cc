#include "grpc/grpc_status.h"

#include <iterator>
#include <string_view>

namespace penstock::grpc {
namespace {

// Clients take 8 KiB of metadata, and a byte that is not ASCII travels as three.
constexpr size_t kMessageBytesMax = 2000;

struct Facts {
  const char* name;
  int http_status;
};
constexpr Facts kFacts[] = {
    // [GrpcCode]
    {"OK", 200},
    {"CANCELLED", 499},
    {"UNKNOWN", 500},
    {"INVALID_ARGUMENT", 400},
    {"DEADLINE_EXCEEDED", 503},
    {"NOT_FOUND", 404},
    {"ALREADY_EXISTS", 500},
    {"PERMISSION_DENIED", 403},
    {"RESOURCE_EXHAUSTED", 429},
    {"FAILED_PRECONDITION", 400},
    {"ABORTED", 500},
    {"OUT_OF_RANGE", 400},
    {"UNIMPLEMENTED", 422},
    {"INTERNAL", 500},
    {"UNAVAILABLE", 503},
    {"DATA_LOSS", 500},
    {"UNAUTHENTICATED", 401},
};

const Facts& FactsOf(GrpcCode code) {
  const auto at = static_cast<size_t>(code);
  return kFacts[at < std::size(kFacts) ? at : static_cast<size_t>(GrpcCode::kUnknown)];
}

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

const char* GrpcCodeName(GrpcCode code) { return FactsOf(code).name; }
int HttpStatusOfGrpc(GrpcCode code) { return FactsOf(code).http_status; }

}  // namespace penstock::grpc
