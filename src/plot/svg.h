// Pieces of an SVG file: text stays text; colours follow the viewer's light or dark scheme.
#pragma once

#include <string>

namespace penstock::plot {

// Classes of its style: bg = ground, t = text, g = grid line, a = axis, l = a rim around text.
std::string SvgBegin(double width, double height);
inline constexpr const char* kSvgEnd = "</svg>\n";

// UTF-8 without control characters, as the content of an element or an attribute.
std::string SvgEscaped(const std::string& text);

// `anchor`: start, middle or end. `style`: classes.
std::string SvgText(double x, double y, const char* anchor, double size, const std::string& text,
                    const char* style = "t");
// Reads upwards, centred at (x, y).
std::string SvgTextUpwards(double x, double y, const std::string& text);
// `style`: a class.
std::string SvgLine(const char* style, double x1, double y1, double x2, double y2);

}  // namespace penstock::plot
