#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace penstock::kv {
namespace {

using testing::ElementsAre;

std::vector<int32_t> Take(BlockPool* pool, int count) {
  std::vector<int32_t> taken;
  for (int i = 0; i < count; ++i) taken.push_back(pool->Take(taken.empty() ? -1 : taken.back()));
  return taken;
}

// Known and idle.
void MakeIdle(BlockPool* pool, int32_t block) {
  pool->SetKnown(block, true);
  pool->Release(block);
}

TEST(BlockPool, GivesEachBlockOnceAndThenNone) {
  BlockPool pool(20, 8);
  std::vector<int32_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(Take(&pool, 20), all);
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.Take(), -1);
  EXPECT_EQ(pool.counts().in_use, 20);
  for (const int32_t block : all) pool.Release(block);
  EXPECT_EQ(pool.available(), 20);
  EXPECT_EQ(pool.counts().free, 20);
  EXPECT_EQ(pool.counts().committed, 20);
}

TEST(BlockPool, ABlockIsFreeAfterItsLastReference) {
  BlockPool pool(2);
  const int32_t block = pool.Take();
  pool.AddReference(block);
  pool.Release(block);
  EXPECT_EQ(pool.references(block), 1);
  EXPECT_EQ(pool.counts().in_use, 1);
  pool.Release(block);
  EXPECT_EQ(pool.counts().free, 2);
}

TEST(BlockPool, PrefersTheNeighbourThenPagesThatAreThereThenLowIds) {
  BlockPool pool(32, 8);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.counts().committed, 8);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(4), 5);  // the neighbour
  EXPECT_EQ(pool.Take(5), 6);
  EXPECT_EQ(pool.Take(1), 2);
  EXPECT_EQ(pool.Take(2), 3);
  EXPECT_EQ(pool.Take(3), 4);
  EXPECT_EQ(pool.Take(4), 7);  // 5 is taken
  EXPECT_EQ(pool.counts().committed, 8);
  EXPECT_EQ(pool.Take(20), 21);  // no pages anywhere: the neighbour's
  EXPECT_EQ(pool.counts().committed, 16);
  EXPECT_EQ(pool.Take(10), 16);  // pages of 16 to 23 are there; 11 has none
  EXPECT_EQ(pool.Take(31), 17);
}

TEST(BlockPool, EvictsTheLeastRecentlyUsedOnlyWhenNoneIsFree) {
  BlockPool pool(4);
  const std::vector<int32_t> taken = Take(&pool, 3);
  for (const int32_t at : {1, 0, 2}) MakeIdle(&pool, taken[static_cast<size_t>(at)]);
  EXPECT_EQ(pool.counts().idle, 3);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.Take(), 3);  // the free one
  EXPECT_EQ(pool.counts().evictions, 0u);
  // Used again: it is the newest from then on.
  pool.AddReference(1);
  EXPECT_EQ(pool.counts().idle, 2);
  pool.Release(1);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.Take(), 2);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(), -1);
  EXPECT_EQ(pool.counts().evictions, 3u);
  EXPECT_FALSE(pool.known(0));
}

TEST(BlockPool, EvictsWhatWasIdleForLong) {
  BlockPool pool(4);
  Take(&pool, 4);
  for (int32_t block = 0; block < 4; ++block) {
    pool.SetTime(block * 10);
    MakeIdle(&pool, block);
  }
  EXPECT_EQ(pool.EvictIdleSince(0, 9), 0);
  EXPECT_EQ(pool.EvictIdleSince(11, 1), 1);
  EXPECT_FALSE(pool.known(0));
  EXPECT_TRUE(pool.known(1));
  EXPECT_EQ(pool.EvictIdleSince(20, 9), 1);
  EXPECT_EQ(pool.counts().idle, 2);
  EXPECT_EQ(pool.counts().free, 2);
  EXPECT_EQ(pool.EvictIdleSince(INT64_MAX, 9), 2);
}

TEST(BlockPool, UncommitNamesWholeFreeGroupsFromTheHighest) {
  BlockPool pool(20, 8);
  Take(&pool, 20);
  std::vector<int32_t> given(20);
  EXPECT_EQ(pool.Uncommit(0, given), 0u);
  for (int32_t block = 1; block < 20; ++block) pool.Release(block);
  EXPECT_EQ(pool.Uncommit(19, given), 0u);
  EXPECT_EQ(pool.Uncommit(16, given), 0u);  // 19 are free: 15 would be left
  ASSERT_EQ(pool.Uncommit(15, given), 4u);
  EXPECT_THAT(std::vector<int32_t>(given.begin(), given.begin() + 4), ElementsAre(16, 17, 18, 19));
  EXPECT_EQ(pool.counts().committed, 16);
  EXPECT_EQ(pool.Uncommit(0, std::span(given).first(7)), 0u);  // does not fit
  ASSERT_EQ(pool.Uncommit(0, given), 8u);
  EXPECT_EQ(given[0], 8);
  EXPECT_EQ(pool.counts().committed, 8);
  EXPECT_EQ(pool.Uncommit(0, given), 0u);  // block 0 is in use
  // They are free all the same, and taken last.
  EXPECT_EQ(Take(&pool, 7), (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pool.Take(), 8);
  EXPECT_EQ(pool.counts().committed, 16);
}

}  // namespace
}  // namespace penstock::kv
