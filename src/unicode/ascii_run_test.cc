#include "unicode/ascii_run.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace penstock::unicode {
namespace {

// Every byte behind every number of letters, with enough text behind it.
TEST(AsciiRun, EndsAtTheFirstOtherByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const bool letter = byte < 128 && std::isalpha(byte) != 0;
    const bool alnum = byte < 128 && std::isalnum(byte) != 0;
    for (size_t before = 0; before < 15; ++before) {
      const std::string head = std::string("azAZmQbYcXdWeVf").substr(0, before);
      const std::string text = head + static_cast<char>(byte) + std::string(20, '.');
      const size_t letters = SomeAsciiLetters(text), alnums = SomeAsciiAlnum(text);
      // Without vectors they are 0.
      EXPECT_TRUE(letters == 0 || letters == before + (letter ? 1 : 0)) << byte << " " << before;
      EXPECT_TRUE(alnums == 0 || alnums == before + (alnum ? 1 : 0)) << byte << " " << before;
#if defined(__SSE2__)
      EXPECT_EQ(letters, before + (letter ? 1 : 0));
      EXPECT_EQ(alnums, before + (alnum ? 1 : 0));
#endif
    }
  }
}

// Every byte in every place of 64.
TEST(AsciiRun, BitsOfLettersAndDigits) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t at = 0; at < 64; ++at) {
      std::string text(64, '.');
      text[at] = static_cast<char>(byte);
      uint64_t bits = 0;
      if (!AsciiAlnumBits(text, &bits)) continue;  // without vectors
      const bool alnum = byte < 128 && std::isalnum(byte) != 0;
      ASSERT_EQ(bits, uint64_t{alnum} << at) << byte << " " << at;
    }
  }
  uint64_t bits = 0;
  EXPECT_FALSE(AsciiAlnumBits(std::string(63, 'a'), &bits));
}

TEST(AsciiRun, PrintedBytesBecomeLowerCase) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t at = 0; at < 16; ++at) {
      std::string text(16, 'Q'), lower(16, 'q');
      text[at] = lower[at] = static_cast<char>(byte);
      const std::string before = text;
      if (byte >= 'A' && byte <= 'Z') lower[at] = static_cast<char>(byte + 32);
      const bool printed = LowercasePrinted16(text.data(), false);
      EXPECT_EQ(text, before);
      const bool lowered = LowercasePrinted16(text.data(), true);
#if defined(__SSE2__)
      EXPECT_EQ(printed, byte >= 0x20 && byte < 0x7F);
      EXPECT_EQ(lowered, printed);
#endif
      EXPECT_EQ(text, lowered ? lower : before) << byte << " " << at;
      EXPECT_EQ(printed, lowered);
    }
  }
}

TEST(AsciiRun, ReadsNothingBehindTheEnd) {
  for (size_t size = 0; size < 16; ++size) {
    const std::string text(size, 'a');
    EXPECT_EQ(SomeAsciiLetters(text), 0u);
    EXPECT_EQ(SomeAsciiAlnum(text), 0u);
  }
  EXPECT_LE(SomeAsciiLetters(std::string(40, 'a')), 16u);
}

}  // namespace
}  // namespace penstock::unicode
