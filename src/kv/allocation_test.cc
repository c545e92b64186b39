// Sequences come, grow, fork and go, blocks are evicted and uncommitted: nothing is allocated.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/failing_new.h"
#include "kv/sequence.h"

namespace penstock::kv {
namespace {

TEST(Kv, AllocatesNothingAfterConstruction) {
  const CacheGroup groups[] = {kFullGroup, {CacheKind::kWindow, 100}, {CacheKind::kState}};
  CachePools pools(groups, std::vector<int32_t>{64, 40, 30}, 8);
  BlockPool& pool = pools[0];
  PrefixCache cache(&pools);
  Sequence one(&pools, &cache, 1024), two(&pools, &cache, 1024);
  std::vector<int32_t> ids(1024), given(64);
  const long before = FailingNew::Allocations();
  uint64_t gained = 0;
  for (int32_t turn = 0; turn < 50; ++turn) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i) + turn / 3 * 1000;
    one.TakeCached(ids);
    two.Fork(one, one.length());
    for (Sequence* sequence : {&one, &two}) {
      const auto done = static_cast<size_t>(sequence->length());
      gained += done;
      for (size_t i = done; i < 700 + static_cast<size_t>(turn); ++i) {
        ASSERT_TRUE(sequence->Reserve(1).ok());
        sequence->Append(std::span(ids).subspan(i, 1));
      }
    }
    two.Truncate(33);
    one.Release();
    two.Release();
    pool.SetTime(turn);
    pool.EvictIdleSince(turn - 1, 20);
    for (size_t g = 0; g < pools.size(); ++g) pools[g].Uncommit(8, given);
  }
  EXPECT_EQ(FailingNew::Allocations() - before, 0);
  EXPECT_GT(gained, 0u);
  EXPECT_GT(pool.counts().evictions, 0u);
}

}  // namespace
}  // namespace penstock::kv
