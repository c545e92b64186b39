// LinePlot: a chart of lines as an SVG file. One thread.
#pragma once

#include <string>
#include <vector>

namespace penstock::plot {

struct LinePlot {
  struct Point {
    double x = 0;
    double y = 0;
    std::string label;  // beside the point; may be empty
  };
  struct Series {
    std::string name;
    std::vector<Point> points;  // joined in this order
    int hue = 0;                // series that belong together have one hue,
    bool dashed = false;        // and different strokes
  };
  std::string title;
  std::string x_label;  // with the unit
  std::string y_label;
  std::vector<Series> series;
  std::string label_note;  // meaning of the points' labels; under the legend

  // x from 0, linear; y logarithmic where its values span more than a factor of 20, else from 0.
  // Points that are not finite, and those not above 0 on a logarithmic axis, are left out.
  std::string ToSvg() const;
};

}  // namespace penstock::plot
