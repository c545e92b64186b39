// A font of pixels for the letters of ASCII: five columns and nine rows, of which seven stand on
// the line and two hang below it.
#pragma once

#include <string>
#include <string_view>

namespace penstock::plot {

inline constexpr int kGlyphColumns = 5;
inline constexpr int kGlyphRows = 9;
inline constexpr int kGlyphRowsAbove = 7;
inline constexpr int kGlyphAdvance = 6;  // columns from one letter to the next

// Whether the pixel of the letter is set; a letter that is not there is drawn as '?'.
bool GlyphPixel(char letter, int column, int row);

// `text` (UTF-8) with a letter of ASCII for each character: '?' for those it has not.
std::string AsciiOf(std::string_view text);

}  // namespace penstock::plot
