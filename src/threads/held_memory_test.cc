#include "threads/held_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

namespace penstock {
namespace {

TEST(HeapBytes, AreThoseOfMalloc) {
  for (const size_t bytes : {1, 24, 25, 40, 41, 80, 100, 1000, 4000, 100'000}) {
    void* const block = std::malloc(bytes);
    // A rest too small for a block of its own stays with the one before it.
    EXPECT_NEAR(HeapBytes(bytes), malloc_usable_size(block) + sizeof(size_t), 16) << bytes;
    std::free(block);
  }
  EXPECT_EQ(HeapBytes(0), 0u);
  EXPECT_EQ(HeapTextBytes(15), 0u);
  EXPECT_EQ(HeapTextBytes(16), HeapBytes(17));
}

TEST(HeldMemory, TakesInSlicesAndGivesBack) {
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  const auto memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  {
    HeldMemory held(memory);
    EXPECT_TRUE(held.Take(10).ok());
    EXPECT_EQ(memory->held(), 4096);
    for (int i = 0; i < 400; ++i) EXPECT_TRUE(held.Take(10).ok());
    EXPECT_EQ(memory->held(), 4096);
    EXPECT_TRUE(held.Take(100'000).ok());
    EXPECT_GE(memory->held(), 104'010);
    EXPECT_LT(memory->held(), 104'010 + 4096);
    const int64_t before = memory->held();
    EXPECT_EQ(held.Take(1 << 20).code(), StatusCode::kPayloadTooLarge);
    EXPECT_EQ(memory->held(), before);
  }
  EXPECT_EQ(memory->held(), 0);
  HeldMemory uncounted(nullptr);
  EXPECT_TRUE(uncounted.Take(SIZE_MAX).ok());
}

}  // namespace
}  // namespace penstock
