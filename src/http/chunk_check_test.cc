#include "http/chunk_check.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <random>
#include <string>

namespace penstock::http {
namespace {

using namespace std::string_literals;

// "ok" for a whole body, "more" for an incomplete one, else the error; the same whether it comes at
// once or byte by byte.
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

TEST(ChunkCheck, ABodyMayComeInAnyNumberOfChunks) {
  std::string body;
  for (int i = 0; i < 50'000; ++i) body += "1\r\nx\r\n";
  body += "0\r\n\r\n";
  ChunkCheck check(16 << 10);
  const char* const wrong = check.Check(body);
  EXPECT_EQ(wrong, nullptr) << wrong;
}

// Where the check sees the end of a body, the parser that takes it apart does too.
TEST(ChunkCheck, TheParserAgreesOnTheEnd) {
  namespace http = boost::beast::http;
  const std::string header = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string good = "5;a=\"b\\\"c\";d=e;f\r\nhello\r\n1\r\nx\r\n0;g\r\nT: v\r\n\r\n";
  const std::string letters("\r\n;=\"\\ \t:05aG\0\x01\xff", 16);
  std::mt19937 random(7);
  int whole = 0, refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string body = good;
    for (uint32_t change = random() % 4; change > 0; --change) {
      const size_t at = random() % body.size();
      const char letter = letters[random() % letters.size()];
      switch (random() % 4) {
        case 0:
          body[at] = letter;
          break;
        case 1:
          body.insert(at, 1, letter);
          break;
        case 2:
          body.erase(at, 1 + random() % 3);
          break;
        default:
          body.insert(at, body.substr(random() % body.size(), random() % 12));
      }
    }
    body += "GET / HTTP/1.1\r\n\r\n";
    ChunkCheck check(1000);
    if (check.Check(body) != nullptr) {
      ++refused;
      continue;
    }
    http::request_parser<http::string_body> parser;
    parser.eager(true);
    boost::system::error_code ec;
    const std::string all = header + body;
    size_t used = 0;
    while (!parser.is_done() && !ec && used < all.size()) {
      used += parser.put(boost::asio::buffer(all.data() + used, all.size() - used), ec);
    }
    if (ec && ec != http::error::need_more) continue;  // refused after all
    whole += parser.is_done();
    check.Used(used - header.size());
    EXPECT_EQ(check.AtEnd(), parser.is_done()) << body;
  }
  EXPECT_GT(whole, 10'000);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace penstock::http
