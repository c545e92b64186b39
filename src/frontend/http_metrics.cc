#include "frontend/http_metrics.h"

#include <algorithm>
#include <string>

#include "base/name_table.h"
#include "frontend/route_info.h"

namespace penstock::frontend {

const char* FailureKind(int status) {
  static constexpr NumberName kKinds[] = {
      {400, "invalid_argument"},   {401, "unauthenticated"},
      {403, "forbidden"},          {404, "not_found"},
      {405, "method_not_allowed"}, {408, "request_timeout"},
      {413, "payload_too_large"},  {415, "unsupported_media_type"},
      {422, "unprocessable"},      {424, "failed_dependency"},
      {429, "resource_exhausted"}, {431, "header_too_large"},
      {499, "cancelled"},          {500, "internal"},
      {501, "not_implemented"},    {503, "unavailable"}};
  return NameOfNumber(kKinds, status, "other");
}

HttpMetrics::Series HttpMetrics::AddSeries(metrics::Metrics* metrics, const char* path,
                                           const char* method) {
  const std::string route = "route=\"" + std::string(path) + "\"";
  Series series;
  for (size_t i = 0; i < kCodes.size(); ++i) {
    const std::string code = kCodes[i] == 0 ? "other" : std::to_string(kCodes[i]);
    series.by_code[i] =
        &metrics->AddCounter("penstock_http_requests_total",
                             "Requests answered; code 499: the client left before it was answered",
                             route + ",method=\"" + method + "\",code=\"" + code + "\"",
                             metrics::Metrics::Shown::kOnceUsed);
  }
  // Around what an embedding takes on a CPU: 1 ms to a minute.
  series.seconds = &metrics->AddHistogram(
      "penstock_http_request_duration_seconds",
      "From the first byte of a request to the last byte of its answer",
      {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
      route + ",method=\"" + method + "\"", metrics::Metrics::Shown::kOnceUsed);
  return series;
}

HttpMetrics::HttpMetrics(metrics::Metrics* metrics, const std::vector<RouteInfo>& routes) {
  for (const RouteInfo& route : routes) {
    series_.push_back(AddSeries(metrics, route.path, route.method));
  }
  series_.push_back(AddSeries(metrics, "other", "other"));
  connections_ = &metrics->AddGauge("penstock_http_connections", "Open connections");
  connections_refused_ = &metrics->AddCounter("penstock_http_connections_refused_total",
                                              "Connections over --max-connections, turned away");
  streams_ = &metrics->AddGauge("penstock_http_streams", "Answers being streamed");
  streams_dropped_ =
      &metrics->AddCounter("penstock_http_streams_dropped_total",
                           "Streams whose client was dropped since it did not read fast enough");
  for (size_t i = 0; i < kKeyReasons.size(); ++i) {
    keys_refused_[i] = &metrics->AddCounter(
        "penstock_http_keys_refused_total",
        "Requests refused for want of a key: none was sent, it is not known, or it is not one of "
        "an administrator",
        "reason=\"" + std::string(kKeyReasons[i]) + "\"");
  }
  received_bytes_ = &metrics->AddCounter("penstock_http_received_bytes_total",
                                         "Bytes read from clients, after TLS");
  sent_bytes_ = &metrics->AddCounter("penstock_http_sent_bytes_total",
                                     "Bytes written to clients, before TLS");
}

metrics::Counter& HttpMetrics::keys_refused(std::string_view reason) {
  const auto at = std::find(kKeyReasons.begin(), kKeyReasons.end() - 1, reason);
  return *keys_refused_[static_cast<size_t>(at - kKeyReasons.begin())];
}

void HttpMetrics::CountRequest(int32_t route, int status, double seconds) {
  const Series& series = route < 0 ? series_.back() : series_[static_cast<size_t>(route)];
  const auto code = std::find(kCodes.begin(), kCodes.end() - 1, status);
  series.by_code[static_cast<size_t>(code - kCodes.begin())]->Add();
  series.seconds->Observe(seconds);
}

std::vector<HttpMetrics::Failures> HttpMetrics::FailuresByRoute() const {
  std::vector<Failures> found;
  for (size_t r = 0; r < series_.size(); ++r) {
    for (size_t i = 0; i < kCodes.size(); ++i) {
      const uint64_t count = series_[r].by_code[i]->value();
      if (count == 0 || (kCodes[i] != 0 && kCodes[i] < 400)) continue;
      found.push_back({r + 1 < series_.size() ? static_cast<int32_t>(r) : -1, kCodes[i], count});
    }
  }
  return found;
}

std::vector<std::pair<const char*, uint64_t>> HttpMetrics::FailuresByKind() const {
  std::array<uint64_t, kCodes.size()> counts{};
  for (const Series& series : series_) {
    for (size_t i = 0; i < kCodes.size(); ++i) counts[i] += series.by_code[i]->value();
  }
  std::vector<std::pair<const char*, uint64_t>> found;
  for (size_t i = 0; i < kCodes.size(); ++i) {
    if (counts[i] == 0 || (kCodes[i] != 0 && kCodes[i] < 400)) continue;
    found.emplace_back(FailureKind(kCodes[i]), counts[i]);
  }
  return found;
}

HttpMetrics::FailureTotals HttpMetrics::TotalFailures() const {
  FailureTotals totals;
  for (const Failures& each : FailuresByRoute()) {
    if (each.status == 499) continue;
    (each.status >= 500 ? totals.server : totals.clients) += each.count;
  }
  return totals;
}

}  // namespace penstock::frontend
