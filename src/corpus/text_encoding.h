// Conversion of other encodings to UTF-8, and the check of UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::corpus {

enum class TextEncoding {
  kUtf8,
  kLatin1,       // ISO 8859-1
  kWindows1252,  // of whatwg.org's encoding standard, without its five C1 controls
  kUtf16,        // the byte order mark says the order; without one: little-endian
};

// "utf-8", "latin1", "windows-1252", "utf-16".
const char* TextEncodingName(TextEncoding encoding);

// The position of the first byte that belongs to no UTF-8 character; npos if all bytes do.
size_t FindNotUtf8(std::string_view text);

// Turns a stream of bytes into UTF-8, block by block. Bytes without a character in the encoding
// become kNoCharacter, which is not valid UTF-8, so that their row is found to be broken.
class Transcoder {
 public:
  static constexpr char kNoCharacter = '\xff';

  explicit Transcoder(TextEncoding encoding) : encoding_(encoding) {}

  // Appends to `text`. A character that is cut by the end of `bytes` waits for the next block.
  void Append(std::string_view bytes, std::string* text);
  // No more bytes come.
  void Finish(std::string* text);

 private:
  void AppendUtf16Unit(unsigned unit, std::string* text);

  TextEncoding encoding_;
  bool at_begin_ = true;
  bool big_endian_ = false;
  int first_byte_ = -1;  // of a unit of UTF-16 whose other byte is still to come
  unsigned high_ = 0;    // surrogate that waits for its other half
};

}  // namespace penstock::corpus
