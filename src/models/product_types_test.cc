#include "models/product_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(ProductTypes, PartsAreReadAndWritten) {
  const auto parts = ParseKeptParts("0, -1,ff-out,2.attention-out");
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  ASSERT_EQ(parts->size(), 4u);
  EXPECT_EQ((*parts)[1].layer, -1);
  EXPECT_FALSE((*parts)[1].product);
  EXPECT_FALSE((*parts)[2].layer);
  EXPECT_EQ((*parts)[2].product, Product::kFfOut);
  EXPECT_EQ((*parts)[3].layer, 2);
  EXPECT_EQ(KeptPartsText(*parts), "0,-1,ff-out,2.attention-out");
}

TEST(ProductTypes, WrongPartsAreNamed) {
  for (const char* text : {"", "0,", "x", "1.5", "ff-out.1", "1.", ".ff-out", "+1", "-0", "1e3",
                           "99999999999", "ff_out", "1.ff-out.2"}) {
    const auto parts = ParseKeptParts(text);
    ASSERT_FALSE(parts.ok()) << text;
    EXPECT_THAT(parts.status().message(), HasSubstr("is no layer")) << text;
  }
  std::string many = "0";
  for (size_t i = 1; i < kKeptPartsMax; ++i) many += ",0";
  EXPECT_TRUE(ParseKeptParts(many).ok());
  EXPECT_EQ(ParseKeptParts(many + ",0").status().code(), StatusCode::kPayloadTooLarge);
}

TEST(ProductTypes, KeptPartsTakeTheOtherType) {
  ProductTypes types = DType::kI8;
  types.kept_dtype = DType::kBf16;
  types.kept = *ParseKeptParts("0,-1.ff-out,attention-out");
  EXPECT_TRUE(types.Check(3).ok());
  EXPECT_EQ(types.Of(0, 3, Product::kQkv), DType::kBf16);
  EXPECT_EQ(types.Of(1, 3, Product::kQkv), DType::kI8);
  EXPECT_EQ(types.Of(1, 3, Product::kFfOut), DType::kI8);
  EXPECT_EQ(types.Of(2, 3, Product::kFfOut), DType::kBf16);
  EXPECT_EQ(types.Of(2, 3, Product::kFfIn), DType::kI8);
  EXPECT_EQ(types.Of(1, 3, Product::kAttentionOut), DType::kBf16);
}

TEST(ProductTypes, LayersTheModelLacksAreRefused) {
  ProductTypes types;
  for (const char* text : {"6", "-7", "6.qkv"}) {
    types.kept = *ParseKeptParts(text);
    EXPECT_THAT(types.Check(6).message(), HasSubstr("the model has 6 layers, 0 to 5")) << text;
  }
  types.kept = *ParseKeptParts("5,-6");
  EXPECT_TRUE(types.Check(6).ok());
}

}  // namespace
}  // namespace penstock
