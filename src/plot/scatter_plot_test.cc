#include "plot/scatter_plot.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <regex>

#include "plot/plot_test_util.h"

namespace penstock::plot {
namespace {

ScatterPlot Circle(size_t points) {
  ScatterPlot plot{"a title", "a note", "across", "up", {}};
  for (size_t i = 0; i < points; ++i) {
    const double angle = 6.283185307 * static_cast<double>(i) / static_cast<double>(points);
    plot.points.push_back({std::cos(angle), std::sin(angle), "text " + std::to_string(i)});
  }
  return plot;
}

TEST(ScatterPlot, SvgHasEveryPointAndItsText) {
  ScatterPlot plot = Circle(8);
  plot.points[3].label = "<b> & \"q\" é 日本";
  const std::string svg = plot.ToSvg();
  EXPECT_EQ(Count(svg, "<circle"), 8u);
  EXPECT_EQ(Count(svg, ">text 0<"), 2u);  // the tip and the label
  EXPECT_NE(svg.find("<title>&lt;b&gt; &amp; &quot;q&quot; é 日本</title>"), std::string::npos);
  for (const char* text : {">a title<", ">a note<", ">across<", ">up<"}) {
    EXPECT_EQ(Count(svg, text), 1u) << text;
  }
  EXPECT_EQ(Count(svg, "nan") + Count(svg, "inf"), 0u);
}

TEST(ScatterPlot, LabelsDoNotOverlap) {
  ScatterPlot plot;
  for (int i = 0; i < 30; ++i) {
    plot.points.push_back(
        {i % 6 * 0.4, i / 6 * 0.05, "a label of some length " + std::to_string(i)});
  }
  const std::string svg = plot.ToSvg();
  const std::regex label(
      R"re(class="t l" x="([0-9.]+)" y="([0-9.]+)" text-anchor="(\w+)"[^>]*>([^<]*)<)re");
  std::vector<std::array<double, 3>> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), label), end; at != end; ++at) {
    const double width = 6.6 * static_cast<double>((*at)[4].length());
    const double before = (*at)[3] == "start" ? 0 : (*at)[3] == "middle" ? width / 2 : width;
    boxes.push_back({std::stod((*at)[1]) - before, std::stod((*at)[2]), width});
  }
  ASSERT_GE(boxes.size(), 5u);
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool beside = boxes[i][0] + boxes[i][2] <= boxes[j][0] + 0.2 ||
                          boxes[j][0] + boxes[j][2] <= boxes[i][0] + 0.2;
      EXPECT_TRUE(beside || std::abs(boxes[i][1] - boxes[j][1]) >= 13.9) << i << " " << j;
    }
  }
}

TEST(ScatterPlot, ManyPointsStayReadable) {
  const std::string few = Circle(10).ToSvg();
  const std::string many = Circle(10'000).ToSvg();
  EXPECT_EQ(Count(many, "<circle"), 10'000u);
  EXPECT_NE(few.find("r=\"4\""), std::string::npos);
  EXPECT_NE(many.find("r=\"1.5\""), std::string::npos);
  EXPECT_LE(Count(many, "class=\"t l\""), ScatterPlot::kLabelsMax);
}

TEST(ScatterPlot, OfNoPointAndOfOneAreWhole) {
  EXPECT_EQ(Count(ScatterPlot{"t", "", "x", "y", {}}.ToSvg(), "<circle"), 0u);
  ScatterPlot plot{"t", "", "x", "y", {{5, 5, "alone"}, {5, 5, "with it"}}};
  const std::string svg = plot.ToSvg();
  EXPECT_EQ(Count(svg, "<circle"), 2u);
  EXPECT_EQ(Count(svg, "class=\"t l\""), 2u);
  EXPECT_EQ(Count(svg, "nan") + Count(svg, "inf"), 0u);
}

TEST(ScatterPlot, LongLabelsAreCutBetweenCharacters) {
  std::string label;
  for (int i = 0; i < 50; ++i) label += "é";
  const std::string svg = ScatterPlot{"", "", "", "", {{0, 0, label}}}.ToSvg();
  EXPECT_NE(svg.find(label.substr(0, 72) + "...<"), std::string::npos);
}

}  // namespace
}  // namespace penstock::plot
