#include "bulk/embed_plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/temp_folder_test_util.h"

namespace penstock::bulk {
namespace {

// Windows of `rows` rows, row i of which has the vector (i, 0, 0, ...).
void AddRows(int rows, int32_t dimensions, EmbedPlot* plot, int skipped = -1) {
  BulkWindow window(EmbedPlot::kLabelBytes);
  std::vector<float> values;
  BulkWindow::Rows placed;
  for (int i = 0; i < rows; ++i) {
    window.Add({.text = "row " + std::to_string(i)});
    if (i == skipped) {
      window.Skip(static_cast<size_t>(i), "refused");
      continue;
    }
    placed.push_back(static_cast<size_t>(i));
    values.resize(values.size() + static_cast<size_t>(dimensions));
    values[values.size() - static_cast<size_t>(dimensions)] = static_cast<float>(i);
  }
  ASSERT_TRUE(window.Place(placed, values, dimensions).ok());
  plot->Add(window);
}

TEST(EmbedPlot, TakesNamesByTheirEnding) {
  for (const char* name : {"x.svg", "x.y.Svg"}) EXPECT_EQ(PlotNameFault(name), "") << name;
  for (const char* name : {"", "x", ".svg", "x.svgz", "svg", "x.pdf", "x.png", "-"}) {
    EXPECT_NE(PlotNameFault(name), "") << name;
  }
}

TEST(EmbedPlot, SkippedRowsHaveNoPoint) {
  const TempFolder folder;
  auto plot = EmbedPlot::Open(folder / "plot.svg");
  ASSERT_TRUE(plot.ok());
  AddRows(3, 2, &*plot, 1);
  const auto drawn = plot->Draw("m");
  ASSERT_TRUE(drawn.ok());
  ASSERT_EQ(drawn->points.size(), 2u);
  EXPECT_EQ(drawn->points[1].label, "row 2");
  EXPECT_EQ(drawn->title, "2 texts by m");
  EXPECT_NEAR(drawn->points[1].x - drawn->points[0].x, 2, 1e-9);
}

// Long vectors: the sample is bounded in bytes.
TEST(EmbedPlot, IsBoundedInMemory) {
  const TempFolder folder;
  auto plot = EmbedPlot::Open(folder / "plot.svg");
  ASSERT_TRUE(plot.ok());
  constexpr int32_t kWide = 1 << 18;
  for (int i = 0; i < 10; ++i) AddRows(20, kWide, &*plot);
  const auto drawn = plot->Draw("");
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(drawn->points.size(), EmbedPlot::kBytesMax / sizeof(float) / kWide);
  EXPECT_EQ(drawn->title, "200 texts");
  EXPECT_EQ(drawn->note, "64 of them drawn, spread evenly over the input");
}

TEST(EmbedPlot, AVectorThatIsNotFiniteIsAnError) {
  const TempFolder folder;
  auto plot = EmbedPlot::Open(folder / "plot.svg");
  ASSERT_TRUE(plot.ok());
  BulkWindow window;
  window.Add({.text = "a"});
  ASSERT_TRUE(window.Place({0}, std::vector<float>{NAN, 1}, 2).ok());
  plot->Add(window);
  EXPECT_EQ(plot->Draw("").status().message(), "the vector of row 0 is not finite");
}

TEST(EmbedPlot, LabelsAreCutBetweenCharacters) {
  BulkWindow window(5);
  for (const char* text : {"éééé", "abcdefgh", "a\tb"}) window.Add({.text = text});
  EXPECT_EQ(window.label(0), "éé");
  EXPECT_EQ(window.label(1), "abcde");
  EXPECT_EQ(window.label(2), "a\\tb");
}

}  // namespace
}  // namespace penstock::bulk
