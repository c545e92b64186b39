#include "cpu/group_plan.h"

#include <gtest/gtest.h>

namespace penstock::cpu {
namespace {

struct Batch {
  explicit Batch(const std::vector<int32_t>& lengths) {
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    ids.resize(static_cast<size_t>(offsets.back()));
  }
  program::PackedBatch view() const { return {.ids = ids, .offsets = offsets}; }
  std::vector<int32_t> ids, offsets{0};
};

TEST(GroupPlan, GroupsFitTheCacheWithinBounds) {
  EXPECT_EQ(GroupPlan(2, 7680, 2 << 20).group_tokens(), 204u);  // 3/4 of the cache
  EXPECT_EQ(GroupPlan(2, 20480, 256 << 10).group_tokens(), GroupPlan::kTokensMin);
  EXPECT_EQ(GroupPlan(2, 160, 2 << 20).group_tokens(), GroupPlan::kTokensMax);
}

TEST(GroupPlan, HoldsWholeNeighboursOnceEachLargestFirst) {
  GroupPlan plan(2, 160, 2 << 20);
  const Batch batch({100, 100, 100, 300, 1, 255, 200, 60});
  plan.Make(batch.view());
  std::vector<bool> seen(8, false);
  size_t before = SIZE_MAX;
  for (const GroupPlan::Group& group : plan.groups()) {
    size_t tokens = 0;
    for (size_t s = group.begin; s < group.end; ++s) {
      EXPECT_FALSE(seen[s]);
      seen[s] = true;
      tokens += static_cast<size_t>(batch.view().length(s));
    }
    EXPECT_EQ(group.tokens, tokens);
    EXPECT_TRUE(tokens <= plan.group_tokens() || group.end == group.begin + 1) << tokens;
    EXPECT_LE(tokens, before);
    before = tokens;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 8);
}

TEST(GroupPlan, TellsEvenFromUneven) {
  const auto even = [](size_t workers, const std::vector<int32_t>& lengths) {
    const Batch batch(lengths);
    return GroupPlan(workers, 160, 2 << 20).Make(batch.view());
  };
  EXPECT_TRUE(even(1, {17}));   // one worker's load is the mean
  EXPECT_FALSE(even(2, {17}));  // one sequence is not cut
  EXPECT_TRUE(even(2, {256, 256}));
  EXPECT_FALSE(even(2, {256, 256, 256}));
  EXPECT_TRUE(even(3, {256, 256, 256}));
  EXPECT_TRUE(even(2, {256, 240}));
  EXPECT_FALSE(even(2, {256, 180}));
}

// Nothing is allocated once there is room, which allocation_test.cc shows for the whole run.
TEST(GroupPlan, CanBeMadeAgain) {
  GroupPlan plan(2, 160, 2 << 20);
  plan.Reserve(4);
  plan.Make(Batch({256, 256, 256, 256}).view());
  EXPECT_EQ(plan.groups().size(), 4u);
  plan.Release();
  plan.Make(Batch({10, 20}).view());
  EXPECT_EQ(plan.groups().size(), 1u);
}

}  // namespace
}  // namespace penstock::cpu
