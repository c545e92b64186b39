#include "http/header_checks.h"

#include <gtest/gtest.h>

namespace penstock::http {
namespace {

using namespace std::string_literals;
using Headers = std::vector<std::pair<std::string, std::string>>;

// "" = taken, else "STATUS message".
std::string Check(int version, const Headers& headers, std::string_view target = "/",
                  std::string* host = nullptr) {
  HttpRequest request;
  request.headers = headers;
  const auto refused = CheckHeader(version, target, &request);
  if (host != nullptr) *host = request.host;
  return refused ? std::to_string(refused->status) + " " + refused->message : "";
}

TEST(HeaderChecks, HostsByRfc3986) {
  for (const auto& [text, host] : {std::pair{"h", "h"},
                                   {"Example.ORG:8080", "example.org"},
                                   {"example.org.", "example.org"},
                                   {"example.org:", "example.org"},
                                   {"my_name-1~x", "my_name-1~x"},
                                   {"a%2Fb", "a%2fb"},
                                   {"127.0.0.1:65535", "127.0.0.1"},
                                   {"[::1]", "::1"},
                                   {"[0:0::1]:80", "::1"},
                                   {"[FE80::A]", "fe80::a"}}) {
    EXPECT_EQ(HostOf(text), host) << text;
  }
  for (const std::string& wrong : {""s,
                                   ":80"s,
                                   "a b"s,
                                   "a b@@//.."s,
                                   "a@b"s,
                                   "a/b"s,
                                   "a?b"s,
                                   "a#b"s,
                                   "a\\b"s,
                                   "a:b"s,
                                   "a:80:80"s,
                                   "a:65536"s,
                                   "a:-1"s,
                                   "a:000080"s,
                                   "::1"s,
                                   "[::1"s,
                                   "[::1]x"s,
                                   "[::1]:x"s,
                                   "[]"s,
                                   "[1.2.3.4]"s,
                                   "[::1%25lo]"s,
                                   "a%"s,
                                   "a%2"s,
                                   "a%zz"s,
                                   "\xc3\xa9"s,
                                   "a,b c"s,
                                   "\"a\""s,
                                   "<a>"s,
                                   "[::1\0]"s,
                                   "a\0b"s,
                                   std::string(300, 'a')}) {
    EXPECT_EQ(HostOf(wrong), std::nullopt) << wrong;
  }
}

TEST(HeaderChecks, ExactlyOneHost) {
  EXPECT_EQ(Check(11, {{"host", "h"}}), "");
  EXPECT_EQ(Check(10, {}), "");
  EXPECT_TRUE(Check(11, {}).starts_with("400 "));
  EXPECT_TRUE(Check(11, {{"host", "h"}, {"host", "h"}}).starts_with("400 "));
  EXPECT_TRUE(Check(10, {{"host", "h"}, {"host", "h"}}).starts_with("400 "));
  EXPECT_TRUE(Check(11, {{"host", "a b@@//.."}}).starts_with("400 "));
  EXPECT_TRUE(Check(11, {{"host", ""}}).starts_with("400 "));
}

TEST(HeaderChecks, TheAuthorityOfAnAbsoluteTargetGoesFirst) {
  std::string host;
  EXPECT_EQ(Check(11, {{"host", "h"}}, "http://Other:80/x", &host), "");
  EXPECT_EQ(host, "other");
  EXPECT_EQ(Check(11, {{"host", "h"}}, "HTTPS://[::1]?q", &host), "");
  EXPECT_EQ(host, "::1");
  EXPECT_EQ(Check(11, {{"host", "h:1"}}, "/x", &host), "");
  EXPECT_EQ(host, "h");
  for (const char* target :
       {"http://", "http:///x", "http://a b/", "http://user@h/", "http://h:x/"}) {
    EXPECT_TRUE(Check(11, {{"host", "h"}}, target).starts_with("400 ")) << target;
  }
  EXPECT_TRUE(Check(11, {{"host", "a b"}}, "http://h/").starts_with("400 "));
}

TEST(HeaderChecks, OneContentLength) {
  EXPECT_EQ(Check(11, {{"host", "h"}, {"content-length", "2"}}), "");
  EXPECT_TRUE(Check(11, {{"host", "h"}, {"content-length", "2"}, {"content-length", "2"}})
                  .starts_with("400 "));
}

TEST(HeaderChecks, ChunkedIsTheOnlyCoding) {
  EXPECT_EQ(Check(11, {{"host", "h"}, {"transfer-encoding", "chunked"}}), "");
  EXPECT_EQ(Check(11, {{"host", "h"}, {"transfer-encoding", "Chunked"}}), "");
  for (const char* other : {"", "gzip", "gzip, chunked", "chunked, chunked", "chunked;q=1",
                            "identity", "xchunked", "chunked,", "\"chunked\""}) {
    EXPECT_TRUE(Check(11, {{"host", "h"}, {"transfer-encoding", other}}).starts_with("501 "))
        << other;
  }
  EXPECT_TRUE(
      Check(11, {{"host", "h"}, {"transfer-encoding", "gzip"}, {"transfer-encoding", "chunked"}})
          .starts_with("501 "));
  EXPECT_TRUE(Check(10, {{"transfer-encoding", "chunked"}}).starts_with("400 "));
}

TEST(HeaderChecks, LengthIsOneNumber) {
  EXPECT_EQ(Check(11, {{"host", "h"}, {"content-length", "007"}}), "");
  for (const char* wrong : {"", "2,2", "2, 2", "+2", "0x2", "2 "}) {
    EXPECT_TRUE(Check(11, {{"host", "h"}, {"content-length", wrong}}).starts_with("400 ")) << wrong;
  }
}

TEST(HeaderChecks, EveryConnectionLineCounts) {
  using Headers = std::vector<std::pair<std::string, std::string>>;
  const auto asks = [](int version, Headers headers) {
    HttpRequest request;
    request.headers = std::move(headers);
    return AsksKeepAlive(version, request);
  };
  EXPECT_TRUE(asks(11, {}));
  EXPECT_TRUE(asks(11, {{"connection", "te, closed"}}));
  EXPECT_FALSE(asks(11, {{"connection", "te ,\tClose"}}));
  EXPECT_FALSE(asks(11, {{"connection", "keep-alive"}, {"connection", "close"}}));
  EXPECT_FALSE(asks(10, {}));
  EXPECT_TRUE(asks(10, {{"connection", "te"}, {"connection", "Keep-Alive"}}));
  EXPECT_FALSE(asks(10, {{"connection", "close, keep-alive"}}));
}

TEST(HeaderChecks, LinesAsTheyCome) {
  const auto feed = [](const std::string& bytes) {
    HeaderLines whole, single;
    const bool wrong = whole.Feed(bytes) != nullptr;
    bool single_wrong = false;
    for (const char c : bytes) single_wrong = single_wrong || single.Feed({&c, 1}) != nullptr;
    EXPECT_EQ(wrong, single_wrong) << bytes;
    return !wrong;
  };
  EXPECT_TRUE(feed("GET / HTTP/1.1\r\nHost: h\r\nA:\tb c \xff\r\n\r\n"));
  for (const std::string& wrong :
       {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"s, "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n"s,
        "GET / HTTP/1.1\nHost: h\r\n"s, "GET / HTTP/1.1\r\nA: b\nC: d\r\n"s,
        "GET / HTTP/1.1\r\nA: b\rc\r\n"s, "GET / HTTP/1.1\r\nA: b\0\r\n"s,
        "GET / HTTP/1.1\r\nA: \x1b\r\n"s, "GET / HTTP/1.1\r\nA: \x7f\r\n"s}) {
    EXPECT_FALSE(feed(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace penstock::http
