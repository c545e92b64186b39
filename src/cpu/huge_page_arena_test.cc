#include "cpu/huge_page_arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "os/memory.h"

namespace penstock::cpu {
namespace {

TEST(HugePageArena, BlocksAreAlignedAndApart) {
  HugePageArena arena;
  std::vector<HugePageArena::Block> blocks;
  for (const size_t bytes : {1ul, 64ul, 65ul, 3ul << 20, 5ul << 20, 9ul << 20}) {
    blocks.push_back(arena.Alloc(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % HugePageArena::kAlignment, 0u);
    std::memset(blocks.back().data, static_cast<int>(blocks.size()), bytes);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % HugePageArena::kPageBytes, 0u);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(*static_cast<char*>(blocks[i].data), static_cast<char>(i + 1));
  }
}

// Nodes of this one memory: what counts is that threads of both touched their pages, all of them.
TEST(HugePageArena, PagesAreTouchedFromTheNodesInTurns) {
  constexpr size_t kBytes = 11 << 20;
  const uint64_t before = ResidentBytes();
  HugePageArena arena({{0}, {0, 1}});
  const HugePageArena::Block block = arena.Alloc(kBytes), small = arena.Alloc(100);
  EXPECT_GE(ResidentBytes(), before + kBytes);
  const char* const data = static_cast<const char*>(block.data);
  for (size_t at = 0; at < kBytes; at += 4096) ASSERT_EQ(data[at], 0);
  EXPECT_EQ(static_cast<const char*>(small.data)[99], 0);
}

TEST(HugePageArena, WhatIsFreedGoesBackToTheSystem) {
  HugePageArena arena;
  constexpr size_t kBytes = 3 << 20, kBlocks = 20;
  const uint64_t before = ResidentBytes();
  std::vector<HugePageArena::Block> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(arena.Alloc(kBytes));
    std::memset(blocks.back().data, 1, kBytes);
  }
  const uint64_t full = ResidentBytes();
  EXPECT_GE(full, before + kBlocks * kBytes * 9 / 10);
  blocks.resize(1);
  // All but the first and the newest chunk.
  EXPECT_LE(ResidentBytes(), full - kBlocks * kBytes / 2);
  blocks.clear();
  arena.Trim();
  EXPECT_LE(ResidentBytes(), before + (4 << 20));
  std::memset(arena.Alloc(kBytes).data, 1, kBytes);  // the arena is still usable
}

// Two models loaded one after the other; the second is unloaded.
TEST(HugePageArena, ABlockThatStaysKeepsItsOwnPagesOnly) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's own memory is resident too";
#endif
  HugePageArena arena;
  constexpr size_t kBytes = 7 << 20;
  const HugePageArena::Block first = arena.Alloc(100);
  std::memset(first.data, 7, 100);
  const uint64_t before = ResidentBytes();
  for (int i = 0; i < 3; ++i) {
    HugePageArena::Block second = arena.Alloc(kBytes);
    std::memset(second.data, 1, kBytes);
    // Its first page lies in memory already where pages are huge: `first` is in it.
    EXPECT_GE(ResidentBytes(), before + (kBytes - HugePageArena::kPageBytes) * 9 / 10);
    second = {};
    EXPECT_LE(ResidentBytes(), before + (3 << 20));
  }
  EXPECT_EQ(static_cast<char*>(first.data)[99], 7);
}

TEST(HugePageArena, AnEmptyChunkIsFilledAgainFromItsStart) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's own memory is resident too";
#endif
  HugePageArena arena;
  const uint64_t before = ResidentBytes();
  void* at = nullptr;
  for (int i = 0; i < 5; ++i) {
    const HugePageArena::Block block = arena.Alloc(3 << 20);
    if (at != nullptr) EXPECT_EQ(block.data, at);
    at = block.data;
    std::memset(at, 1, 3 << 20);
  }
  EXPECT_LE(ResidentBytes(), before + HugePageArena::kPageBytes / 2);
}

TEST(HugePageArena, ABlockOutlivesItsArena) {
  HugePageArena::Block block;
  {
    HugePageArena arena;
    block = arena.Alloc(1000);
  }
  std::memset(block.data, 7, 1000);
}

TEST(HugePageArena, TrimLeavesWhatIsUsed) {
  HugePageArena arena;
  const HugePageArena::Block block = arena.Alloc(1000);
  std::memset(block.data, 7, 1000);
  arena.Trim();
  EXPECT_EQ(static_cast<char*>(block.data)[999], 7);
}

}  // namespace
}  // namespace penstock::cpu
