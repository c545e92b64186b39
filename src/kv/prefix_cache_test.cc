#include "kv/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "kv/sequence.h"

namespace penstock::kv {
namespace {

using testing::ElementsAre;

std::vector<int32_t> Ids(int32_t first, size_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Computes the whole text. Returns how much of it was cached.
int32_t Compute(Sequence* sequence, const std::vector<int32_t>& ids) {
  const int32_t cached = sequence->TakeCached(ids);
  const auto rest = std::span(ids).subspan(static_cast<size_t>(sequence->length()));
  EXPECT_TRUE(sequence->Reserve(static_cast<int32_t>(rest.size())).ok());
  sequence->Append(rest);
  return cached;
}
int32_t ComputeAndRelease(Sequence* sequence, const std::vector<int32_t>& ids) {
  const int32_t cached = Compute(sequence, ids);
  sequence->Release();
  return cached;
}

class Prefix : public testing::TestWithParam<PrefixCache::HashFn> {
 protected:
  CachePools pools_{64, 8};
  BlockPool& pool_ = pools_[0];
  PrefixCache cache_{&pools_, GetParam()};
  Sequence sequence_{&pools_, &cache_, 1000};
};

// With hashes that always collide, answers are the same.
INSTANTIATE_TEST_SUITE_P(
    Hashes, Prefix,
    testing::Values(PrefixCache::HashFn(nullptr),
                    PrefixCache::HashFn([](uint64_t, std::span<const int32_t>) {
                      return uint64_t{42};
                    })),
    [](const auto& one) { return one.param == nullptr ? "Xxh3" : "Colliding"; });

TEST_P(Prefix, TheLongestPrefixOfWholeBlocksIsFound) {
  const auto text = Ids(0, 100);
  EXPECT_EQ(cache_.CachedTokens(0, text), 0u);
  Compute(&sequence_, text);
  const std::vector<int32_t> blocks(sequence_.blocks().begin(), sequence_.blocks().end());
  std::vector<int32_t> found(9, -1);
  EXPECT_EQ(cache_.Lookup(-1, 0, text, found), 3u);
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + 3, blocks.begin()));
  EXPECT_EQ(cache_.Lookup(-1, 0, text, std::span(found).first(2)), 2u);
  EXPECT_EQ(cache_.Lookup(blocks[0], 0, std::span(text).subspan(32), found), 2u);
  EXPECT_EQ(cache_.Lookup(blocks[1], 0, std::span(text).subspan(32), found), 0u);
  EXPECT_EQ(cache_.CachedTokens(0, text), 96u);
  EXPECT_EQ(cache_.CachedTokens(0, Joined(Ids(0, 64), Ids(7, 64))), 64u);
  EXPECT_EQ(cache_.CachedTokens(0, Joined(Ids(0, 63), Ids(7, 64))), 32u);
  EXPECT_EQ(cache_.CachedTokens(0, Ids(1, 100)), 0u);
  EXPECT_EQ(cache_.CachedTokens(0, Ids(32, 68)), 0u);  // not at the beginning of a text
}

TEST_P(Prefix, OneTokenIsLeftToCompute) {
  ComputeAndRelease(&sequence_, Ids(0, 96));
  EXPECT_EQ(cache_.CachedTokens(0, Ids(0, 97)), 96u);
  EXPECT_EQ(cache_.CachedTokens(0, Ids(0, 96)), 64u);
  std::vector<int32_t> found(9);
  EXPECT_EQ(cache_.Lookup(-1, 0, Ids(0, 97), found), 3u);
  EXPECT_EQ(cache_.Lookup(-1, 0, Ids(0, 96), found), 2u);
  EXPECT_EQ(cache_.CachedTokens(0, Ids(0, 33)), 32u);
  EXPECT_EQ(cache_.CachedTokens(0, Ids(0, 32)), 0u);
  EXPECT_EQ(cache_.CachedTokens(0, {}), 0u);
  EXPECT_EQ(ComputeAndRelease(&sequence_, Ids(0, 96)), 64);
}

TEST_P(Prefix, AnotherSaltSharesNothing) {
  Compute(&sequence_, Ids(0, 100));
  Sequence other(&pools_, &cache_, 1000, /*salt=*/1);
  EXPECT_EQ(Compute(&other, Ids(0, 100)), 0);
  EXPECT_EQ(cache_.CachedTokens(1, Ids(0, 100)), 96u);
  EXPECT_EQ(cache_.CachedTokens(2, Ids(0, 100)), 0u);
  EXPECT_EQ(pool_.counts().in_use, 8);
  // The same block after both beginnings.
  for (const int32_t block : sequence_.blocks()) {
    EXPECT_EQ(std::ranges::count(other.blocks(), block), 0);
  }
}

TEST_P(Prefix, TheSameBlockAfterAnotherBeginningIsAnother) {
  Compute(&sequence_, Joined(Ids(0, 32), Ids(500, 40)));
  Sequence other(&pools_, &cache_, 1000);
  EXPECT_EQ(Compute(&other, Joined(Ids(1, 32), Ids(500, 40))), 0);
  EXPECT_NE(sequence_.blocks()[1], other.blocks()[1]);
  Sequence third(&pools_, &cache_, 1000);
  EXPECT_EQ(third.TakeCached(Joined(Ids(1, 32), Ids(500, 40))), 64);
  EXPECT_EQ(third.blocks()[1], other.blocks()[1]);
}

TEST_P(Prefix, TextsComputedAtOnceShareAfterwards) {
  Sequence other(&pools_, &cache_, 1000);
  const auto text = Ids(0, 70);
  ASSERT_TRUE(sequence_.Reserve(70).ok());
  ASSERT_TRUE(other.Reserve(70).ok());
  EXPECT_EQ(pool_.counts().in_use, 6);
  sequence_.Append(text);
  other.Append(text);
  EXPECT_EQ(pool_.counts().in_use, 4);  // two shared, and a last one of each
  EXPECT_EQ(other.blocks()[0], sequence_.blocks()[0]);
  EXPECT_EQ(other.blocks()[1], sequence_.blocks()[1]);
  EXPECT_NE(other.blocks()[2], sequence_.blocks()[2]);
  sequence_.Release();
  EXPECT_EQ(pool_.references(other.blocks()[0]), 1);
}

TEST_P(Prefix, EndsOfChainsGoFirstThenTheirBeginnings) {
  CachePools pools(6);
  BlockPool& pool = pools[0];
  PrefixCache cache(&pools, GetParam());
  Sequence one(&pools, &cache, 1000), two(&pools, &cache, 1000);
  const auto longer = Ids(0, 129), shorter = Joined(Ids(0, 32), Ids(500, 33));
  Compute(&one, longer);  // 4 whole blocks
  const std::vector<int32_t> chain(one.blocks().begin(), one.blocks().end());
  one.Release();
  Compute(&two, shorter);  // its first block is chain[0]
  EXPECT_EQ(two.blocks()[0], chain[0]);
  two.Release();
  // Last used first to go: the tails and ends of the longer text, then those of the shorter one,
  // and what both share at the end.
  std::vector<size_t> left_of_longer, left_of_shorter;
  for (int i = 0; i < 6; ++i) {
    EXPECT_GE(pool.Take(), 0);
    left_of_longer.push_back(cache.CachedTokens(0, longer));
    left_of_shorter.push_back(cache.CachedTokens(0, shorter));
  }
  EXPECT_EQ(left_of_longer.back(), 0u);
  EXPECT_TRUE(std::ranges::is_sorted(left_of_longer, std::greater<>()));
  EXPECT_TRUE(std::ranges::is_sorted(left_of_shorter, std::greater<>()));
  EXPECT_EQ(left_of_longer[2], 32u);
  EXPECT_EQ(left_of_shorter[3], 64u);
}

TEST_P(Prefix, ASecondTurnGoesOnInTheUnfinishedBlock) {
  const auto first = Ids(0, 80);
  ComputeAndRelease(&sequence_, first);
  const auto second = Joined(first, Ids(300, 20));
  EXPECT_EQ(sequence_.TakeCached(second), 80);
  EXPECT_EQ(sequence_.length(), 80);
  // The block is its own now: another text that begins so gets the whole ones.
  Sequence other(&pools_, &cache_, 1000);
  EXPECT_EQ(other.TakeCached(second), 64);
  EXPECT_FALSE(pool_.known(sequence_.blocks()[2]));
  EXPECT_EQ(pool_.references(sequence_.blocks()[2]), 1);
  // It becomes whole, and known as such.
  ASSERT_TRUE(sequence_.Reserve(20).ok());
  sequence_.Append(std::span(second).subspan(80));
  EXPECT_EQ(cache_.CachedTokens(0, Joined(first, Ids(300, 17))), 96u);
}

TEST_P(Prefix, AnUnfinishedBlockIsTakenOnlyWhereAllOfItFits) {
  ComputeAndRelease(&sequence_, Ids(0, 80));
  EXPECT_EQ(sequence_.TakeCached(Ids(0, 80)), 64);  // one token must be left
  sequence_.Truncate(64);
  sequence_.Release();
  EXPECT_EQ(sequence_.TakeCached(Joined(Ids(0, 79), Ids(0, 20))), 64);
  sequence_.Release();
  EXPECT_EQ(sequence_.TakeCached(Ids(0, 81)), 80);
  sequence_.Release();
  // A newer one in its place.
  EXPECT_EQ(ComputeAndRelease(&sequence_, Joined(Ids(0, 64), Ids(400, 5))), 64);
  EXPECT_EQ(sequence_.TakeCached(Ids(0, 81)), 64);
  sequence_.Release();
  EXPECT_EQ(sequence_.TakeCached(Joined(Ids(0, 64), Ids(400, 6))), 69);
  sequence_.Release();
  EXPECT_EQ(pool_.counts().idle, 3);
  EXPECT_EQ(pool_.EvictIdleSince(INT64_MAX, 64), 3);
  EXPECT_EQ(pool_.counts().free, 64);
  EXPECT_EQ(sequence_.TakeCached(Joined(Ids(0, 64), Ids(400, 6))), 0);
}

// Prints what looking up a long prompt costs.
TEST(PrefixCache, LooksUpAPromptOf50000TokensQuickly) {
  CachePools pools(4096, 8);
  PrefixCache cache(&pools);
  Sequence sequence(&pools, &cache, 60000);
  std::vector<int32_t> ids = Ids(0, 50000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 49157);
  ComputeAndRelease(&sequence, ids);
  std::chrono::duration<double, std::milli> best{1e9};
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(cache.CachedTokens(0, ids), 49984u);
    best = std::min<decltype(best)>(best, std::chrono::steady_clock::now() - begin);
  }
  printf("50,000 tokens: %.3f ms\n", best.count());
  EXPECT_LT(best.count(), 5);  // 1 ms for 10,000 tokens
}

}  // namespace
}  // namespace penstock::kv
