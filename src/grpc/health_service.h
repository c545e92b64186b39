// The standard health service (grpc.health.v1), for load balancers and orchestrators: by "" or the
// name of a service whether the server is ready, by the name of a model whether that is loaded.
// Asks for no key, as /readyz of HTTP does not.
#pragma once

#include <grpc/health.grpc.pb.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/route_info.h"
#include "grpc/grpc_front_end.h"

namespace penstock {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  static constexpr int32_t kWatchersMax = 1024;
  // How often a watched status is looked at.
  static constexpr std::chrono::milliseconds kWatchInterval{250};

  static const std::vector<RouteInfo>& Methods();

  explicit HealthService(GrpcFrontEnd* front_end);

  // Everything is NOT_SERVING from here on, and watches end once they have said so.
  void Stop() { stopping_.store(true); }

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  using Serving = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // SERVICE_UNKNOWN: neither a service nor a model.
  Serving StatusOf(const std::string& name) const;

  GrpcFrontEnd* const front_end_;
  const int32_t check_, watch_;
  std::atomic<bool> stopping_{false};
  std::atomic<int32_t> watchers_{0};
};

}  // namespace penstock
