// The flags of `penstock serve` for gRPC.
#pragma once

#include "cli/command_line.h"
#include "grpc/grpc_server.h"

namespace penstock::cli {

void AddGrpcFlags(CommandLine* line, grpc::GrpcOptions* grpc);

}  // namespace penstock::cli
