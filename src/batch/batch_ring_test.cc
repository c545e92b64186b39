#include "batch/batch_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace penstock::batch {
namespace {

TEST(BatchRing, FillsSealsAndReuses) {
  EventCount ready;
  BatchRing ring(2, {.rows = 4, .units = 10}, &ready);
  Reservation a, b, c;
  BatchRing::Claimed claimed;
  EXPECT_FALSE(ring.Claim(&claimed));
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(ring.Reserve({.rows = 2, .units = 7}, &a), ReserveResult::kOk);
    ASSERT_EQ(ring.Reserve({.rows = 1, .units = 3}, &b), ReserveResult::kOk);
    EXPECT_EQ(a.row, 0u);
    EXPECT_EQ(b.row, 2u);
    EXPECT_EQ(b.unit, 7u);
    EXPECT_EQ(a.slot, b.slot);
    ASSERT_EQ(ring.Reserve({.rows = 1, .units = 1}, &c), ReserveResult::kOk);  // does not fit
    EXPECT_NE(c.slot, a.slot);
    EXPECT_EQ(c.row, 0u);
    Reservation none;
    EXPECT_EQ(ring.Reserve({.rows = 4, .units = 1}, &none), ReserveResult::kFull);
    EXPECT_EQ(ring.Reserve({.rows = 5, .units = 1}, &none), ReserveResult::kTooLarge);
    ring.Publish(a, nullptr);
    ring.Publish(b, nullptr);
    ring.Publish(c, nullptr);
    EXPECT_TRUE(ring.HasWork());
    ASSERT_TRUE(ring.Claim(&claimed));
    EXPECT_EQ(claimed.rows, 3u);
    EXPECT_EQ(claimed.units, 10u);
    EXPECT_EQ(claimed.tickets, 2u);
    ring.Complete(claimed);
    ASSERT_TRUE(ring.Claim(&claimed));
    EXPECT_EQ(claimed.rows, 1u);
    ring.Complete(claimed);
    EXPECT_FALSE(ring.HasWork());
  }
}

TEST(BatchRing, AwaitedRowsKeepTheSlot) {
  EventCount ready;
  BatchRing ring(2, {.rows = 1}, &ready);
  Reservation a, b, c;
  BatchRing::Claimed claimed;
  ASSERT_EQ(ring.Reserve({}, &a), ReserveResult::kOk);
  ring.PublishAwaited(a);
  ASSERT_TRUE(ring.Claim(&claimed));
  ring.Complete(claimed);
  EXPECT_TRUE(ring.IsDone(a));
  ASSERT_EQ(ring.Reserve({}, &b), ReserveResult::kOk);
  EXPECT_EQ(ring.Reserve({}, &c), ReserveResult::kFull);  // a was not read yet
  EXPECT_EQ(ring.Wait(a), RowsOutcome::kDone);
  ring.Release(a);
  EXPECT_EQ(ring.Reserve({}, &c), ReserveResult::kOk);
}

// Results that are being read keep the next slot; the open batch runs all the same.
TEST(BatchRing, ABatchIsClaimedWhileTheNextSlotIsTaken) {
  EventCount ready;
  BatchRing ring(2, {.rows = 4}, &ready);
  Reservation held, open, none;
  BatchRing::Claimed claimed;
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(ring.Reserve({}, &held), ReserveResult::kOk);
    ring.PublishAwaited(held);
    ASSERT_TRUE(ring.Claim(&claimed));
    ring.Complete(claimed);
    ASSERT_EQ(ring.Reserve({.rows = 2}, &open), ReserveResult::kOk);
    ring.PublishAwaited(open);
    EXPECT_TRUE(ring.HasWork());
    ASSERT_TRUE(ring.Claim(&claimed));
    EXPECT_EQ(claimed.rows, 2u);
    EXPECT_FALSE(ring.HasWork());
    BatchRing::Claimed nothing;
    EXPECT_FALSE(ring.Claim(&nothing));
    uint32_t waiting = 0;
    ring.ForEachWaiting([&](uint32_t, uint32_t) { ++waiting; });
    EXPECT_EQ(waiting, 0u);
    // Closed, and nothing can be opened.
    EXPECT_EQ(ring.Reserve({}, &none), ReserveResult::kFull);
    EXPECT_EQ(ring.Reserve({.rows = 4}, &none), ReserveResult::kFull);
    ring.Complete(claimed);
    EXPECT_EQ(ring.Wait(open), RowsOutcome::kDone);
    ring.Release(open);
    EXPECT_EQ(ring.Reserve({}, &none), ReserveResult::kFull);
    ring.Release(held);
    // A full batch, which no executor had to close, is handed out as well.
    ASSERT_EQ(ring.Reserve({.rows = 4}, &held), ReserveResult::kOk);
    ring.PublishAwaited(held);
    ASSERT_EQ(ring.Reserve({}, &open), ReserveResult::kOk);
    ring.Publish(open, nullptr);
    EXPECT_EQ(ring.Reserve({.rows = 4}, &none), ReserveResult::kFull);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(ring.Claim(&claimed));
      ring.Complete(claimed);
    }
    ring.Release(held);
  }
}

// A slot's `done` of 2^18 epochs ago looks like this epoch's.
TEST(BatchRing, NothingIsLeftFromEpochsAgo) {
  EventCount ready;
  BatchRing ring(2, {.rows = 1}, &ready);
  Reservation place;
  BatchRing::Claimed claimed;
  ASSERT_EQ(ring.Reserve({}, &place), ReserveResult::kOk);
  ring.PublishAwaited(place);
  ASSERT_TRUE(ring.Claim(&claimed));
  ring.Complete(claimed);
  ring.Release(place);
  const uint32_t first = place.epoch;
  for (uint32_t i = 1; i < BatchRing::kEpochs; ++i) {
    ASSERT_EQ(ring.Reserve({}, &place), ReserveResult::kOk);
    ring.Publish(place, nullptr);
    ASSERT_TRUE(ring.Claim(&claimed));
    ring.Complete(claimed);
  }
  ASSERT_EQ(ring.Reserve({}, &place), ReserveResult::kOk);
  ASSERT_EQ(place.epoch, first);
  ring.PublishAwaited(place);
  EXPECT_FALSE(ring.IsDone(place));
}

// A batch is filled to each limit exactly, by costs that are added and by costs that are swapped
// in.
TEST(BatchRing, EachLimitHoldsToTheLast) {
  for (const BatchCost& limits : {BatchCost{1, 0, 0}, BatchCost{7, 100, 50}, BatchRing::kLimitMax,
                                  BatchCost{8191, 0, 2047}}) {
    EventCount ready;
    BatchRing ring(2, limits, &ready);
    Reservation place;
    for (BatchCost over : {BatchCost{limits.rows + 1, 0, 0}, BatchCost{1, limits.units + 1, 0},
                           BatchCost{1, 0, limits.work + 1}, BatchCost{0, 0, 0},
                           BatchCost{UINT32_MAX, UINT32_MAX, UINT32_MAX}}) {
      EXPECT_EQ(ring.Reserve(over, &place), ReserveResult::kTooLarge);
    }
    ASSERT_EQ(ring.Reserve(limits, &place), ReserveResult::kOk);
    const uint32_t epoch = place.epoch;
    ASSERT_EQ(ring.Reserve({1, 0, 0}, &place), ReserveResult::kOk);
    EXPECT_EQ(place.epoch, epoch + 1);
    for (uint32_t row = 1; row < limits.rows; ++row) {
      ASSERT_EQ(ring.Reserve({1, 0, 0}, &place), ReserveResult::kOk);
      ASSERT_EQ(place.row, row);
      ASSERT_EQ(place.epoch, epoch + 1);
    }
    EXPECT_EQ(ring.Reserve({1, 0, 0}, &place), ReserveResult::kFull);
    EXPECT_EQ(ring.Reserve(limits, &place), ReserveResult::kFull);
  }
}

}  // namespace
}  // namespace penstock::batch
