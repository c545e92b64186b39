// The HTTP server's own series. All are registered at start; labels come from the route table and
// a fixed list of codes, so nobody can grow them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metrics/metrics.h"

namespace penstock {

struct Route;

class HttpMetrics {
 public:
  HttpMetrics(Metrics* metrics, const std::vector<Route>& routes);

  // `route` indexes the table; -1 = none matched.
  void CountRequest(int32_t route, int status, double seconds);
  Gauge& connections() { return *connections_; }
  Counter& connections_refused() { return *connections_refused_; }
  Counter& received_bytes() { return *received_bytes_; }
  Counter& sent_bytes() { return *sent_bytes_; }

 private:
  // The last stands for every other code.
  static constexpr std::array<int, 14> kCodes = {200, 204, 400, 401, 404, 405, 408,
                                                 413, 422, 429, 499, 500, 503, 0};
  struct Series {
    std::array<Counter*, kCodes.size()> by_code{};
    Histogram* seconds = nullptr;
  };
  Series AddSeries(Metrics* metrics, const char* path, const char* method);

  std::vector<Series> series_;  // [routes + 1]
  Gauge* connections_;
  Counter* connections_refused_;
  Counter* received_bytes_;
  Counter* sent_bytes_;
};

}  // namespace penstock
