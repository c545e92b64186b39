// The flags of `penstock serve` for gRPC.
#pragma once

#include "command_line.h"
#include "grpc/grpc_server.h"

namespace penstock {

void AddGrpcFlags(CommandLine* line, GrpcOptions* grpc);

}  // namespace penstock
