// The byte-level alphabet of GPT-2: each byte as one printable character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::text {

// Character that stands for `byte`: itself if printable, else U+0100 upwards in byte order.
char32_t ByteLevelChar(unsigned char byte);
// Byte that `c` stands for; -1 if none.
int ByteOfByteLevelChar(char32_t c);
// UTF-8 of ByteLevelChar, 1 or 2 bytes.
std::string_view ByteLevelUtf8(unsigned char byte);
// Turns a token back into bytes; false (and nothing appended) if a character is not in the
// alphabet.
bool ByteLevelToBytes(std::string_view token, std::string* bytes);

}  // namespace penstock::text
