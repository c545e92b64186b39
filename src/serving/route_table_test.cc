#include "serving/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::serving {
namespace {

void Write(int, const Status&, std::string_view, JsonWriter*) {}
constexpr ErrorBody kOne = {Write, "One"}, kTwo = {Write, "Two"}, kRest = {Write, "Rest"};

constexpr Route kOneRoutes[] = {
    {"GET", "/one/{id}", kOne, nullptr, About("A part")},
    {"GET", "/one/all", kOne, nullptr, About("All")},
    {"POST", "/one/all", kOne, nullptr, About("More")},
};
constexpr Route kTwoRoutes[] = {
    {"GET", "/two/{model}/versions/{version}", kTwo, nullptr, About("Two parts")},
    {"POST", "/two", kTwo, nullptr, About("None")},
};

class RouteTableTest : public testing::Test {
 protected:
  static constexpr size_t kRows = std::size(kOneRoutes) + std::size(kTwoRoutes);
  const DialectRoutes dialects_[2] = {{kOneRoutes, {{"/one/", kOne}}}, {kTwoRoutes}};
  const RouteTable table_{dialects_, kRest};
};

TEST_F(RouteTableTest, MoreSpecificRowsStandFirst) {
  std::vector<std::string_view> paths;
  for (const Route& route : table_.routes()) paths.emplace_back(route.path);
  EXPECT_THAT(paths, testing::ElementsAre("/one/all", "/one/all", "/two",
                                          "/two/{model}/versions/{version}", "/one/{id}"));
  ASSERT_EQ(table_.infos().size(), kRows);
  for (size_t i = 0; i < kRows; ++i) EXPECT_EQ(table_.infos()[i].path, table_.routes()[i].path);
}

TEST_F(RouteTableTest, FindsTheRowThatAnswersPost) {
  int32_t index = -1;
  EXPECT_EQ(table_.FindPost("/one/all", &index), &table_.routes()[1]);
  EXPECT_EQ(index, 1);
  for (const char* other : {"/one/{id}", "/one", "/one/all/", ""}) {
    EXPECT_EQ(table_.FindPost(other, &index), nullptr) << other;
  }
}

TEST_F(RouteTableTest, UnknownPathsHaveTheErrorsOfTheDialectAbove) {
  EXPECT_STREQ(table_.ErrorsOf("/one/no").schema, "One");
  for (const char* other : {"/one", "/two/no", "/", ""}) {
    EXPECT_STREQ(table_.ErrorsOf(other).schema, "Rest") << other;
  }
}

}  // namespace
}  // namespace penstock::serving
