#include "api/tei_rules.h"

#include <gtest/gtest.h>

#include "api/names.h"

namespace penstock::api {
namespace {

TEST(TeiRules, APredictionIsOfOneTextOrAPair) {
  const auto one = TeiPredictInput({"a"}, "inputs");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->first, "a");
  EXPECT_FALSE(one->second);
  const auto pair = TeiPredictInput({"a", "b"}, "inputs");
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->second, "b");
  EXPECT_EQ(TeiPredictInput({}, "inputs").status().field(), "inputs");
  EXPECT_EQ(TeiPredictInput({"a", "b", "c"}, "inputs[1]").status().message(),
            "'inputs[1]' must be one string or a pair of strings");
}

TEST(TeiRules, TokensOfTheTemplateHaveNoPlace) {
  EXPECT_EQ(TeiPlace({101, "[CLS]", true, {0, 0}}), std::nullopt);
  EXPECT_EQ(TeiPlace({102, "[SEP]", true, {4, 9}}), (text::TokenOffset{4, 9}));
  EXPECT_EQ(TeiPlace({7, "", false, {0, 0}}), (text::TokenOffset{0, 0}));
}

TEST(Names, AreBoundedAndHoldNoNul) {
  EXPECT_TRUE(CheckName("", "model").ok());
  EXPECT_TRUE(CheckName(std::string(kNameBytesMax, 'n'), "model").ok());
  const Status too_long = CheckName(std::string(kNameBytesMax + 1, 'n'), "model");
  EXPECT_EQ(too_long.message(), "'model' is 513 bytes long; at most 512 are allowed");
  EXPECT_EQ(too_long.field(), "model");
  EXPECT_EQ(CheckName(std::string_view("a\0b", 3), "prompt_name").code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::api
