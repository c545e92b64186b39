#include "grpc_flags.h"

namespace penstock {

void AddGrpcFlags(CommandLine* line, GrpcOptions* grpc) {
  FlagSet* const app = &line->flags();
  const std::string group = "gRPC";
  app->AddOption("--grpc-port", grpc->port,
                 "Serve gRPC on this port too (docs/GRPC.md); 0 = any free one. Default: none.")
      ->Check(InRange(0, 65'535))
      ->TypeName("PORT")
      ->Group(group);
  app->AddOption("--grpc-host", grpc->host,
                 "Name or address to listen on for gRPC. Default: that of --host.")
      ->TypeName("HOST")
      ->Group(group);
  app->AddOption("--grpc-max-streams", grpc->streams_max,
                 "Calls of a connection at once; more wait at the client.")
      ->Check(InRange(1, 65'535))
      ->TypeName("N")
      ->Group(group);
  line->RefuseEmpty({"grpc-host"});
}

}  // namespace penstock
