// ModelStreamInfer: requests one after another on one call, answered in their order. A tensor model
// answers a request once; a model that generates text answers as the text comes (stream_text.h). An
// error is the answer to its own request (error_message), as in Triton, and the stream goes on.
#pragma once

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

void AddStreamInfer(GrpcFrontEnd* front_end, const char* path);

}  // namespace penstock::grpc
