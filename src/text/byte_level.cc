#include "text/byte_level.h"

#include <array>

#include "unicode/utf8.h"

namespace penstock::text {
namespace {

struct Alphabet {
  std::array<char32_t, 256> chars;
  std::array<std::string, 256> utf8;
  std::array<int16_t, 0x200> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      chars[b] = printable ? char32_t(b) : next++;
      bytes[chars[b]] = int16_t(b);
      unicode::AppendUtf8(chars[b], &utf8[b]);
    }
  }
};

const Alphabet& GetAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

char32_t ByteLevelChar(unsigned char byte) { return GetAlphabet().chars[byte]; }
int ByteOfByteLevelChar(char32_t c) { return c < 0x200 ? GetAlphabet().bytes[c] : -1; }
std::string_view ByteLevelUtf8(unsigned char byte) { return GetAlphabet().utf8[byte]; }

bool ByteLevelToBytes(std::string_view token, std::string* bytes) {
  const size_t size = bytes->size();
  for (size_t at = 0; at < token.size();) {
    int length;
    const int byte = ByteOfByteLevelChar(unicode::DecodeUtf8(token.data() + at, &length));
    if (byte < 0) {
      bytes->resize(size);
      return false;
    }
    bytes->push_back(char(byte));
    at += length;
  }
  return true;
}

}  // namespace penstock::text
