// ScatterPlot: points with labels as an SVG file. Both axes have one scale, so that distances look
// as they are. One thread.
#pragma once

#include <string>
#include <vector>

namespace penstock::plot {

struct ScatterPlot {
  struct Point {
    double x = 0;
    double y = 0;
    std::string label;  // UTF-8 without control characters; may be empty
  };
  std::string title;
  std::string note;     // below the title; may be empty
  std::string x_label;  // may be empty
  std::string y_label;
  std::vector<Point> points;  // finite

  // Points are smaller and paler the more there are. A label is drawn where it covers no other
  // label, stays on the picture and, of more than kFewPoints, covers no point; long ones are cut.
  static constexpr size_t kFewPoints = 40;
  static constexpr size_t kLabelsMax = 80;
  std::string ToSvg() const;
};

}  // namespace penstock::plot
