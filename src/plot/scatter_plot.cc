#include "plot/scatter_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/svg.h"

namespace penstock::plot {
namespace {

constexpr double kPlotWidth = 800;
constexpr double kPlotHeight = 640;
constexpr double kPlotLeft = 76;
constexpr double kPlotRight = 24;
constexpr double kPlotTop = 64;
constexpr double kPlotBottom = 60;
constexpr double kMargin = 14;  // between the outermost points and the axes
constexpr double kTextSize = 13;
constexpr double kLabelSize = 11;
constexpr size_t kLabelLetters = 36;

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  bool Overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// The scale of an axis: a value is at `pixel` + (value - `value`) * `per_unit`.
struct Scale {
  double value = 0;
  double pixel = 0;
  double per_unit = 1;

  double At(double x) const { return pixel + (x - value) * per_unit; }
  double ValueAt(double position) const { return value + (position - pixel) / per_unit; }
};

// The middle of the values from `low` to `high`.
double Middle(double low, double high) { return low + (high - low) / 2; }

// 1, 2 or 5 times a power of ten: the least that is `step` or more.
double RoundStep(double step) {
  const double decade = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= step) return factor * decade;
  }
  return 10 * decade;
}

std::string TickText(double value, double step) {
  return fmt::format("{:g}", std::abs(value) < step / 2 ? 0.0 : value);
}

// The first letters of a label, whole characters.
std::string Shortened(const std::string& label) {
  size_t letters = 0;
  for (size_t at = 0; at < label.size(); ++at) {
    if ((static_cast<unsigned char>(label[at]) & 0xc0) == 0x80) continue;
    if (letters++ == kLabelLetters) return label.substr(0, at) + "...";
  }
  return label;
}

// At most: which font a viewer takes is not known. Letters of usual ones are up to 0.6 of the size
// wide, those of Chinese and its neighbours as wide as high.
double WidthOf(const std::string& text, double size) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80) width += byte >= 0xe2 ? size : 0.6 * size;
  }
  return width;
}

class Drawing {
 public:
  explicit Drawing(const ScatterPlot& plot) : plot_(plot), out_(SvgBegin(kPlotWidth, kPlotHeight)) {
    const size_t count = plot.points.size();
    radius_ = count <= 100 ? 4 : count <= 1000 ? 3 : count <= 4000 ? 2 : 1.5;
    opacity_ = count <= 100 ? 0.9 : count <= 1000 ? 0.6 : count <= 4000 ? 0.45 : 0.35;
    double low[2] = {0, 0};
    double high[2] = {0, 0};
    for (size_t i = 0; i < count; ++i) {
      const double at[2] = {plot.points[i].x, plot.points[i].y};
      for (int axis = 0; axis < 2; ++axis) {
        low[axis] = i == 0 ? at[axis] : std::min(low[axis], at[axis]);
        high[axis] = i == 0 ? at[axis] : std::max(high[axis], at[axis]);
      }
    }
    const double unit =
        std::max((high[0] - low[0]) / (kPlotWidth - kPlotLeft - kPlotRight - 2 * kMargin),
                 (high[1] - low[1]) / (kPlotHeight - kPlotTop - kPlotBottom - 2 * kMargin));
    const double per_unit = unit > 0 ? 1 / unit : (kPlotHeight - kPlotTop - kPlotBottom) / 2;
    x_ = {Middle(low[0], high[0]), Middle(kPlotLeft, kPlotWidth - kPlotRight), per_unit};
    y_ = {Middle(low[1], high[1]), Middle(kPlotTop, kPlotHeight - kPlotBottom), -per_unit};
  }

  void Frame() {
    out_ += SvgText(kPlotLeft, 26, "start", 15, plot_.title);
    out_ += SvgText(kPlotLeft, 46, "start", kTextSize, plot_.note);
    out_ += SvgText(Middle(kPlotLeft, kPlotWidth - kPlotRight), kPlotHeight - 16, "middle",
                    kTextSize, plot_.x_label);
    out_ += SvgTextUpwards(20, Middle(kPlotTop, kPlotHeight - kPlotBottom), plot_.y_label);
    const double step = RoundStep(90 / x_.per_unit);
    ForEachTick(x_, kPlotLeft, kPlotWidth - kPlotRight, step, [&](double value, double at) {
      out_ += SvgLine("g", at, kPlotTop, at, kPlotHeight - kPlotBottom);
      out_ +=
          SvgText(at, kPlotHeight - kPlotBottom + 18, "middle", kTextSize, TickText(value, step));
    });
    ForEachTick(y_, kPlotTop, kPlotHeight - kPlotBottom, step, [&](double value, double at) {
      out_ += SvgLine("g", kPlotLeft, at, kPlotWidth - kPlotRight, at);
      out_ += SvgText(kPlotLeft - 8, at + 4, "end", kTextSize, TickText(value, step));
    });
    out_ += SvgLine("a", kPlotLeft, kPlotHeight - kPlotBottom, kPlotWidth - kPlotRight,
                    kPlotHeight - kPlotBottom);
    out_ += SvgLine("a", kPlotLeft, kPlotTop, kPlotLeft, kPlotHeight - kPlotBottom);
  }

  void Dots() {
    for (const auto& point : plot_.points) {
      out_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"#0072b2\" fill-opacity=\"{:g}\"",
          x_.At(point.x), y_.At(point.y), radius_, opacity_);
      out_ += point.label.empty() ? "/>\n"
                                  : "><title>" + SvgEscaped(point.label) + "</title></circle>\n";
    }
  }

  std::string End() { return std::move(out_) + kSvgEnd; }

  // In the order of the points, each at the first of four places that is free.
  void Labels() {
    std::vector<Box> placed;
    for (const auto& point : plot_.points) {
      if (placed.size() == ScatterPlot::kLabelsMax) break;
      const std::string label = Shortened(point.label);
      if (label.empty()) continue;
      const double width = WidthOf(label, kLabelSize);
      const double x = x_.At(point.x);
      const double y = y_.At(point.y);
      const double gap = radius_ + 3;
      const Place places[] = {{x + gap, y + 4, kStart},
                              {x - gap, y + 4, kEnd},
                              {x, y - gap, kMiddle},
                              {x, y + gap + kLabelSize, kMiddle}};
      const Place* const place = FreeOf(places, width, placed, point);
      if (place == nullptr) continue;
      out_ += SvgText(place->x, place->y, place->anchor, kLabelSize, label, "t l");
      placed.push_back(BoxAt(*place, width));
    }
  }

 private:
  static constexpr double kDescent = 3;
  static constexpr const char *kStart = "start", *kMiddle = "middle", *kEnd = "end";

  // Where a text may stand, on the line y.
  struct Place {
    double x = 0;
    double y = 0;
    const char* anchor = kStart;
  };

  static Box BoxAt(const Place& place, double width) {
    const double before = place.anchor == kStart ? 0 : place.anchor == kMiddle ? width / 2 : width;
    const double left = place.x - before;
    return {left, place.y - kLabelSize, left + width, place.y + kDescent};
  }

  template <typename Use>
  static void ForEachTick(const Scale& scale, double from, double to, double step, Use use) {
    const double low = std::min(scale.ValueAt(from), scale.ValueAt(to));
    const double high = std::max(scale.ValueAt(from), scale.ValueAt(to));
    const double first = std::ceil(low / step);
    for (int i = 0; (first + i) * step <= high; ++i) {
      use((first + i) * step, scale.At((first + i) * step));
    }
  }

  bool CoversAPoint(const Box& box, const ScatterPlot::Point& own) const {
    return std::any_of(plot_.points.begin(), plot_.points.end(), [&](const auto& point) {
      const double x = x_.At(point.x);
      const double y = y_.At(point.y);
      return &point != &own && box.Overlaps({x - radius_, y - radius_, x + radius_, y + radius_});
    });
  }

  // The first of four places that covers nothing; else, of few points, one that covers no label.
  const Place* FreeOf(const Place (&places)[4], double width, const std::vector<Box>& placed,
                      const ScatterPlot::Point& own) const {
    const Place* second_best = nullptr;
    for (const Place& place : places) {
      const Box box = BoxAt(place, width);
      const bool inside = box.left > kPlotLeft && box.right < kPlotWidth - 4 &&
                          box.top > kPlotTop && box.bottom < kPlotHeight - kPlotBottom;
      if (!inside || std::any_of(placed.begin(), placed.end(),
                                 [&](const Box& other) { return box.Overlaps(other); })) {
        continue;
      }
      if (!CoversAPoint(box, own)) return &place;
      if (second_best == nullptr && plot_.points.size() <= ScatterPlot::kFewPoints) {
        second_best = &place;
      }
    }
    return second_best;
  }

  const ScatterPlot& plot_;
  std::string out_;
  double radius_ = 0;
  double opacity_ = 0;
  Scale x_;
  Scale y_;
};

}  // namespace

std::string ScatterPlot::ToSvg() const {
  Drawing drawing(*this);
  drawing.Frame();
  drawing.Dots();
  drawing.Labels();
  return drawing.End();
}

}  // namespace penstock::plot
