// What a batch of a program with a cache must hold, by kind of group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "program/program_run.h"

namespace penstock::program {
namespace {

constexpr CacheGroup kGroups[] = {
    kFullGroup, {CacheKind::kWindow, 40}, {.kind = CacheKind::kState}};

// A sequence of one new token after 99 others, in blocks of 32 tokens.
Status Check(const BlockTable& full, const BlockTable& window, const BlockTable& state) {
  Program program;
  program.max_length = 200;
  PrepareOptions options;
  options.rows = 8;
  options.blocks = {10, 10, 10};
  const std::vector<BlockTable> tables = {full, window, state};
  const std::vector<int32_t> ids = {1}, picks = {0};
  return CheckCachedBatch(program, SingleSequence(1, 99, tables).Batch(ids, picks), options,
                          kGroups);
}

TEST(CheckCachedBatch, BlocksThatAreNotReadMayBeMissing) {
  EXPECT_TRUE(Check({0, 1, 2, 3}, {-1, 1, 2, 3}, {-1, -1, -1, 3}).ok());
  // The window sees tokens from 60 on; the state is that after token 98.
  EXPECT_EQ(Check({-1, 1, 2, 3}, {-1, 1, 2, 3}, {-1, -1, -1, 3}).field(), "sequences");
  EXPECT_EQ(Check({0, 1, 2, 3}, {-1, -1, 2, 3}, {-1, -1, -1, 3}).field(), "sequences");
  EXPECT_EQ(Check({0, 1, 2, 3}, {-1, 1, 2, 3}, {-1, -1, -1, -1}).field(), "sequences");
  EXPECT_EQ(Check({0, 1, 2, 3}, {-1, 1, 2, 3}, {-1, -1, 3}).message(),
            "sequence 0 has too few blocks");
  EXPECT_EQ(Check({0, 1, 2, 10}, {-1, 1, 2, 3}, {-1, -1, -1, 3}).message(),
            "sequence 0 has a block beyond the cache");
}

TEST(CheckCachedBatch, EachSequenceSaysWhatIsCached) {
  Program program;
  program.max_length = 200;
  PrepareOptions options;
  options.rows = 8;
  options.picks = 2;
  options.blocks = {10};
  const std::vector<int32_t> ids = {1, 2, 3}, offsets = {0, 2, 3}, picks = {1, 2};
  const BlockTable first = {0}, second = {1};
  const std::vector<CachedSequence> cached = {{0, first}, {0, second}};
  PackedBatch batch = {.ids = ids, .offsets = offsets, .cached = cached, .picks = picks};
  const auto groups = std::span(kGroups).first(1);
  EXPECT_TRUE(CheckCachedBatch(program, batch, options, groups).ok());
  batch.cached = std::span(cached).first(1);
  EXPECT_EQ(CheckCachedBatch(program, batch, options, groups).field(), "sequences");
  batch.cached = cached;
  batch.offsets = std::span(offsets).first(2);
  EXPECT_EQ(CheckCachedBatch(program, batch, options, groups).field(), "sequences");
  batch.offsets = offsets;
  const PickWant one_want[] = {PickWant::kBest};
  batch.wants = one_want;
  EXPECT_EQ(CheckCachedBatch(program, batch, options, groups).field(), "wants");
}

}  // namespace
}  // namespace penstock::program
