#include "plot/line_plot.h"

#include <gtest/gtest.h>

#include <limits>

#include "plot/plot_test_util.h"

namespace penstock::plot {
namespace {

TEST(LinePlotTest, DrawsSeriesAxesAndUnits) {
  LinePlot plot{"a < b", "texts/s", "latency, ms", {}};
  plot.series.push_back({"p50", {{10, 1, ""}, {20, 2, "x&y"}, {30, 3, ""}}, 1, false});
  plot.series.push_back({"p99", {{10, 400, ""}, {20, 0, ""}}, 1, true});
  plot.label_note = "labels: clients";
  plot.series.push_back({"none", {{std::numeric_limits<double>::quiet_NaN(), 1, ""}}});
  const std::string svg = plot.ToSvg();
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find(">a &lt; b<"), std::string::npos);
  EXPECT_NE(svg.find(">x&amp;y<"), std::string::npos);
  EXPECT_NE(svg.find(">texts/s<"), std::string::npos);
  EXPECT_NE(svg.find(">latency, ms<"), std::string::npos);
  EXPECT_EQ(Count(svg, "<circle"), 4u);  // 0 has no place on a logarithmic axis, NaN nowhere
  EXPECT_EQ(Count(svg, "nan"), 0u);
  // Line and legend of the dashed series; both series have the second hue, the last the first.
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 2u);
  EXPECT_EQ(Count(svg, "stroke=\"#e69f00\""), 4u);
  EXPECT_EQ(Count(svg, "stroke=\"#0072b2\""), 2u);
  EXPECT_NE(svg.find(">labels: clients<"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(LinePlotTest, DrawsNothingOfNothing) {
  EXPECT_EQ(Count(LinePlot().ToSvg(), "<circle"), 0u);
  LinePlot one;
  one.series.push_back({"s", {{0, 0, ""}}});
  EXPECT_EQ(Count(one.ToSvg(), "<circle"), 1u);
}

}  // namespace
}  // namespace penstock::plot
