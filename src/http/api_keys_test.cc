#include "http/api_keys.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ApiKeys, AnyOfThemAndNothingElse) {
  const ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.Allows("first"));
  EXPECT_TRUE(keys.Allows("second"));
  for (const char* wrong : {"", "firs", "first ", "First", "firstsecond"}) {
    EXPECT_FALSE(keys.Allows(wrong)) << wrong;
  }
  EXPECT_TRUE(ApiKeys({}).empty());
}

TEST(ApiKeys, WhereTheKeyIsLookedFor) {
  const auto key_of = [](const char* name, const char* value) {
    HttpRequest request;
    request.headers = {{name, value}};
    return std::string(ApiKeys::KeyOf(request));
  };
  EXPECT_EQ(key_of("authorization", "Bearer k"), "k");
  EXPECT_EQ(key_of("authorization", "bearer  k"), "k");
  EXPECT_EQ(key_of("authorization", "Basic k"), "");
  EXPECT_EQ(key_of("authorization", "Bearer "), "");
  EXPECT_EQ(key_of("x-api-key", "k"), "k");
  EXPECT_EQ(key_of("api-key", "k"), "k");
}

}  // namespace
}  // namespace penstock
