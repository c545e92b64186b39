#include "models/linear_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::models {
namespace {

using testing::HasSubstr;

TEST(LinearTypes, PartsAreReadAndWritten) {
  const auto parts = ParseTypeOverrides("0, -1,ff-out,2.attention-out");
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  ASSERT_EQ(parts->size(), 4u);
  EXPECT_EQ((*parts)[1].layer, -1);
  EXPECT_FALSE((*parts)[1].linear);
  EXPECT_FALSE((*parts)[2].layer);
  EXPECT_EQ((*parts)[2].linear, LinearKind::kFfOut);
  EXPECT_EQ((*parts)[3].layer, 2);
  EXPECT_EQ(TypeOverridesText(*parts), "0,-1,ff-out,2.attention-out");
}

TEST(LinearTypes, WrongPartsAreNamed) {
  for (const char* text : {"", "0,", "x", "1.5", "ff-out.1", "1.", ".ff-out", "+1", "-0", "1e3",
                           "99999999999", "ff_out", "1.ff-out.2"}) {
    const auto parts = ParseTypeOverrides(text);
    ASSERT_FALSE(parts.ok()) << text;
    EXPECT_THAT(parts.status().message(), HasSubstr("is not a layer")) << text;
  }
  std::string many = "0";
  for (size_t i = 1; i < kTypeOverridesMax; ++i) many += ",0";
  EXPECT_TRUE(ParseTypeOverrides(many).ok());
  EXPECT_EQ(ParseTypeOverrides(many + ",0").status().code(), StatusCode::kPayloadTooLarge);
}

TEST(LinearTypes, KeptPartsTakeTheOtherType) {
  LinearTypes types = numbers::DType::kI8;
  types.override_dtype = numbers::DType::kBf16;
  types.kept = *ParseTypeOverrides("0,-1.ff-out,attention-out");
  EXPECT_TRUE(types.Check(3).ok());
  EXPECT_EQ(types.Of(0, 3, LinearKind::kQkv), numbers::DType::kBf16);
  EXPECT_EQ(types.Of(1, 3, LinearKind::kQkv), numbers::DType::kI8);
  EXPECT_EQ(types.Of(1, 3, LinearKind::kFfOut), numbers::DType::kI8);
  EXPECT_EQ(types.Of(2, 3, LinearKind::kFfOut), numbers::DType::kBf16);
  EXPECT_EQ(types.Of(2, 3, LinearKind::kFfIn), numbers::DType::kI8);
  EXPECT_EQ(types.Of(1, 3, LinearKind::kAttentionOut), numbers::DType::kBf16);
}

TEST(LinearTypes, LayersTheModelLacksAreRefused) {
  LinearTypes types;
  for (const char* text : {"6", "-7", "6.qkv"}) {
    types.kept = *ParseTypeOverrides(text);
    EXPECT_THAT(types.Check(6).message(), HasSubstr("the model has 6 layers, 0 to 5")) << text;
  }
  types.kept = *ParseTypeOverrides("5,-6");
  EXPECT_TRUE(types.Check(6).ok());
}

}  // namespace
}  // namespace penstock::models
