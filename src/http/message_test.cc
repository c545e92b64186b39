#include "http/message.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::http {
namespace {

TEST(PercentDecode, DecodesAndRefusesBrokenEscapesAndNul) {
  std::string out;
  EXPECT_TRUE(PercentDecode("/v1/models/a%2Fb%20c", &out));
  EXPECT_EQ(out, "/v1/models/a/b c");
  EXPECT_TRUE(PercentDecode("%41", &out));
  EXPECT_EQ(out, "A");
  for (const char* bad : {"%", "%4", "%4g", "a%zz", "%00"}) EXPECT_FALSE(PercentDecode(bad, &out));
}

TEST(OriginForm, TheAuthorityEndsAtPathOrQuery) {
  EXPECT_EQ(OriginForm("/a?b=/c"), "/a?b=/c");
  EXPECT_EQ(OriginForm("http://h:80/a?b"), "/a?b");
  EXPECT_EQ(OriginForm("HTTPS://h"), "/");
  EXPECT_EQ(OriginForm("http://h?x=/v1/stats"), "/?x=/v1/stats");
  EXPECT_EQ(OriginForm("http://h#/v1/stats"), "/#/v1/stats");
}

TEST(RequestId, OnlySafeOnesAreTaken) {
  EXPECT_TRUE(IsSaneRequestId("a-1_B.c:d+e=f/g@h"));
  EXPECT_FALSE(IsSaneRequestId(""));
  EXPECT_FALSE(IsSaneRequestId("a b"));
  EXPECT_FALSE(IsSaneRequestId("a\r\nSet-Cookie: x"));
  EXPECT_FALSE(IsSaneRequestId("\xc3\xa9"));
  EXPECT_TRUE(IsSaneRequestId(std::string(128, 'x')));
  EXPECT_FALSE(IsSaneRequestId(std::string(129, 'x')));
}

TEST(RequestId, NewOnesDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRequestId());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.begin()->size(), 32u);
  EXPECT_TRUE(IsSaneRequestId(*ids.begin()));
}

TEST(HttpRequest, HeaderGivesTheFirst) {
  HttpRequest request;
  request.headers = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
  EXPECT_EQ(request.Header("a"), "1");
  EXPECT_EQ(request.Header("c"), "");
}

}  // namespace
}  // namespace penstock::http
