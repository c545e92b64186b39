#include "program/view.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::program {
namespace {

// Rows of a block type are found and converted by their blocks.
TEST(TensorView, RowsOfBlocks) {
  constexpr size_t kRowBytes = 2 * 34;  // two blocks of Q8_0
  std::vector<std::byte> bytes(3 * kRowBytes);
  for (size_t block = 0; block < 6; ++block) {
    std::byte* at = bytes.data() + block * 34;
    at[0] = std::byte{0x00};  // 1.0 as a half
    at[1] = std::byte{0x3c};
    for (size_t i = 0; i < 32; ++i) at[2 + i] = static_cast<std::byte>(block * 16 + i % 16);
  }
  const TensorView view = {numbers::DType::kQ8_0, 3, 64, bytes.data()};
  EXPECT_EQ(view.row_bytes(), kRowBytes);
  const TensorView last = view.Rows(2, 1);
  std::vector<float> got(64), want(2 * 64);
  last.CopyToF32(0, 1, got.data());
  view.CopyToF32(1, 2, want.data());
  EXPECT_EQ(got, std::vector<float>(want.begin() + 64, want.end()));
  EXPECT_EQ(got[0], 64);
  EXPECT_EQ(got[63], 95);
}

TEST(DTypes, BlocksAndNames) {
  EXPECT_FALSE(numbers::IsBlockType(numbers::DType::kBf16));
  EXPECT_TRUE(numbers::IsBlockType(numbers::DType::kQ6K));
  EXPECT_EQ(numbers::StoredBytes(numbers::DType::kF16, 3), 6u);
  EXPECT_EQ(numbers::StoredBytes(numbers::DType::kQ4K, 512), 288u);
  EXPECT_STREQ(numbers::DTypeName(numbers::DType::kQ4K), "Q4_K");
  EXPECT_TRUE(numbers::ConvertsToF32(numbers::DType::kQ5_1));
  EXPECT_FALSE(numbers::ConvertsToF32(numbers::DType::kI8));
}

}  // namespace
}  // namespace penstock::program
