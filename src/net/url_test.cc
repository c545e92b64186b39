#include "net/url.h"

#include <gtest/gtest.h>

namespace penstock::net {
namespace {

TEST(Url, PartsOfOne) {
  const Url url = *ParseUrl("HTTPS://Me:a%20b@Hub.Example:8443/a b/\xC3\xA4?x=1#part");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.user, "Me:a b");
  EXPECT_EQ(url.target, "/a%20b/%C3%A4?x=1");
  EXPECT_EQ(url.authority(), "hub.example:8443");
  EXPECT_EQ(url.ToString(), "https://hub.example:8443/a%20b/%C3%A4?x=1");
  const Url address = *ParseUrl("http://[::1]?q");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, "80");
  EXPECT_EQ(address.target, "/?q");
  EXPECT_EQ(address.authority(), "[::1]");
}

TEST(Url, WhatIsNone) {
  for (const char* const text :
       {"", "hub.example", "ftp://a/", "file:///etc/passwd", "http://", "http:///a", "http://a:0/",
        "http://a:65536/", "http://a:x/", "http://[::1/", "http://[::1]x/", "http://a b/",
        "http://a/\r\nHost: b", "http://a\r\n/"}) {
    EXPECT_EQ(ParseUrl(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

// RFC 3986, 5.4, as far as HTTP has them.
TEST(Url, RedirectsLeadWhereTheySay) {
  const Url base = *ParseUrl("http://a/b/c/d;p?q");
  const std::pair<const char*, const char*> cases[] = {
      {"g", "http://a/b/c/g"},      {"./g", "http://a/b/c/g"},
      {"g/", "http://a/b/c/g/"},    {"/g", "http://a/g"},
      {"//g", "http://g/"},         {"?y", "http://a/b/c/d;p?y"},
      {"g?y", "http://a/b/c/g?y"},  {"", "http://a/b/c/d;p?q"},
      {".", "http://a/b/c/"},       {"..", "http://a/b/"},
      {"../g", "http://a/b/g"},     {"../..", "http://a/"},
      {"../../../g", "http://a/g"}, {"/./g", "http://a/g"},
      {"/../g", "http://a/g"},      {"g.", "http://a/b/c/g."},
      {"..g", "http://a/b/c/..g"},  {"./g/.", "http://a/b/c/g/"},
      {"g/../h", "http://a/b/c/h"}, {"https://h:1/x", "https://h:1/x"},
      {"g#s", "http://a/b/c/g"},
  };
  for (const auto& [location, want] : cases) {
    EXPECT_EQ(Resolve(base, location)->ToString(), want) << location;
  }
  EXPECT_FALSE(Resolve(base, "mailto:x").ok());
  EXPECT_FALSE(Resolve(base, "/x\r\nSet-Cookie: a").ok());
}

}  // namespace
}  // namespace penstock::net
