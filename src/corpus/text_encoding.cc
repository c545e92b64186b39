#include "corpus/text_encoding.h"

#include <cstdint>

#include "base/utf8_check.h"

namespace penstock::corpus {
namespace {

// Of 0x80 to 0x9f; 0: no character.
constexpr uint16_t kWindows1252High[32] = {
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

void AppendCharacter(unsigned code, std::string* text) {
  const auto tail = [&](int shift) {
    text->push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3f)));
  };
  if (code < 0x80) {
    text->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text->push_back(static_cast<char>(0xc0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    text->push_back(static_cast<char>(0xf0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// Bytes of the well-formed character at the front of `text` (Unicode 15, table 3-7); 0: none.
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool outside = (first == 0xed && at(1) > 0x9f) || (first == 0xf4 && at(1) > 0x8f);
  return overlong || outside ? 0 : size;
}

}  // namespace

const char* TextEncodingName(TextEncoding encoding) {
  switch (encoding) {
    case TextEncoding::kUtf8:
      return "utf-8";
    case TextEncoding::kLatin1:
      return "latin1";
    case TextEncoding::kWindows1252:
      return "windows-1252";
    case TextEncoding::kUtf16:
      return "utf-16";
  }
  return "?";
}

size_t FindNotUtf8(std::string_view text) {
  if (IsValidUtf8(text)) return std::string_view::npos;
  size_t i = 0;
  while (i < text.size()) {
    const size_t size = CharacterBytes(text.substr(i));
    if (size == 0) return i;
    i += size;
  }
  return std::string_view::npos;
}

void Transcoder::Append(std::string_view bytes, std::string* text) {
  if (encoding_ == TextEncoding::kUtf8) {
    text->append(bytes);
    return;
  }
  for (const char c : bytes) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (encoding_ == TextEncoding::kUtf16) {
      if (first_byte_ < 0) {
        first_byte_ = static_cast<int>(byte);
        continue;
      }
      const unsigned first = static_cast<unsigned>(first_byte_);
      first_byte_ = -1;
      AppendUtf16Unit(big_endian_ ? first << 8 | byte : byte << 8 | first, text);
      continue;
    }
    unsigned code = byte;
    if (encoding_ == TextEncoding::kWindows1252 && byte >= 0x80 && byte < 0xa0) {
      code = kWindows1252High[byte - 0x80];
    }
    if (code == 0 && byte != 0) {
      text->push_back(kNoCharacter);
    } else {
      AppendCharacter(code, text);
    }
  }
}

void Transcoder::AppendUtf16Unit(unsigned unit, std::string* text) {
  if (at_begin_) {
    at_begin_ = false;
    big_endian_ = unit == 0xfffe;
    if (unit == 0xfeff || unit == 0xfffe) return;  // byte order mark
  }
  const bool low = unit >= 0xdc00 && unit < 0xe000;
  if (high_ != 0) {
    const unsigned high = high_;
    high_ = 0;
    if (low) {
      AppendCharacter(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00), text);
      return;
    }
    text->push_back(kNoCharacter);
  } else if (low) {
    text->push_back(kNoCharacter);
    return;
  }
  if (unit >= 0xd800 && unit < 0xdc00) {
    high_ = unit;
    return;
  }
  AppendCharacter(unit, text);
}

void Transcoder::Finish(std::string* text) {
  if (first_byte_ >= 0 || high_ != 0) text->push_back(kNoCharacter);
  first_byte_ = -1;
  high_ = 0;
}

}  // namespace penstock::corpus
