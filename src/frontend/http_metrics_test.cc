#include "frontend/http_metrics.h"

#include <gtest/gtest.h>

#include "frontend/route_info.h"

namespace penstock {
namespace {

TEST(HttpMetrics, FailuresAreToldByRouteAndSummedByWhoCausedThem) {
  Metrics metrics;
  HttpMetrics http(&metrics, {{"GET", "/a"}, {"POST", "/b"}});
  EXPECT_TRUE(http.FailuresByRoute().empty());
  for (const int status : {200, 204, 304, 308}) http.CountRequest(0, status, 0.1);
  EXPECT_TRUE(http.FailuresByRoute().empty());
  http.CountRequest(1, 429, 0.1);
  http.CountRequest(1, 429, 0.1);
  http.CountRequest(1, 503, 0.1);
  http.CountRequest(0, 499, 0.1);
  http.CountRequest(-1, 404, 0.1);
  http.CountRequest(0, 424, 0.1);  // seldom
  const auto failures = http.FailuresByRoute();
  ASSERT_EQ(failures.size(), 5u);
  EXPECT_EQ(failures[2].route, 1);
  EXPECT_EQ(failures[2].status, 429);
  EXPECT_EQ(failures[2].count, 2u);
  EXPECT_EQ(failures[4].route, -1);
  const HttpMetrics::FailureTotals totals = http.TotalFailures();
  EXPECT_EQ(totals.clients, 4u);  // a client that left did nothing wrong
  EXPECT_EQ(totals.server, 1u);
}

}  // namespace
}  // namespace penstock
