// Which requests are let in when several clients ask for places.
#include "api/client_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace penstock::api {
namespace {

constexpr int64_t kLimit = 64;

bool Take(ClientSlots* slots, uint64_t client, uint32_t weight = 1, int64_t limit = kLimit) {
  ClientSlots::Refused refused;
  return slots->TryTake({client, weight}, limit, &refused);
}

int64_t TakeAll(ClientSlots* slots, uint64_t client, uint32_t weight = 1) {
  int64_t taken = 0;
  while (Take(slots, client, weight)) ++taken;
  return taken;
}

TEST(ClientSlots, OneClientAloneHasThemAllAndNoMore) {
  ClientSlots slots;
  EXPECT_EQ(TakeAll(&slots, 1), kLimit);
  ClientSlots::Refused refused;
  EXPECT_FALSE(slots.TryTake({1, 1}, kLimit, &refused));
  EXPECT_EQ(refused.all, kLimit);
  EXPECT_EQ(refused.own, kLimit);
  EXPECT_TRUE(refused.alone);
  slots.Release({1, 1});
  EXPECT_TRUE(Take(&slots, 1));
  EXPECT_FALSE(Take(&slots, 1));
}

TEST(ClientSlots, AClientThatHasThemAllShutsNobodyOut) {
  ClientSlots slots;
  TakeAll(&slots, 1);
  // Others are let in over the limit, up to an eighth.
  for (uint64_t client = 2; client < 10; ++client) EXPECT_TRUE(Take(&slots, client)) << client;
  EXPECT_EQ(slots.taken(), ClientSlots::Most(kLimit));
  ClientSlots::Refused refused;
  EXPECT_FALSE(slots.TryTake({1, 1}, kLimit, &refused));
  EXPECT_EQ(refused.share, kLimit / 9);
  EXPECT_FALSE(refused.alone);
  EXPECT_FALSE(Take(&slots, 10));
  // What it gives back goes to the others up to their share, and not to it.
  for (int i = 0; i < kLimit / 10; ++i) {
    slots.Release({1, 1});
    EXPECT_FALSE(Take(&slots, 1));
    EXPECT_TRUE(Take(&slots, 10));
    EXPECT_FALSE(Take(&slots, 11));
  }
}

TEST(ClientSlots, SharesGoByWeight) {
  // Client 1 of weight 3 and client 2 of weight 1 always ask for more; requests end at random.
  ClientSlots slots;
  TakeAll(&slots, 2);
  std::map<uint64_t, int64_t> held = {{2, kLimit}};
  const std::map<uint64_t, uint32_t> weights = {{1, 3}, {2, 1}};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t ends =
        random() % static_cast<uint64_t>(held[1] + held[2]) < static_cast<uint64_t>(held[1]) ? 1
                                                                                             : 2;
    slots.Release({ends, weights.at(ends)});
    --held[ends];
    for (const auto& [client, weight] : weights) {
      while (Take(&slots, client, weight)) ++held[client];
    }
    if (i < 2000) continue;
    EXPECT_GE(held[1], 3 * kLimit / 4);
    EXPECT_GE(held[2], kLimit / 8);
  }
}

TEST(ClientSlots, BulkHasItsOwnLimit) {
  ClientSlots slots;
  const int64_t bulk = 3 * kLimit / 4;
  for (int i = 0; i < bulk; ++i) EXPECT_TRUE(Take(&slots, 1, 1, bulk));
  EXPECT_FALSE(Take(&slots, 1, 1, bulk));
  EXPECT_TRUE(Take(&slots, 2, 1, bulk));
  EXPECT_TRUE(Take(&slots, 1));  // an interactive request of the same client
}

TEST(ClientSlots, OnesThatAreNeverRefusedCount) {
  ClientSlots slots;
  for (int i = 0; i < kLimit; ++i) slots.Take({7, 2});
  EXPECT_EQ(slots.taken(), kLimit);
  EXPECT_FALSE(Take(&slots, 7, 2));
  EXPECT_TRUE(Take(&slots, 8));
}

TEST(ClientSlots, CountsComeBackToNothing) {
  ClientSlots slots;
  std::mt19937 random(2);
  std::vector<ClientShare> held;
  for (int i = 0; i < 100'000; ++i) {
    const ClientShare from{random() % 50, 1 + static_cast<uint32_t>(random() % 3)};
    ClientSlots::Refused refused;
    if (random() % 2 == 0 && slots.TryTake(from, kLimit, &refused)) {
      held.push_back(from);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      slots.Release(held.back());
      held.pop_back();
    }
    ASSERT_LE(slots.taken(), ClientSlots::Most(kLimit));
  }
  for (const ClientShare& from : held) slots.Release(from);
  EXPECT_EQ(slots.taken(), 0);
  EXPECT_EQ(TakeAll(&slots, 1), kLimit);
}

}  // namespace
}  // namespace penstock::api
