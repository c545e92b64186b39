#include "grpc_flags.h"

namespace penstock {

void AddGrpcFlags(CommandLine* line, GrpcOptions* grpc) {
  CLI::App* const app = &line->app();
  const std::string group = "gRPC";
  app->add_option("--grpc-port", grpc->port,
                  "Serve gRPC on this port too (docs/GRPC.md); 0 = any free one. Default: none.")
      ->check(CLI::Range(0, 65'535))
      ->type_name("PORT")
      ->group(group);
  app->add_option("--grpc-host", grpc->host,
                  "Name or address to listen on for gRPC. Default: that of --host.")
      ->type_name("HOST")
      ->group(group);
  app->add_option("--grpc-max-streams", grpc->streams_max,
                  "Calls of a connection at once; more wait at the client.")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->group(group);
  line->RefuseEmpty({"grpc-host"});
}

}  // namespace penstock
