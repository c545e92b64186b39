// The services of text-embeddings-inference's gRPC API (tei.proto): Info, Embed, Predict, Rerank,
// Tokenize. The metadata key "model" of a call picks the model; without it the default for what is
// asked is used.
//
// Single calls are refused where the server has no room, requests of a stream wait (see
// ordered_stream.h). A stream ends with the first request that fails.
#pragma once

#include <grpcpp/server_builder.h>

#include <memory>
#include <vector>

#include "frontend/route_info.h"
#include "grpc/grpc_front_end.h"

namespace penstock {

class TeiService {
 public:
  static const std::vector<RouteInfo>& Methods();

  // Has the front end end calls with the codes of TEI (tei_status.h). It must outlive the service.
  explicit TeiService(GrpcFrontEnd* front_end);
  ~TeiService();

  void Register(grpc::ServerBuilder* builder);

 private:
  const std::vector<std::unique_ptr<grpc::Service>> services_;
};

}  // namespace penstock
