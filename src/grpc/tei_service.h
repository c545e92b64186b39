// The services of text-embeddings-inference's gRPC API (tei.proto): Info, Embed, Predict, Rerank,
// Tokenize. The metadata key "model" of a call picks the model; without it the default for what is
// asked is used.
//
// Single calls are refused where the server has no room, requests of a stream wait (see
// ordered_call.h). A stream ends with the first request that fails.
#pragma once

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

// Calls end with TEI's codes: INVALID_ARGUMENT also for what is too large, FAILED_PRECONDITION for
// what the model does not do.
void AddTei(GrpcFrontEnd* front_end);

}  // namespace penstock::grpc
