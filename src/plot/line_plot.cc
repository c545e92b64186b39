#include "plot/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plot/svg.h"

namespace penstock::plot {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 80;
constexpr double kRight = 190;  // the legend stands there
constexpr double kTop = 44;
constexpr double kBottom = 60;
constexpr double kLogSpan = 20;

// Distinct for the colour-blind too (Okabe and Ito), and visible on black and on white.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#8c8c00", "#888888"};

struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  std::vector<double> ticks;

  // 0 at low, 1 at high.
  double At(double value) const {
    if (log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return (value - low) / (high - low);
  }
};

// From 0, with four to eight ticks at 1, 2 or 5 times a power of ten.
Axis LinearAxis(double max) {
  Axis axis;
  if (max <= 0) max = 1;
  double step = std::pow(10, std::floor(std::log10(max / 4)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (max / step <= 8) break;
    step *= factor;
  }
  axis.high = std::ceil(max / step) * step;
  for (int i = 0; i * step <= axis.high * 1.0001; ++i) axis.ticks.push_back(i * step);
  return axis;
}

Axis LogAxis(double min, double max) {
  Axis axis;
  axis.log = true;
  axis.low = std::pow(10, std::floor(std::log10(min)));
  axis.high = axis.low;
  for (double decade = axis.low; axis.high < max; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (axis.high >= max && !axis.ticks.empty()) break;
      axis.high = decade * factor;
      axis.ticks.push_back(axis.high);
    }
  }
  if (axis.ticks.size() < 2) axis.ticks.push_back(axis.high = axis.low * 10);
  return axis;
}

std::string TickText(double value) {
  return value >= 10'000 ? fmt::format("{:g}k", value / 1000) : fmt::format("{:g}", value);
}

class Svg {
 public:
  Svg(Axis x, Axis y) : x_(std::move(x)), y_(std::move(y)) {}

  void Begin(const LinePlot& plot) {
    out_ = SvgBegin(kWidth, kHeight);
    out_ += SvgText(kLeft, 26, "start", 15, plot.title);
    Text((kLeft + kWidth - kRight) / 2, kHeight - 16, "middle", plot.x_label);
    out_ += SvgTextUpwards(20, (kTop + kHeight - kBottom) / 2, plot.y_label);
  }

  void Axes() {
    for (const double tick : x_.ticks) {
      Line("g", X(tick), kTop, X(tick), kHeight - kBottom);
      Text(X(tick), kHeight - kBottom + 18, "middle", TickText(tick));
    }
    for (const double tick : y_.ticks) {
      Line("g", kLeft, Y(tick), kWidth - kRight, Y(tick));
      Text(kLeft - 8, Y(tick) + 4, "end", TickText(tick));
    }
    Line("a", kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom);
    Line("a", kLeft, kTop, kLeft, kHeight - kBottom);
  }

  // `place`: in the legend.
  void AddLine(const LinePlot::Series& series, size_t place) {
    const std::string stroke = StrokeOf(series);
    std::string path;
    for (const auto& point : series.points) {
      if (!HasPlace(point)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", X(point.x), Y(point.y));
    }
    out_ += fmt::format("<path d=\"{}\" fill=\"none\" {}/>\n", path, stroke);
    for (const auto& point : series.points) {
      if (!HasPlace(point)) continue;
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
                          X(point.x), Y(point.y), ColourOf(series));
    }
    const double y = LegendY(place);
    out_ += fmt::format("<path d=\"M{:g} {:g} h22\" fill=\"none\" {}/>\n", kWidth - kRight + 14,
                        y - 4, stroke);
    Text(kWidth - kRight + 42, y, "start", series.name, 12);
  }

  // Above all lines.
  void AddLabels(const LinePlot::Series& series) {
    for (const auto& point : series.points) {
      if (point.label.empty() || !HasPlace(point)) continue;
      out_ += SvgText(X(point.x), Y(point.y) - 8, "middle", 10, point.label, "t l");
    }
  }

  void AddNote(const std::string& note, size_t place) {
    Text(kWidth - kRight + 14, LegendY(place) + 6, "start", note, 11);
  }

  std::string End() { return std::move(out_) + kSvgEnd; }

 private:
  static const char* ColourOf(const LinePlot::Series& series) {
    return kColours[static_cast<size_t>(series.hue) % std::size(kColours)];
  }
  static std::string StrokeOf(const LinePlot::Series& series) {
    return fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", ColourOf(series),
                       series.dashed ? " stroke-dasharray=\"6 4\"" : "");
  }
  static double LegendY(size_t place) { return kTop + 10 + 20 * static_cast<double>(place); }
  bool HasPlace(const LinePlot::Point& point) const {
    return std::isfinite(point.x) && std::isfinite(point.y) && (!y_.log || point.y > 0);
  }
  double X(double value) const { return kLeft + x_.At(value) * (kWidth - kLeft - kRight); }
  double Y(double value) const {
    return kHeight - kBottom - y_.At(value) * (kHeight - kTop - kBottom);
  }
  void Text(double x, double y, const char* anchor, const std::string& text, int size = 13) {
    out_ += SvgText(x, y, anchor, size, text);
  }
  void Line(const char* style, double x1, double y1, double x2, double y2) {
    out_ += SvgLine(style, x1, y1, x2, y2);
  }

  const Axis x_;
  const Axis y_;
  std::string out_;
};

}  // namespace

std::string LinePlot::ToSvg() const {
  double x_max = 0;
  double y_max = 0;
  double y_min = std::numeric_limits<double>::infinity();
  for (const Series& one : series) {
    for (const Point& point : one.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      x_max = std::max(x_max, point.x);
      y_max = std::max(y_max, point.y);
      if (point.y > 0) y_min = std::min(y_min, point.y);
    }
  }
  const bool log = std::isfinite(y_min) && y_max > kLogSpan * y_min;
  Svg svg(LinearAxis(x_max), log ? LogAxis(y_min, y_max) : LinearAxis(y_max));
  svg.Begin(*this);
  svg.Axes();
  for (size_t i = 0; i < series.size(); ++i) svg.AddLine(series[i], i);
  for (const Series& one : series) svg.AddLabels(one);
  if (!label_note.empty()) svg.AddNote(label_note, series.size());
  return svg.End();
}

}  // namespace penstock::plot
