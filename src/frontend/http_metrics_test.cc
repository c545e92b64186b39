#include "frontend/http_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "frontend/route_info.h"

namespace penstock::frontend {
namespace {

TEST(HttpMetrics, FailuresAreToldByRouteAndSummedByWhoCausedThem) {
  metrics::Metrics metrics;
  HttpMetrics http(&metrics, {{"GET", "/a"}, {"POST", "/b"}});
  EXPECT_TRUE(http.FailuresByRoute().empty());
  for (const int status : {200, 204, 304, 308}) http.CountRequest(0, status, 0.1);
  EXPECT_TRUE(http.FailuresByRoute().empty());
  http.CountRequest(1, 429, 0.1);
  http.CountRequest(1, 429, 0.1);
  http.CountRequest(1, 503, 0.1);
  http.CountRequest(0, 499, 0.1);
  http.CountRequest(-1, 404, 0.1);
  http.CountRequest(0, 418, 0.1);  // seldom
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

TEST(HttpMetrics, FailuresByKindAreTheSumsOfThoseByRoute) {
  metrics::Metrics metrics;
  HttpMetrics http(&metrics, {{"GET", "/a"}, {"POST", "/b"}});
  EXPECT_TRUE(http.FailuresByKind().empty());
  for (const int status : {200, 400, 424, 503, 418}) http.CountRequest(0, status, 0.1);
  http.CountRequest(1, 400, 0.1);
  http.CountRequest(-1, 404, 0.1);
  uint64_t by_route = 0, by_kind = 0;
  for (const auto& each : http.FailuresByRoute()) by_route += each.count;
  std::map<std::string, uint64_t> kinds;
  for (const auto& [kind, count] : http.FailuresByKind()) {
    EXPECT_TRUE(kinds.emplace(kind, count).second) << kind;
    by_kind += count;
  }
  EXPECT_EQ(by_kind, by_route);
  EXPECT_EQ(kinds, (std::map<std::string, uint64_t>{{"invalid_argument", 2},
                                                    {"not_found", 1},
                                                    {"failed_dependency", 1},
                                                    {"unavailable", 1},
                                                    {"other", 1}}));
  const HttpMetrics::FailureTotals totals = http.TotalFailures();
  EXPECT_EQ(totals.clients + totals.server, by_kind);
}

}  // namespace
}  // namespace penstock::frontend
