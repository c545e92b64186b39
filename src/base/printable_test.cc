#include "base/printable.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Printable, WhatIsTextStaysText) {
  for (const char* text : {"", "plain", "\\d+ \"quoted\"", "Gr\xc3\xbc\xc3\x9f",
                           "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x98\x80", "e\xcc\x81"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(Printable, ControlsAreEscaped) {
  EXPECT_EQ(Printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(Printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "\\u{9b}2J");
  EXPECT_EQ(Printable("a\nb\xc2\x85", 100, AsciiControls::kKept), "a\nb\\u{85}");
}

TEST(Printable, DirectionsAndSeparatorsAreEscaped) {
  for (const auto& [text, escaped] : {std::pair{"\xe2\x80\xa8", "\\u{2028}"},
                                      {"\xe2\x80\xa9", "\\u{2029}"},
                                      {"\xe2\x80\xaa", "\\u{202a}"},
                                      {"\xe2\x80\xae", "\\u{202e}"},
                                      {"\xe2\x81\xa6", "\\u{2066}"},
                                      {"\xe2\x81\xa9", "\\u{2069}"},
                                      {"\xe2\x80\x8f", "\\u{200f}"},
                                      {"\xef\xbb\xbf", "\\u{feff}"},
                                      {"\xef\xbf\xbe", "\\u{fffe}"},
                                      {"\xf3\xa0\x81\x81", "\\u{e0041}"}}) {
    EXPECT_EQ(Printable(text), escaped);
  }
}

TEST(Printable, BytesThatAreNoUtf8AreEscapedOneByOne) {
  EXPECT_EQ(Printable("a\x9b"
                      "b\xff"),
            "a\\x9bb\\xff");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // over U+10FFFF
  EXPECT_EQ(Printable("\xe6\x97"), "\\xe6\\x97");                    // cut off
}

TEST(Printable, LengthIsBounded) {
  EXPECT_EQ(Printable(std::string(100, 'x'), 100), std::string(100, 'x'));
  EXPECT_EQ(Printable(std::string(110, 'x'), 100), std::string(100, 'x') + "... (10 more bytes)");
  EXPECT_EQ(Printable("\xc3\xa9\xc3\xa9\xc3\xa9", 3), "\xc3\xa9\xc3\xa9... (2 more bytes)");
  EXPECT_LT(Printable(std::string(1 << 20, '\x1b')).size(), kPrintableBytesMax + 40);
}

}  // namespace
}  // namespace penstock
