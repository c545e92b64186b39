#include "dialects/shared/file_sender.h"

#include <gtest/gtest.h>

namespace penstock::dialects {
namespace {

// "begin-end", "whole", or "outside".
std::string Range(std::string_view header, uint64_t size) {
  const auto range = ParseByteRange(header, size);
  if (!range.ok()) return "outside";
  if (!*range) return "whole";
  return std::to_string((*range)->begin) + "-" + std::to_string((*range)->end);
}

TEST(ByteRange, OfAFile) {
  EXPECT_EQ(Range("", 10), "whole");
  EXPECT_EQ(Range("bytes=0-", 10), "0-10");
  EXPECT_EQ(Range("bytes=2-4", 10), "2-5");
  EXPECT_EQ(Range("bytes=9-9", 10), "9-10");
  EXPECT_EQ(Range("bytes=2-1000", 10), "2-10");
  EXPECT_EQ(Range("bytes=-3", 10), "7-10");
  EXPECT_EQ(Range("bytes=-30", 10), "0-10");
  EXPECT_EQ(Range("Bytes=0-3", 10), "0-4");
  EXPECT_EQ(Range("bytes=1-99999999999999999999999", 10), "1-10");
  EXPECT_EQ(Range("bytes=-99999999999999999999999", 10), "0-10");
}

TEST(ByteRange, OutsideOfTheFile) {
  EXPECT_EQ(Range("bytes=10-", 10), "outside");
  EXPECT_EQ(Range("bytes=10-12", 10), "outside");
  EXPECT_EQ(Range("bytes=-0", 10), "outside");
  EXPECT_EQ(Range("bytes=99999999999999999999999-", 10), "outside");
  EXPECT_EQ(Range("bytes=0-", 0), "outside");
  EXPECT_EQ(Range("bytes=-1", 0), "outside");
}

TEST(ByteRange, WhatIsNotOneRangeIsTheWhole) {
  for (const char* header : {"lines=0-4", "bytes=0-1,3-4", "bytes=5", "bytes=a-b", "bytes=4-2",
                             "bytes=--1", "bytes=-", "bytes= 0-1"}) {
    EXPECT_EQ(Range(header, 10), "whole") << header;
  }
}

}  // namespace
}  // namespace penstock::dialects
