#include "common/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace penstock {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnHeap = false;  // the sanitizers bring heaps of their own
#else
constexpr bool kOwnHeap = true;
#endif

TEST(Memory, FreeBlocksGoBack) {
  if (!kOwnHeap) GTEST_SKIP() << "the heap is the sanitizer's";
  constexpr size_t kBlockBytes = 64 << 10, kBlocks = 1024;
  const uint64_t before = ResidentBytes();
  ASSERT_GT(before, 0u);
  // Two kinds of blocks in turn: the freed ones lie between blocks that stay.
  std::vector<std::unique_ptr<char[]>> freed, kept;
  for (size_t i = 0; i < kBlocks; ++i) {
    freed.push_back(std::make_unique_for_overwrite<char[]>(kBlockBytes));
    std::memset(freed.back().get(), 1, kBlockBytes);
    kept.push_back(std::make_unique<char[]>(16));
  }
  const uint64_t full = ResidentBytes();
  EXPECT_GT(full, before + kBlocks * kBlockBytes * 9 / 10);
  freed.clear();
  EXPECT_GT(FreeHeapBytes(), kBlocks * kBlockBytes * 9 / 10);
  TrimHeap();
  EXPECT_LT(ResidentBytes(), full - kBlocks * kBlockBytes / 2);
}

}  // namespace
}  // namespace penstock
