#include "kv/group_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/cache_pools.h"

namespace penstock::kv {
namespace {

using testing::ElementsAre;

TEST(GroupPolicy, SaysWhatATextReads) {
  const auto full = NewGroupPolicy(kFullGroup);
  const auto window = NewGroupPolicy({CacheKind::kWindow, 64});
  const auto state = NewGroupPolicy({CacheKind::kState});
  const size_t of_window[] = {0, 0, 0, 1, 2}, of_state[] = {0, 0, 1, 2, 3};
  for (size_t whole = 0; whole < 5; ++whole) {
    EXPECT_EQ(full->FirstNeeded(whole), 0u);
    EXPECT_EQ(window->FirstNeeded(whole), of_window[whole]);
    EXPECT_EQ(state->FirstNeeded(whole), of_state[whole]);
  }
  EXPECT_EQ(full->MostHeld(100, 32), 100);
  EXPECT_EQ(window->MostHeld(100, 32), 5);
  EXPECT_EQ(window->MostHeld(4, 32), 4);
  EXPECT_EQ(state->MostHeld(100, 32), 3);
  EXPECT_TRUE(full->CanShorten() && window->CanShorten());
  EXPECT_FALSE(state->CanShorten());
}

TEST(CachePools, OneTextTakesBlocksInTurns) {
  const CacheGroup groups[] = {kFullGroup, {CacheKind::kWindow, 64}, {CacheKind::kState}};
  EXPECT_THAT(BlocksOfOneText(groups, 200, 1), ElementsAre(7, 5, 2));
  EXPECT_THAT(TablesOfOneText(groups, 200, 1),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6), ElementsAre(0, 1, 2, 3, 4, 0, 1),
                          ElementsAre(0, 1, 0, 1, 0, 1, 0)));
  CachePools pools(groups, std::vector<int32_t>{7, 5, 2});
  EXPECT_EQ(pools[2].Take(), 0);
  EXPECT_THAT(pools.available(), ElementsAre(7, 5, 1, 0));
  EXPECT_THAT(pools.MostHeld(20, 33), ElementsAre(20, 6, 3, 0));
  EXPECT_FALSE(pools.can_shorten());
}

}  // namespace
}  // namespace penstock::kv
