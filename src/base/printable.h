// Makes foreign text (of a request, a file, another server) fit for a log line or a terminal: it
// stays on its line, cannot move the cursor or turn the direction of the text after it, and has a
// bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr size_t kPrintableBytesMax = 4096;

enum class AsciiControls {
  kEscaped,
  kKept,  // for a writer that escapes them itself, such as a JSON string
};

// Well-formed UTF-8, with these escaped:
//   ASCII controls and DEL    \n \r \t, else \x1b
//   bytes that are not UTF-8  \xff
//   C1 controls, marks and overrides of direction, separators of lines and paragraphs, invisible
//   tags, noncharacters       \u{202e}
// Other characters, the backslash among them, stay as they are. A longer text keeps about
// `bytes_max` bytes, whole characters, and ends with the number of bytes left out.
std::string Printable(std::string_view text, size_t bytes_max = kPrintableBytesMax,
                      AsciiControls controls = AsciiControls::kEscaped);

// A name or value from a file or a request, short enough for an error message: Printable, of about
// 200 bytes.
std::string Shown(std::string_view text);

}  // namespace penstock
