#include <fmt/format.h>

#include "plot/canvas.h"
#include "plot/svg.h"

namespace penstock::plot {
namespace {

class SvgCanvas final : public Canvas {
 public:
  SvgCanvas(double width, double height) : out_(SvgBegin(width, height)) {}

  void Line(Stroke stroke, double x1, double y1, double x2, double y2) override {
    out_ += SvgLine(stroke == Stroke::kGrid ? "g" : "a", x1, y1, x2, y2);
  }

  void Dot(double x, double y, double radius, double opacity, const std::string& tip) override {
    out_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"#0072b2\" fill-opacity=\"{:g}\"", x,
        y, radius, opacity);
    out_ += tip.empty() ? "/>\n" : "><title>" + SvgEscaped(tip) + "</title></circle>\n";
  }

  void Text(double x, double y, Anchor anchor, double size, const std::string& text,
            bool rim) override {
    const char* const name = anchor == Anchor::kStart    ? "start"
                             : anchor == Anchor::kMiddle ? "middle"
                                                         : "end";
    out_ += SvgText(x, y, name, size, text, rim ? "t l" : "t");
  }

  void TextUpwards(double x, double y, const std::string& text) override {
    out_ += SvgTextUpwards(x, y, text);
  }

  bool Shows(const std::string& /*text*/) const override { return true; }

  // Which font a viewer takes is not known: letters of usual ones are up to 0.6 of the size wide,
  // those of Chinese and its neighbours as wide as high.
  double WidthOf(const std::string& text, double size) const override {
    double width = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte & 0xc0) != 0x80) width += byte >= 0xe2 ? size : 0.6 * size;
    }
    return width;
  }

  Expected<std::string> Finish() override { return std::move(out_) + kSvgEnd; }

 private:
  std::string out_;
};

}  // namespace

std::unique_ptr<Canvas> NewSvgCanvas(double width, double height) {
  return std::make_unique<SvgCanvas>(width, height);
}

}  // namespace penstock::plot
