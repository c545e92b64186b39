// Canvas: what a chart is drawn on. SVG keeps text as text; PNG has the letters of ASCII only, and
// others become '?'. Positions are in units of which an SVG has one a pixel and a PNG two pixels;
// y grows downwards. One thread.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"

namespace penstock::plot {

class Canvas {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };
  enum class Stroke { kGrid, kAxis };

  virtual ~Canvas() = default;
  // Horizontal or vertical.
  virtual void Line(Stroke stroke, double x1, double y1, double x2, double y2) = 0;
  // `tip`: shown when the pointer is over the dot, if the format can; may be empty.
  virtual void Dot(double x, double y, double radius, double opacity, const std::string& tip) = 0;
  // On the line y. `rim`: of the ground's colour, for text above other things.
  virtual void Text(double x, double y, Anchor anchor, double size, const std::string& text,
                    bool rim) = 0;
  // Reads upwards, centred.
  virtual void TextUpwards(double x, double y, const std::string& text) = 0;
  // Whether most of the text can be read.
  virtual bool Shows(const std::string& text) const = 0;
  // At most.
  virtual double WidthOf(const std::string& text, double size) const = 0;
  // The file. kUnavailable: out of memory for it. No more calls.
  virtual Expected<std::string> Finish() = 0;
};

std::unique_ptr<Canvas> NewSvgCanvas(double width, double height);
std::unique_ptr<Canvas> NewPngCanvas(double width, double height);

}  // namespace penstock::plot
