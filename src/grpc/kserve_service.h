// inference.GRPCInferenceService: the Open Inference Protocol (KServe v2) with Triton's extensions.
#pragma once

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

void AddKserve(GrpcFrontEnd* front_end);

}  // namespace penstock::grpc
