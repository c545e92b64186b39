#include "http/chunk_check.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

using namespace std::string_literals;

// "ok" for a whole body, "more" for one that is not at its end, else what is wrong; the same
// whether it comes at once or byte by byte.
std::string Verdict(const std::string& body, size_t trailer_bytes_max = 1000) {
  const auto say = [](const char* wrong, const ChunkCheck& check) -> std::string {
    return wrong != nullptr ? wrong : check.AtEnd() ? "ok" : "more";
  };
  ChunkCheck whole(trailer_bytes_max);
  const char* const wrong = whole.Check(body);
  if (wrong == nullptr) whole.Used(body.size());
  const std::string verdict = say(wrong, whole);

  ChunkCheck bytes(trailer_bytes_max);
  const char* byte_wrong = nullptr;
  size_t used = 0;
  for (size_t i = 1; i <= body.size() && byte_wrong == nullptr; ++i) {
    byte_wrong = bytes.Check(std::string_view(body).substr(used, i - used));
    if (byte_wrong == nullptr && i % 3 == 0) {  // a parser that takes some now and then
      bytes.Used(i - used);
      used = i;
    }
  }
  if (byte_wrong == nullptr) bytes.Used(body.size() - used);
  EXPECT_EQ(say(byte_wrong, bytes), verdict) << body;
  return verdict;
}

TEST(ChunkCheck, TheGrammarIsTaken) {
  for (const std::string& body : {
           "0\r\n\r\n"s,
           "000\r\n\r\n"s,
           "5\r\nhello\r\n0\r\n\r\n"s,
           "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"s,
           "2\r\n\r\n\r\n0\r\n\r\n"s,
           "0000000000000000000005\r\nhello\r\n0\r\n\r\n"s,
           "1;a\r\nx\r\n0;b\r\n\r\n"s,
           "1;a=b;c=\"d e\";f\r\nx\r\n0\r\n\r\n"s,
           "1;a=\"\\\"; \\\\ \t\xff\"\r\nx\r\n0\r\n\r\n"s,
           "1 ; a = b ; c = \"d\" ;e\r\nx\r\n0\r\n\r\n"s,
           "0\r\nTrailer: x\r\nEmpty:\r\nAnother: a\tb \xff\r\n\r\n"s,
       }) {
    EXPECT_EQ(Verdict(body), "ok") << body;
    for (size_t i = 0; i < body.size(); ++i) EXPECT_EQ(Verdict(body.substr(0, i)), "more") << body;
  }
}

TEST(ChunkCheck, WhatFollowsTheEndIsNotLookedAt) {
  ChunkCheck check(1000);
  const std::string body = "1\r\nx\r\n0\r\n\r\n";
  EXPECT_EQ(check.Check(body + "\n\0 GET"), nullptr);
  check.Used(body.size() - 1);
  EXPECT_FALSE(check.AtEnd());
  check.Used(1);
  EXPECT_TRUE(check.AtEnd());
}

TEST(ChunkCheck, EverythingElseIsRefused) {
  for (const std::string& body : {
           // sizes
           "\r\n"s,
           " 1\r\nx"s,
           "1 \r\nx"s,
           "+1\r\n"s,
           "-1\r\n"s,
           "0x1\r\n"s,
           "1,\r\n"s,
           "g\r\n"s,
           ";a\r\n"s,
           "1\t\r\n"s,
           "1_0\r\n"s,
           "1\0\r\n"s,
           "10000000000000000\r\n"s,
           "fffffffffffffffff\r\n"s,
           // ends of lines
           "1\nx\r\n"s,
           "1\rx\r\n"s,
           "1\r\r\nx"s,
           "1;a\nx\r\n"s,
           "1;a\rx"s,
           "1;a=b\nx"s,
           // data that is not followed by CRLF
           "1\r\nxy\r\n"s,
           "1\r\nx\n"s,
           "1\r\nx\r\r\n"s,
           "1\r\nx0\r\n"s,
           "1\r\nx\rx"s,
           // extensions
           "1;\r\n"s,
           "1;;a\r\n"s,
           "1;=\r\n"s,
           "1;a=\r\n"s,
           "1;a=b=c\r\n"s,
           "1;a b\r\n"s,
           "1;a=\"b\r\n"s,
           "1;a=\"b\nc\"\r\n"s,
           "1;a=\"b\rc\"\r\n"s,
           "1;a=\"b\0c\"\r\n"s,
           "1;a=\"\\\nc\"\r\n"s,
           "1;a=\"b\x7f\"\r\n"s,
           "1;a=\"b\"c\r\n"s,
           "1;\"a\"\r\n"s,
           "1;a\x1b\r\n"s,
           "1;a \r\n"s,
           "1;a=b \r\n"s,
           "1;a=\xff\r\n"s,
           // trailers
           "0\r\n\n"s,
           "0\r\n\rx"s,
           "0\r\na: b\n\r\n"s,
           "0\r\na: b\r\n c\r\n\r\n"s,
           "0\r\n a: b\r\n\r\n"s,
           "0\r\na : b\r\n\r\n"s,
           "0\r\na\r\n\r\n"s,
           "0\r\n: b\r\n\r\n"s,
           "0\r\na: b\0c\r\n\r\n"s,
           "0\r\na: b\rc\r\n\r\n"s,
           "0\r\na: b\x1b[2J\r\n\r\n"s,
       }) {
    const std::string verdict = Verdict(body);
    EXPECT_TRUE(verdict != "ok" && verdict != "more") << body << " -> " << verdict;
  }
}

TEST(ChunkCheck, LengthsAreBounded) {
  const std::string line(kChunkLineBytesMax, 'x');
  EXPECT_EQ(Verdict("1;" + line + "\r\n"), "a chunk's line is too long");
  EXPECT_EQ(Verdict(std::string(kChunkLineBytesMax + 1, '0')), "a chunk's line is too long");
  std::string many;
  for (int i = 0; i < 5; ++i) many += "1;" + line.substr(100) + "\r\nx\r\n";
  EXPECT_EQ(Verdict(many), "chunk extensions are too long");
  EXPECT_EQ(Verdict("0\r\na:" + line + "\r\n\r\n", 1 << 20), "a trailer is too long");
  EXPECT_EQ(Verdict("0\r\na: " + std::string(100, 'x') + "\r\n\r\n", 50), "trailers are too long");
  std::string trailers = "0\r\n";
  for (int i = 0; i < 1000; ++i) trailers += "a: b\r\n";
  EXPECT_EQ(Verdict(trailers), "trailers are too long");
}

}  // namespace
}  // namespace penstock
