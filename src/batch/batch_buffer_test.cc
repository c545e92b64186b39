#include "batch/batch_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BatchBuffer, PacksEndToEnd) {
  BatchBuffer buffer;
  EXPECT_EQ(buffer.View().sequences(), 0u);
  buffer.Append(std::vector<int32_t>{5, 6, 7}, {});
  EXPECT_THAT(buffer.View().type_ids, IsEmpty());
  buffer.Append(std::vector<int32_t>{8, 9}, std::vector<int32_t>{0, 1});
  const PackedBatch batch = buffer.View();
  EXPECT_THAT(batch.ids, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(batch.type_ids, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 3, 5));
  buffer.Clear();
  buffer.Append(std::vector<int32_t>{1}, {});
  EXPECT_THAT(buffer.View().type_ids, IsEmpty());
}

TEST(BatchBuffer, APartStartsAtZero) {
  BatchBuffer buffer;
  buffer.Append(std::vector<int32_t>{5, 6, 7}, {});
  buffer.Append(std::vector<int32_t>{8, 9}, std::vector<int32_t>{0, 1});
  buffer.Append(std::vector<int32_t>{4}, {});
  const PackedBatch part = buffer.View(1, 3);
  EXPECT_THAT(part.ids, ElementsAre(8, 9, 4));
  EXPECT_THAT(part.type_ids, ElementsAre(0, 1, 0));
  EXPECT_THAT(part.offsets, ElementsAre(0, 2, 3));
}

}  // namespace
}  // namespace penstock
