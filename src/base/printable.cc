#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace penstock {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 = no well-formed sequence begins here
};

// The first character of a text that is not empty (RFC 3629: no overlong forms, no surrogates).
Character FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf5   ? 0
                       : lead >= 0xf0 ? 4
                       : lead >= 0xe0 ? 3
                       : lead >= 0xc2 ? 2
                                      : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

bool In(uint32_t code, uint32_t first, uint32_t last) { return code >= first && code <= last; }

bool IsUnsafe(uint32_t code) {
  return In(code, 0x80, 0x9f) ||       // C1: U+009B begins a terminal's commands as ESC [ does
         code == 0x61c ||              // Arabic letter mark
         In(code, 0x200e, 0x200f) ||   // left-to-right and right-to-left marks
         In(code, 0x2028, 0x202e) ||   // separators of lines and paragraphs, overrides
         In(code, 0x2066, 0x2069) ||   // isolates
         code == 0xfeff ||             // byte order mark
         In(code, 0xfdd0, 0xfdef) ||   // noncharacters
         (code & 0xfffe) == 0xfffe ||  //
         In(code, 0xe0000, 0xe007f);   // tags
}

void AppendAscii(unsigned char c, AsciiControls controls, std::string* out) {
  if (controls == AsciiControls::kKept || (c >= 0x20 && c != 0x7f)) {
    out->push_back(static_cast<char>(c));
  } else if (c == '\n') {
    *out += "\\n";
  } else if (c == '\r') {
    *out += "\\r";
  } else if (c == '\t') {
    *out += "\\t";
  } else {
    fmt::format_to(std::back_inserter(*out), "\\x{:02x}", c);
  }
}

}  // namespace

std::string Printable(std::string_view text, size_t bytes_max, AsciiControls controls) {
  std::string out;
  out.reserve(text.size() < bytes_max ? text.size() : bytes_max);
  while (!text.empty()) {
    if (out.size() >= bytes_max) {
      fmt::format_to(std::back_inserter(out), "... ({} more bytes)", text.size());
      break;
    }
    const Character first = FirstOf(text);
    if (first.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (first.bytes == 1) {
      AppendAscii(static_cast<unsigned char>(text[0]), controls, &out);
    } else if (IsUnsafe(first.code)) {
      fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}", first.code);
    } else {
      out += text.substr(0, first.bytes);
    }
    text.remove_prefix(first.bytes == 0 ? 1 : first.bytes);
  }
  return out;
}

std::string Shown(std::string_view text) {
  constexpr size_t kShownBytesMax = 200;
  return Printable(text, kShownBytesMax);
}

}  // namespace penstock
