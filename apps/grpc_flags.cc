#include "grpc_flags.h"

namespace penstock::cli {

void AddGrpcFlags(CommandLine* line, grpc::GrpcOptions* grpc) {
  const FlagGroup group(&line->flags(), "gRPC");
  group.Add("--grpc-port", grpc->port, "PORT", InRange(0, 65'535),
            "Serve gRPC on this port too (docs/GRPC.md); 0 = any free one. Default: none.");
  group.Add("--grpc-host", grpc->host, "HOST",
            "Name or address to listen on for gRPC. Default: that of --host.");
  group.Add("--grpc-max-streams", grpc->streams_max, "N", InRange(1, 65'535),
            "Calls of a connection at once; more wait at the client.");
  line->RefuseEmpty({"grpc-host"});
}

}  // namespace penstock::cli
