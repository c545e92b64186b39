#include "kv/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

namespace penstock::kv {
namespace {

std::vector<int32_t> Ids(int32_t first, size_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int32_t> BlocksOf(const Sequence& sequence) {
  return {sequence.blocks().begin(), sequence.blocks().end()};
}

void Grow(Sequence* sequence, const std::vector<int32_t>& ids) {
  const Status status = sequence->Reserve(static_cast<int32_t>(ids.size()));
  ASSERT_TRUE(status.ok()) << status.ToString();
  sequence->Append(ids);
}

TEST(Sequence, TakesABlockWhenTheLastIsFull) {
  CachePools pools(8, 8);
  Sequence sequence(&pools, nullptr, 256);
  EXPECT_EQ(sequence.MissingBlocks(1), 1);
  for (int32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(sequence.Reserve(1).ok());
    ASSERT_TRUE(sequence.Reserve(1).ok());  // once more changes nothing
    ASSERT_EQ(sequence.blocks().size(), static_cast<size_t>(i / 32 + 1));
    ASSERT_EQ(sequence.length(), i);
    sequence.Append(std::vector<int32_t>{i});
  }
  EXPECT_EQ(BlocksOf(sequence), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(sequence.MissingBlocks(28), 0);
  EXPECT_EQ(sequence.MissingBlocks(29), 1);
}

TEST(Sequence, BlocksStayWhereTheyAreInMemory) {
  CachePools pools(100);
  Sequence sequence(&pools, nullptr, 3200);
  Grow(&sequence, Ids(0, 1));
  const int32_t* const at = sequence.blocks().data();
  Grow(&sequence, Ids(0, 3199));
  EXPECT_EQ(sequence.blocks().data(), at);
}

TEST(Sequence, ShortageIsToldInNumbersAndChangesNothing) {
  CachePools pools(4);
  BlockPool& pool = pools[0];
  PrefixCache cache(&pools);
  Sequence one(&pools, &cache, 1000), two(&pools, &cache, 1000);
  Grow(&one, Ids(0, 64));
  Grow(&two, Ids(500, 20));
  const Status status = two.Reserve(60);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "2 blocks of the cache are needed, 1 of 4 are available");
  EXPECT_EQ(two.blocks().size(), 1u);
  EXPECT_EQ(pool.available(), 1);
  // The other is preempted. Its blocks are taken as they are needed.
  one.Release();
  EXPECT_EQ(pool.available(), 3);
  EXPECT_TRUE(two.Reserve(60).ok());
  EXPECT_EQ(pool.counts().evictions, 1u);
  two.Release();
  EXPECT_EQ(one.TakeCached(Ids(0, 65)), 32);  // from what is left of its own
}

TEST(Sequence, TheContextIsALimit) {
  CachePools pools(100);
  Sequence sequence(&pools, nullptr, 70);
  EXPECT_TRUE(sequence.Reserve(70).ok());
  const Status status = sequence.Reserve(71);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "context");
  EXPECT_EQ(status.message(), "71 tokens after 0 are more than the context of 70");
  PrefixCache cache(&pools);
  Sequence longer(&pools, &cache, 1000), shorter(&pools, &cache, 70);
  Grow(&longer, Ids(0, 200));
  EXPECT_EQ(shorter.TakeCached(Ids(0, 200)), 64);
}

TEST(Sequence, ForksShareWholeBlocksOnly) {
  for (const bool cached : {false, true}) {
    CachePools pools(16);
    BlockPool& pool = pools[0];
    PrefixCache cache(&pools);
    PrefixCache* const used = cached ? &cache : nullptr;
    Sequence first(&pools, used, 1000), second(&pools, used, 1000), third(&pools, used, 1000);
    Grow(&first, Ids(0, 70));
    second.Fork(first, first.length());
    EXPECT_EQ(second.length(), 64);
    Grow(&second, Ids(64, 6));
    third.Fork(second, second.length());
    for (Sequence* one : {&first, &second}) Grow(one, Ids(one == &first ? 100 : 200, 40));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(first.blocks()[i], second.blocks()[i]);
      EXPECT_EQ(first.blocks()[i], third.blocks()[i]);
      EXPECT_EQ(pool.references(first.blocks()[i]), 3);
    }
    EXPECT_NE(first.blocks()[2], second.blocks()[2]);
    EXPECT_EQ(pool.counts().in_use, 2 + 2 + 2);
    first.Release();
    second.Release();
    EXPECT_EQ(pool.counts().in_use, 2);
    EXPECT_EQ(third.length(), 64);
  }
}

TEST(Sequence, AForkMayTakeAPart) {
  CachePools pools(16);
  Sequence first(&pools, nullptr, 1000), second(&pools, nullptr, 1000),
      third(&pools, nullptr, 1000);
  Grow(&first, Ids(0, 64));
  second.Fork(first, 63);
  EXPECT_EQ(second.length(), 32);
  EXPECT_EQ(second.blocks()[0], first.blocks()[0]);
  third.Fork(first, 31);
  EXPECT_EQ(third.length(), 0);
  EXPECT_TRUE(third.blocks().empty());
}

TEST(Sequence, TruncateKeepsWhatOthersRead) {
  CachePools pools(16);
  PrefixCache cache(&pools);
  Sequence sequence(&pools, &cache, 1000);
  Grow(&sequence, Ids(0, 80));
  ASSERT_TRUE(sequence.Reserve(100).ok());
  EXPECT_EQ(sequence.Truncate(80), 80);  // reserved room
  EXPECT_EQ(sequence.blocks().size(), 3u);
  EXPECT_EQ(sequence.Truncate(70), 70);  // in its own block
  Grow(&sequence, Ids(70, 26));
  EXPECT_EQ(cache.CachedTokens(0, Ids(0, 97)), 96u);
  EXPECT_EQ(sequence.Truncate(95), 64);  // that block is known now
  EXPECT_EQ(sequence.Truncate(32), 32);
  EXPECT_EQ(cache.CachedTokens(0, Ids(0, 97)), 96u);
  EXPECT_EQ(sequence.TakeCached(Ids(0, 97)), 64);
  EXPECT_EQ(sequence.Truncate(0), 0);
  EXPECT_TRUE(sequence.blocks().empty());

  Sequence plain(&pools, nullptr, 1000), fork(&pools, nullptr, 1000);
  Grow(&plain, Ids(0, 64));
  EXPECT_EQ(plain.Truncate(50), 50);  // whole once, but its own
  Grow(&plain, Ids(50, 14));
  fork.Fork(plain, plain.length());
  EXPECT_EQ(plain.Truncate(50), 32);
  EXPECT_EQ(fork.Truncate(50), 50);
}

TEST(Sequence, ALaterChunkTakesWhatAnotherHasComputedMeanwhile) {
  CachePools pools(32);
  PrefixCache cache(&pools);
  Sequence slow(&pools, &cache, 1000), quick(&pools, &cache, 1000);
  Grow(&slow, Ids(0, 32));
  ASSERT_TRUE(slow.Reserve(64).ok());
  Grow(&quick, Ids(0, 200));
  EXPECT_EQ(slow.TakeCached(Ids(0, 150)), 96);
  EXPECT_EQ(slow.length(), 128);
  Grow(&slow, Ids(128, 5));
  EXPECT_EQ(slow.TakeCached(Ids(0, 200)), 0);  // not at the end of a block
  EXPECT_EQ(slow.length(), 133);
}

TEST(Sequence, NothingIsLeftInUse) {
  CachePools pools(16);
  BlockPool& pool = pools[0];
  PrefixCache cache(&pools);
  {
    Sequence one(&pools, &cache, 1000), two(&pools, nullptr, 1000);
    Grow(&one, Ids(0, 80));
    Grow(&two, Ids(0, 80));
    ASSERT_TRUE(two.Reserve(100).ok());
  }
  EXPECT_EQ(pool.counts().in_use, 0);
  EXPECT_EQ(pool.counts().idle, 3);
  EXPECT_EQ(pool.counts().free, 13);
}

class Windowed : public testing::Test {
 protected:
  static constexpr CacheGroup kGroups[] = {kFullGroup, {CacheKind::kWindow, 64}};
  std::unique_ptr<Sequence> New(bool cached = true) {
    return std::make_unique<Sequence>(&pools_, cached ? &cache_ : nullptr, 4000);
  }
  static void GrowSlowly(Sequence* sequence, int32_t first, int32_t end) {
    for (; first < end; first += 50) Grow(sequence, Ids(first, 50));
  }

  CachePools pools_{kGroups, std::vector<int32_t>{100, 20}};
  BlockPool& pool_ = pools_[0];
  BlockPool& windows_ = pools_[1];
  PrefixCache cache_{&pools_};
};

TEST_F(Windowed, BlocksOutOfTheWindowAreFree) {
  for (const bool cached : {false, true}) {
    auto sequence = New(cached);
    for (int32_t length = 1; length <= 2000; ++length) {
      Grow(sequence.get(), Ids(length - 1, 1));
      ASSERT_EQ(sequence->blocks().size(), sequence->blocks(1).size());
      ASSERT_LE(windows_.counts().in_use, 3);  // the window, and what is not whole
      ASSERT_EQ(pool_.counts().in_use, (length + 31) / 32);
    }
    // Blocks that are known stay until they are evicted.
    EXPECT_EQ(windows_.counts().idle, cached ? 17 : 0);
    EXPECT_EQ(sequence->blocks(1)[59], -1);
    EXPECT_GE(sequence->blocks(1)[60], 0);
  }
}

TEST_F(Windowed, AStepNeedsBlocksForItsRows) {
  auto sequence = New();
  Grow(sequence.get(), Ids(0, 320));
  EXPECT_EQ(windows_.counts().in_use, 2);
  ASSERT_TRUE(sequence->Reserve(320).ok());
  EXPECT_EQ(windows_.counts().in_use, 12);
  sequence->Append(Ids(320, 320));
  EXPECT_EQ(windows_.counts().in_use, 2);
  // There are 18 besides.
  EXPECT_TRUE(sequence->Fits(1280, 18 * 32 - 32 * 4, {0, 0}));
  EXPECT_FALSE(sequence->Fits(1280, 18 * 32 - 32 * 4 + 1, {0, 0}));
  EXPECT_FALSE(sequence->Fits(1280, 18 * 32 - 32 * 4, {0, 1}));
  const Status status = sequence->Reserve(18 * 32 + 1);
  EXPECT_EQ(status.message(), "19 blocks of the cache are needed, 18 of 20 are available");
  EXPECT_EQ(pool_.counts().in_use, 20);
}

TEST_F(Windowed, TheNextTurnFindsTheWindowOfTheEnd) {
  auto sequence = New();
  GrowSlowly(sequence.get(), 0, 1000);
  sequence->Release();
  auto other = New();  // takes most of what the window left behind
  GrowSlowly(other.get(), 5000, 5500);
  EXPECT_EQ(sequence->TakeCached(Ids(0, 1001)), 1000);
  EXPECT_EQ(windows_.references(sequence->blocks(1)[29]), 1);
  EXPECT_EQ(sequence->blocks(1)[28], -1);
  // One block of that window is gone.
  sequence->Release();
  other->Release();
  GrowSlowly(other.get(), 9000, 9600);
  EXPECT_EQ(sequence->TakeCached(Ids(0, 1001)), 0);
}

TEST_F(Windowed, ForksShareTheWindow) {
  for (const bool cached : {false, true}) {
    auto first = New(cached), second = New(cached);
    Grow(first.get(), Ids(0, 330));
    second->Fork(*first, first->length());
    EXPECT_EQ(second->length(), 320);
    EXPECT_EQ(windows_.counts().in_use, 3);
    EXPECT_EQ(second->blocks(1)[8], first->blocks(1)[8]);
    EXPECT_EQ(second->blocks(1)[7], -1);
    first->Release();
    EXPECT_EQ(windows_.counts().in_use, 2);
    Grow(second.get(), Ids(600, 100));
    EXPECT_EQ(windows_.counts().in_use, 3);
  }
}

}  // namespace
}  // namespace penstock::kv
