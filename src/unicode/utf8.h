// UTF-8 in and out. Everything here but SanitizeUtf8 expects valid input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8_check.h"  // IsValidUtf8

namespace penstock::unicode {

inline constexpr char32_t kReplacementChar = 0xFFFD;

// Bytes of the character that starts with `lead`.
inline int Utf8Length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}
inline bool IsUtf8Continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The character at `p`; *length gets its bytes.
inline char32_t DecodeUtf8(const char* p, int* length) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  if (b[0] < 0x80) {
    *length = 1;
    return b[0];
  }
  if (b[0] < 0xE0) {
    *length = 2;
    return char32_t(b[0] & 0x1F) << 6 | (b[1] & 0x3F);
  }
  if (b[0] < 0xF0) {
    *length = 3;
    return char32_t(b[0] & 0x0F) << 12 | char32_t(b[1] & 0x3F) << 6 | (b[2] & 0x3F);
  }
  *length = 4;
  return char32_t(b[0] & 0x07) << 18 | char32_t(b[1] & 0x3F) << 12 | char32_t(b[2] & 0x3F) << 6 |
         (b[3] & 0x3F);
}

// The character that ends just before `end`; text starts at or before it.
inline char32_t DecodeUtf8Before(const char* end, int* length) {
  const char* p = end - 1;
  while (IsUtf8Continuation(static_cast<unsigned char>(*p))) --p;
  return DecodeUtf8(p, length);
}

inline void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(char(c));
  } else if (c < 0x800) {
    const char bytes[2] = {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
    out->append(bytes, 2);
  } else if (c < 0x10000) {
    const char bytes[3] = {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)),
                           char(0x80 | (c & 0x3F))};
    out->append(bytes, 3);
  } else {
    const char bytes[4] = {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)),
                           char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    out->append(bytes, 4);
  }
}

// Characters in `text`.
size_t Utf8Count(std::string_view text);

// Length of the longest prefix that is whole characters, each valid; and what follows:
enum class Utf8Tail {
  kEnd,         // nothing
  kIncomplete,  // the start of a character that more bytes could complete
  kInvalid,     // an ill-formed subpart of *bad_length bytes
};
Utf8Tail ScanUtf8(std::string_view text, size_t* valid_length, size_t* bad_length);

// Appends `bytes`, with U+FFFD for each maximal ill-formed subpart (Unicode 15, section 3.9).
void AppendSanitizedUtf8(std::string_view bytes, std::string* out);
// True if `text` was valid; otherwise *storage holds the cleaned text.
bool SanitizeUtf8(std::string_view text, std::string* storage);

}  // namespace penstock::unicode
