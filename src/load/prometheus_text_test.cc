#include "load/prometheus_text.h"

#include <gtest/gtest.h>

namespace penstock::load {
namespace {

TEST(PrometheusTextTest, SumsSeries) {
  constexpr std::string_view kText =
      "# HELP a_total x\n"
      "# TYPE a_total counter\n"
      "a_total{route=\"/x\",code=\"200\"} 3\n"
      "a_total{route=\"/x\",code=\"429\"} 4.5\n"
      "a_total{route=\"/y\",code=\"200\"} 5e2\n"
      "a_total_more 7\n"
      "plain 9";
  EXPECT_EQ(SumOfSeries(kText, "a_total"), 507.5);
  EXPECT_EQ(SumOfSeries(kText, "a_total", {"code=\"200\""}), 503);
  EXPECT_EQ(SumOfSeries(kText, "a_total", {"route=\"/x\"", "code=\"429\""}), 4.5);
  EXPECT_EQ(SumOfSeries(kText, "plain"), 9);
  EXPECT_EQ(SumOfSeries(kText, "missing"), 0);
  EXPECT_EQ(SumOfSeries("", "a"), 0);
}

}  // namespace
}  // namespace penstock::load
