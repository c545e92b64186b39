#include "plot/scatter_plot.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cmath>
#include <regex>

#include "plot/pixel_font.h"
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

struct Picture {
  int width = 0;
  int height = 0;
  std::string rows;  // of bytes, each behind its filter
  std::string At(int x, int y) const {
    return rows.substr(static_cast<size_t>(y) * (width * 3 + 1) + 1 + 3 * x, 3);
  }
};

uint32_t NumberAt(const std::string& file, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(file[at + i]);
  return value;
}

// Takes a PNG apart, with the sums of its chunks.
Picture Read(const std::string& file) {
  Picture picture;
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string data;
  std::string last;
  for (size_t at = 8; at < file.size();) {
    const uint32_t size = NumberAt(file, at);
    last = file.substr(at + 4, 4);
    const auto* const body = reinterpret_cast<const Bytef*>(file.data() + at + 4);
    EXPECT_EQ(NumberAt(file, at + 8 + size), crc32(0, body, size + 4));
    if (last == "IHDR") {
      picture.width = static_cast<int>(NumberAt(file, at + 8));
      picture.height = static_cast<int>(NumberAt(file, at + 12));
    }
    if (last == "IDAT") data += file.substr(at + 8, size);
    at += 12 + size;
  }
  EXPECT_EQ(last, "IEND");
  uLongf size = static_cast<uLongf>(picture.height) * (picture.width * 3 + 1);
  picture.rows.resize(size);
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(picture.rows.data()), &size,
                       reinterpret_cast<const Bytef*>(data.data()), data.size()),
            Z_OK);
  EXPECT_EQ(size, picture.rows.size());
  return picture;
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

TEST(ScatterPlot, PngIsWellFormedAndShowsThePoints) {
  const auto file = ScatterPlot{"t", "", "", "", {{-1, -1, ""}, {1, 1, ""}, {0, 0, ""}}}.ToPng();
  ASSERT_TRUE(file.ok());
  const Picture picture = Read(*file);
  EXPECT_EQ(picture.width, 1600);
  EXPECT_EQ(picture.height, 1280);
  // The third point is in the middle of the area: blue, which covers nearly all of the ground.
  const std::string middle = picture.At(2 * (76 + 776) / 2, 2 * (64 + 580) / 2);
  EXPECT_LT(static_cast<unsigned char>(middle[0]), 0x30);
  EXPECT_GT(static_cast<unsigned char>(middle[2]), 0xa0);
  EXPECT_EQ(picture.At(1599, 0), "\xff\xff\xff");
  EXPECT_EQ(*file, *ScatterPlot({"t", "", "", "", {{-1, -1, ""}, {1, 1, ""}, {0, 0, ""}}}).ToPng());
}

// A text that the PNG's font lacks letters for is not drawn, unless most of it can be read.
TEST(ScatterPlot, PngLeavesOutLabelsThatCannotBeRead) {
  const auto png = [](const char* label) {
    return *ScatterPlot{"", "", "", "", {{0, 0, label}}}.ToPng();
  };
  EXPECT_EQ(png("日本語"), png(""));
  EXPECT_NE(png("canapé"), png(""));
  EXPECT_EQ(png("canapé"), png("canap?"));
}

TEST(PixelFont, HasEveryLetterOnce) {
  std::vector<std::string> seen;
  for (char letter = ' '; letter <= '~'; ++letter) {
    std::string pixels;
    for (int row = 0; row < kGlyphRows; ++row) {
      for (int column = 0; column < kGlyphColumns; ++column) {
        pixels += GlyphPixel(letter, column, row) ? '#' : '.';
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), pixels), 0) << letter;
    seen.push_back(pixels);
  }
  EXPECT_TRUE(GlyphPixel('L', 0, 0));
  EXPECT_FALSE(GlyphPixel('L', 1, 0));
  EXPECT_TRUE(GlyphPixel('L', 4, 6));
  EXPECT_EQ(AsciiOf("aé日\n"), "a???");
}

}  // namespace
}  // namespace penstock::plot
