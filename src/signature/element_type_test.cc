#include "signature/element_type.h"

#include <gtest/gtest.h>

namespace penstock::signature {
namespace {

TEST(ElementTypeTest, NamesAndSizes) {
  EXPECT_STREQ(ElementTypeName(ElementType::kBool), "BOOL");
  EXPECT_STREQ(ElementTypeName(ElementType::kBf16), "BF16");
  EXPECT_EQ(ElementBytes(ElementType::kBool), 1u);
  EXPECT_EQ(ElementBytes(ElementType::kFp16), 2u);
  EXPECT_EQ(ElementBytes(ElementType::kUint32), 4u);
  EXPECT_EQ(ElementBytes(ElementType::kInt64), 8u);
  EXPECT_EQ(ElementBytes(ElementType::kBytes), 0u);
}

TEST(ElementTypeTest, ANameGivesItsType) {
  for (int i = 0; i <= static_cast<int>(ElementType::kBytes); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(ElementTypeOf(ElementTypeName(type)), type);
  }
  EXPECT_EQ(ElementTypeOf("fp32"), std::nullopt);
  EXPECT_EQ(ElementTypeOf("FP8"), std::nullopt);
  EXPECT_EQ(ElementTypeOf(""), std::nullopt);
}

}  // namespace
}  // namespace penstock::signature
