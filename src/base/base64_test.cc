#include "base/base64.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string Encoded(std::string_view bytes) {
  std::string text;
  AppendBase64({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &text);
  return text;
}

// RFC 4648, section 10.
TEST(Base64, VectorsOfTheRfc) {
  const std::pair<std::string_view, std::string_view> kVectors[] = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kVectors) {
    EXPECT_EQ(Encoded(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
    EXPECT_EQ(DecodeBase64(text.substr(0, text.find('='))), bytes) << "without padding";
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7 >> (i % 3));
  for (size_t size = 0; size <= bytes.size(); size += 37) {
    EXPECT_EQ(DecodeBase64(Encoded(bytes.substr(0, size))), bytes.substr(0, size));
  }
}

TEST(Base64, WhatIsNotBase64IsRefused) {
  for (const char* text :
       {"A", "AAAAA", "A===", "=AAA", "AA=A", "Zg=", "Zm9v=", "Zm9\xff", "Zm 9", "Zm-_", "===="}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
  EXPECT_EQ(DecodeBase64(std::string_view("AA\0A", 4)), std::nullopt);
}

}  // namespace
}  // namespace penstock
