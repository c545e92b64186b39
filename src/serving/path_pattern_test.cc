#include "serving/path_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::serving {
namespace {

using testing::ElementsAre;

TEST(PathPattern, APathWithoutPartsMatchesItself) {
  EXPECT_TRUE(MatchPath("/v2", "/v2"));
  EXPECT_FALSE(MatchPath("/v2", "/v2/"));
  EXPECT_FALSE(MatchPath("/v2", "/v"));
  EXPECT_TRUE(PathPartNames("/v2").empty());
}

TEST(PathPattern, APartStandsForAtLeastOneCharacter) {
  constexpr const char* kPattern = "/v2/models/{model}/infer";
  EXPECT_EQ(MatchPath(kPattern, "/v2/models/a/infer")->at(0), "a");
  EXPECT_EQ(MatchPath(kPattern, "/v2/models/a/b:c/infer")->at(0), "a/b:c");
  EXPECT_EQ(MatchPath(kPattern, "/v2/models//infer/infer")->at(0), "/infer");
  EXPECT_EQ(MatchPath("/v1/models/{id}", "/v1/models/x")->at(0), "x");
  for (const char* other : {"/v2/models//infer", "/v2/models/infer", "/v2/models/a/infe",
                            "/v2/models/a/infer/", "/v2/model/a/infer", ""}) {
    EXPECT_FALSE(MatchPath(kPattern, other)) << other;
  }
  EXPECT_FALSE(MatchPath("/v1/models/{id}", "/v1/models/"));
}

TEST(PathPattern, OnlyTheFirstPartMayHoldSlashes) {
  constexpr const char* kPattern = "/v2/models/{model}/versions/{version}/infer";
  EXPECT_THAT(*MatchPath(kPattern, "/v2/models/a/versions/3/infer"), ElementsAre("a", "3"));
  EXPECT_THAT(*MatchPath(kPattern, "/v2/models/a/b/versions/3/infer"), ElementsAre("a/b", "3"));
  EXPECT_THAT(*MatchPath(kPattern, "/v2/models/a/versions/1/versions/2/infer"),
              ElementsAre("a/versions/1", "2"));
  for (const char* other :
       {"/v2/models/a/versions/3/4/infer", "/v2/models/a/versions//infer",
        "/v2/models//versions/3/infer", "/v2/models/versions/3/infer", "/v2/models/a/infer"}) {
    EXPECT_FALSE(MatchPath(kPattern, other)) << other;
  }
}

TEST(PathPattern, LettersOutsideThePartsCount) {
  EXPECT_EQ(LiteralLength("/v2"), 3u);
  EXPECT_EQ(LiteralLength("/a/{model}/b/{v}"), 6u);
  EXPECT_THAT(PathPartNames("/a/{model}/b/{v}"), ElementsAre("model", "v"));
}

}  // namespace
}  // namespace penstock::serving
