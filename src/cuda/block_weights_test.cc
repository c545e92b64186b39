// Blocks as a device has them: what each weight is, beside what its block stands for.
#include "cuda/block_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/block_fragments-inl.h"
#include "numbers/random_blocks.h"

namespace penstock::cuda {
namespace {

TEST(BlockWeights, AreWhatTheirBlocksStandFor) {
  for (const numbers::DType stored : numbers::kStoredTypes) {
    if (!numbers::IsBlockType(stored)) {
      EXPECT_EQ(BlockFormOf(stored), BlockForm::kNone);
      continue;
    }
    constexpr int64_t kFeatures = 21, kColumns = 768;
    const std::vector<std::byte> bytes =
        numbers::RandomBlocks(stored, kFeatures * kColumns / numbers::BlockOf(stored).elements, 7);
    const program::TensorView view = {stored, kFeatures, kColumns, bytes.data()};
    const BlockForm form = BlockFormOf(stored);
    ASSERT_NE(form, BlockForm::kNone);
    std::vector<std::byte> blocks(BlockBytes(form, kFeatures, kColumns));
    std::vector<float> scales(kFeatures), want(kColumns);
    for (int64_t row = 0; row < kFeatures; row += 16) {
      WriteBlocks(view, row, std::min<int64_t>(16, kFeatures - row),
                  blocks.data() + static_cast<uint64_t>(row / 16) * BlockRowBytes(form, kColumns),
                  scales.data() + row);
    }
    for (int64_t row = 0; row < kFeatures; ++row) {
      view.CopyToF32(row, 1, want.data());
      for (int64_t block = 0; block < kColumns; block += 32) {
        const auto in_block = std::span(want).subspan(static_cast<size_t>(block), 32);
        // A min may be larger than all numbers of its block.
        float largest = 0;
        for (const float x : in_block) largest = std::max(largest, std::fabs(x));
        const float bound = numbers::FormatOf(stored).has_min ? 8 * largest : largest;
        for (size_t i = 0; i < 32; ++i) {
          const auto k = static_cast<int>(block + static_cast<int64_t>(i));
          float got = 0;
          VisitForm(form, [&]<typename Form>() {
            got = BlockWeight<Form>(blocks.data(), kColumns / 64, static_cast<int>(row), k);
          });
          ASSERT_NEAR(got * scales[static_cast<size_t>(row)], in_block[i], bound * 0x1p-10F)
              << numbers::DTypeName(stored) << " row " << row << " column " << k;
        }
      }
    }
  }
}

// Columns that end within a piece, rows that end within one: zeros.
TEST(BlockWeights, ArePaddedWithZeros) {
  const std::vector<std::byte> bytes = numbers::RandomBlocks(numbers::DType::kQ4_0, 3 * 3, 7);
  const program::TensorView view = {numbers::DType::kQ4_0, 3, 96, bytes.data()};
  std::vector<std::byte> blocks(BlockBytes(BlockForm::kCodes4, 3, 96));
  float scales[3];
  WriteBlocks(view, 0, 3, blocks.data(), scales);
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 128; ++k) {
      const bool is = row < 3 && k < 96;
      const float got = BlockWeight<Codes4>(blocks.data(), 2, row, k);
      if (!is) {
        EXPECT_EQ(got, 0) << row << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::cuda
