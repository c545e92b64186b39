#include "grpc/grpc_metrics.h"

#include <algorithm>
#include <string>

#include "frontend/route_info.h"

namespace penstock::grpc {

GrpcMetrics::GrpcMetrics(metrics::Metrics* metrics,
                         const std::vector<frontend::RouteInfo>& methods) {
  for (const frontend::RouteInfo& method : methods) {
    const std::string label = metrics::MetricLabel("method", method.path);
    Series series;
    for (size_t code = 0; code < kCodes; ++code) {
      series.by_code[code] = &metrics->AddCounter(
          "penstock_grpc_requests_total",
          "Calls of gRPC that ended; CANCELLED: also where the client left before the answer",
          label + "," + metrics::MetricLabel("code", GrpcCodeName(static_cast<GrpcCode>(code))),
          metrics::Metrics::Shown::kOnceUsed);
    }
    series.seconds = &metrics->AddHistogram("penstock_grpc_request_duration_seconds",
                                            "From the call's first byte until its end was sent",
                                            {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                             0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
                                            label, metrics::Metrics::Shown::kOnceUsed);
    series_.push_back(series);
  }
  in_flight_ = &metrics->AddGauge("penstock_grpc_in_flight", "Calls of gRPC under way");
  connections_ = &metrics->AddGauge("penstock_grpc_connections", "Open connections of gRPC");
  connections_refused_ =
      &metrics->AddCounter("penstock_grpc_connections_refused_total",
                           "Connections of gRPC over its share of --max-connections, turned away");
  for (size_t i = 0; i < kKeyReasons.size(); ++i) {
    keys_refused_[i] = &metrics->AddCounter(
        "penstock_grpc_keys_refused_total",
        "Calls of gRPC refused for want of a key: none was sent, it is not known, or it is not one "
        "of an administrator",
        metrics::MetricLabel("reason", kKeyReasons[i]));
  }
}

void GrpcMetrics::CountCall(int32_t method, GrpcCode code, double seconds) {
  const Series& series = series_[static_cast<size_t>(method)];
  const auto at = static_cast<size_t>(code);
  series.by_code[at < kCodes ? at : static_cast<size_t>(GrpcCode::kUnknown)]->Add();
  series.seconds->Observe(seconds);
}

metrics::Counter& GrpcMetrics::keys_refused(std::string_view reason) {
  const auto at = std::find(kKeyReasons.begin(), kKeyReasons.end() - 1, reason);
  return *keys_refused_[static_cast<size_t>(at - kKeyReasons.begin())];
}

}  // namespace penstock::grpc
