// Numbers and texts as Python's % and format() write them: what both share.
#pragma once

#include <string>
#include <string_view>

#include "chat/jinja_interp.h"

namespace penstock::chat::jinja {

// Widths and precisions above this are refused.
inline constexpr int kFormatWidthMax = 100'000;

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;          // < > = ^, 0: by type
  char sign = '-';         // - + space
  bool alternate = false;  // '#'
  char comma = 0;          // , or _
  int width = 0;
  int precision = -1;  // -1: none
  char type = 0;
};

// Digits of a number, without its sign.
std::string IntDigits(uint64_t number, char type);                                 // d x X o b
std::string FloatDigits(double number, char type, int precision, bool alternate);  // e f g ...
// Sign, prefix and digits, filled up, to `out`; `right`: the default side.
void AddPadded(const FormatSpec& spec, std::string_view head, std::string_view body, bool right,
               TextBuilder* out);
std::string Grouped(const std::string& digits, char comma);

}  // namespace penstock::chat::jinja
