// The HTTP server's own series. All are registered at start; those of a route and a code are
// printed after their first request. Labels come from the route table and a fixed list of codes, so
// clients cannot add series.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"

namespace penstock::frontend {

struct RouteInfo;

// What such a status (400 or more) tells, in a word: "invalid_argument", "not_found", as
// StatusCodeName has it where it has one; "other" for one that is seldom.
const char* FailureKind(int status);

class HttpMetrics {
 public:
  HttpMetrics(metrics::Metrics* metrics, const std::vector<RouteInfo>& routes);

  // `route` indexes the table; -1 = none matched.
  void CountRequest(int32_t route, int status, double seconds);
  // Answers with 400 or more since the start. `route`: index; -1 = none matched.
  struct Failures {
    int32_t route;
    int status;  // 0: one that is seldom
    uint64_t count;
  };
  std::vector<Failures> FailuresByRoute() const;
  // The same failures by kind, in the order of the statuses: pairs of FailureKind and count.
  std::vector<std::pair<const char*, uint64_t>> FailuresByKind() const;
  // Their sums: of the clients' doing (4xx but 499), of the server's (500 and more).
  struct FailureTotals {
    uint64_t clients = 0;
    uint64_t server = 0;
  };
  FailureTotals TotalFailures() const;

  metrics::Gauge& connections() { return *connections_; }
  metrics::Counter& connections_refused() { return *connections_refused_; }
  metrics::Gauge& streams() { return *streams_; }
  metrics::Counter& streams_dropped() { return *streams_dropped_; }
  // `reason`: "missing", "unknown" or "not_admin".
  metrics::Counter& keys_refused(std::string_view reason);
  metrics::Counter& received_bytes() { return *received_bytes_; }
  metrics::Counter& sent_bytes() { return *sent_bytes_; }

 private:
  // The last stands for every other code.
  static constexpr std::array<int, 21> kCodes = {200, 204, 304, 308, 400, 401, 403,
                                                 404, 405, 408, 413, 415, 422, 424,
                                                 429, 431, 499, 500, 501, 503, 0};
  static constexpr std::array<std::string_view, 3> kKeyReasons = {"missing", "unknown",
                                                                  "not_admin"};
  struct Series {
    std::array<metrics::Counter*, kCodes.size()> by_code{};
    metrics::Histogram* seconds = nullptr;
  };
  Series AddSeries(metrics::Metrics* metrics, const char* path, const char* method);

  std::vector<Series> series_;  // [routes + 1]
  metrics::Gauge* connections_;
  metrics::Counter* connections_refused_;
  metrics::Gauge* streams_;
  metrics::Counter* streams_dropped_;
  std::array<metrics::Counter*, kKeyReasons.size()> keys_refused_{};
  metrics::Counter* received_bytes_;
  metrics::Counter* sent_bytes_;
};

}  // namespace penstock::frontend
