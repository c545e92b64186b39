// The standard health service (grpc.health.v1), for load balancers and orchestrators: by "" or the
// name of a service whether the server is ready, by the name of a model whether that is loaded.
// Asks for no key, as /readyz of HTTP does not; but for one where a model is named.
#pragma once

#include <grpc/health.pb.h>

#include <atomic>
#include <chrono>
#include <string>

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

class HealthService {
 public:
  static constexpr int32_t kWatchersMax = 1024;
  // How often a watched status is looked at.
  static constexpr std::chrono::milliseconds kWatchInterval{250};

  explicit HealthService(GrpcFrontEnd* front_end);

  // Everything is NOT_SERVING from here on, and watches end once they have said so.
  void Stop() { stopping_.store(true); }

 private:
  class Watch;
  using Serving = ::grpc::health::v1::HealthCheckResponse::ServingStatus;

  bool IsService(const std::string& name) const;
  // SERVICE_UNKNOWN: neither a service nor a model.
  Serving StatusOf(const std::string& name) const;

  GrpcFrontEnd* const front_end_;
  std::atomic<bool> stopping_{false};
  std::atomic<int32_t> watchers_{0};
};

}  // namespace penstock::grpc
