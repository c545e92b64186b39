// How text-embeddings-inference's gRPC API says a Status. It differs from grpc_status.h in
//
//   kPayloadTooLarge                  INVALID_ARGUMENT     "Input validation error: ..."
//   kInvalidArgument                  INVALID_ARGUMENT     "Input validation error: ..."
//   kUnprocessable, kUnsupported      FAILED_PRECONDITION  "Backend error: ..."
//   kResourceExhausted                RESOURCE_EXHAUSTED   "Model is overloaded: ..."
//
// where the text before the colon is TEI's, which clients may look for, and the rest Penstock's.
#pragma once

#include "common/status.h"
#include "grpc/grpc_status.h"

namespace penstock {

GrpcStatus TeiStatus(const Status& status);

}  // namespace penstock
