// GrpcOptions: what the gRPC server has of its own. Keys, TLS, hosts and logs are those of HTTP
// (http/server_options.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

// Each is a flag of `penstock serve`.
struct GrpcOptions {
  std::optional<uint16_t> port;  // --grpc-port; none: no gRPC; 0: any free one
  std::string host;              // --grpc-host; "": that of HTTP
  // --grpc-max-streams: calls under way on one connection; more wait at the client.
  int32_t streams_max = 1024;
};

}  // namespace penstock
