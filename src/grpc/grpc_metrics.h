// The gRPC server's own series. All are registered at start; those of a method and a code are
// printed after their first call. Labels come from the methods served and gRPC's codes, so clients
// cannot add series.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "grpc/grpc_status.h"
#include "metrics/metrics.h"

namespace penstock::frontend {
struct RouteInfo;
}  // namespace penstock::frontend

namespace penstock::grpc {

class GrpcMetrics {
 public:
  GrpcMetrics(metrics::Metrics* metrics, const std::vector<frontend::RouteInfo>& methods);

  // `method` indexes the list.
  void CountCall(int32_t method, GrpcCode code, double seconds);
  // Calls let in and not ended.
  metrics::Gauge& in_flight() { return *in_flight_; }
  metrics::Gauge& connections() { return *connections_; }
  metrics::Counter& connections_refused() { return *connections_refused_; }
  // `reason`: "missing", "unknown" or "not_admin".
  metrics::Counter& keys_refused(std::string_view reason);

 private:
  static constexpr size_t kCodes = 17;
  static constexpr std::array<std::string_view, 3> kKeyReasons = {"missing", "unknown",
                                                                  "not_admin"};
  struct Series {
    std::array<metrics::Counter*, kCodes> by_code{};
    metrics::Histogram* seconds = nullptr;
  };

  std::vector<Series> series_;  // [methods]
  metrics::Gauge* in_flight_;
  metrics::Gauge* connections_;
  metrics::Counter* connections_refused_;
  std::array<metrics::Counter*, kKeyReasons.size()> keys_refused_{};
};

}  // namespace penstock::grpc
