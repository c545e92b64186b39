#include "plot/svg.h"

#include <fmt/format.h>

namespace penstock::plot {

std::string SvgBegin(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<style>.bg{{fill:#fff}}.t{{fill:#222}}.g{{stroke:#ddd}}.a{{stroke:#222}}"
      // A rim of the ground's colour, so that a line does not run through a label.
      ".l{{stroke:#fff;stroke-width:3;paint-order:stroke}}"
      "@media(prefers-color-scheme:dark){{.bg{{fill:#16181c}}.t{{fill:#ddd}}.g{{stroke:#3a3d44}}"
      ".a{{stroke:#ccc}}.l{{stroke:#16181c}}}}</style>\n"
      "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
      width, height);
}

std::string SvgEscaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string SvgText(double x, double y, const char* anchor, double size, const std::string& text,
                    const char* style) {
  return fmt::format(
      "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{:g}\">{}"
      "</text>\n",
      style, x, y, anchor, size, SvgEscaped(text));
}

std::string SvgTextUpwards(double x, double y, const std::string& text) {
  return fmt::format(
      "<text class=\"t\" text-anchor=\"middle\" transform=\"translate({:g} {:.1f}) "
      "rotate(-90)\">{}</text>\n",
      x, y, SvgEscaped(text));
}

std::string SvgLine(const char* style, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
      y1, x2, y2);
}

}  // namespace penstock::plot
