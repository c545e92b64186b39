#include "batch/run_writer.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::batch {
namespace {

struct Fixture {
  explicit Fixture(uint32_t rows, size_t batches = 4) : ring(batches, {.rows = rows}, &ready) {}

  Reservation TakeAndPublish(RunWriter* writer, uint32_t rows = 1) {
    Reservation place;
    EXPECT_EQ(writer->Take(rows, &place), ReserveResult::kOk);
    writer->Publish();
    return place;
  }
  // Rows of the claimed batch that were written, in order.
  std::vector<uint32_t> Written() {
    std::vector<uint32_t> written;
    ring.ForEachTicket(claimed, [&](uint32_t row, uint32_t rows, RowTicket* ticket) {
      EXPECT_EQ(ticket, nullptr);
      for (uint32_t i = 0; i < rows; ++i) written.push_back(row + i);
    });
    return written;
  }

  EventCount ready;
  BatchRing ring;
  BatchRing::Claimed claimed;
};

TEST(RunWriter, RowsOfARunLieSideBySide) {
  Fixture f(64);
  RunWriter writer(&f.ring, {.first_rows = 4});
  Reservation plain;
  for (uint32_t row = 0; row < 4; ++row) EXPECT_EQ(f.TakeAndPublish(&writer).row, row);
  ASSERT_EQ(f.ring.Reserve({}, &plain), ReserveResult::kOk);
  EXPECT_EQ(plain.row, 4u);
  f.ring.Publish(plain, nullptr);
  EXPECT_EQ(f.TakeAndPublish(&writer, 3).row, 5u);  // a new run of four
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.rows, 8u);
  EXPECT_EQ(f.claimed.reserved, 9u);
  EXPECT_EQ(f.claimed.voids, 0u);  // at the end: not among the rows
  EXPECT_EQ(f.claimed.tickets, 8u);
  EXPECT_EQ(f.Written(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  f.ring.Complete(f.claimed);
  EXPECT_FALSE(f.ring.HasWork());
}

TEST(RunWriter, RowsNotTakenAreVoid) {
  Fixture f(64);
  RunWriter stops(&f.ring, {.first_rows = 4});
  RunWriter other(&f.ring, {.awaited = true, .first_rows = 4});
  f.TakeAndPublish(&stops);
  const Reservation place = f.TakeAndPublish(&other, 2);
  EXPECT_EQ(place.row, 4u);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.rows, 6u);
  EXPECT_EQ(f.claimed.reserved, 8u);
  EXPECT_EQ(f.claimed.voids, 3u);
  EXPECT_EQ(f.claimed.tickets, 3u);
  EXPECT_EQ(f.claimed.awaited, 2u);
  EXPECT_EQ(f.Written(), (std::vector<uint32_t>{0, 4, 5}));
  // Closed: the next row goes elsewhere.
  const Reservation next = f.TakeAndPublish(&stops);
  EXPECT_EQ(next.epoch, place.epoch + 1);
  f.ring.Complete(f.claimed);
  EXPECT_EQ(f.ring.Wait(place), RowsOutcome::kDone);
  f.ring.Release(place, 2);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.Written(), (std::vector<uint32_t>{0}));
  f.ring.Complete(f.claimed);
}

// The slot was used again, and another writer's run lies at the same rows.
TEST(RunWriter, AnotherWritersRunIsNotJoined) {
  Fixture f(8, 2);
  RunWriter stood_still(&f.ring, {.first_rows = 4, .rows_max = 4});
  RunWriter other(&f.ring, {.first_rows = 4, .rows_max = 4});
  const Reservation before = f.TakeAndPublish(&stood_still);
  Reservation place;
  for (uint32_t i = 0; i < BatchRing::kEpochs; ++i) {
    ASSERT_TRUE(f.ring.Claim(&f.claimed));
    f.ring.Complete(f.claimed);
    if (i + 1 == BatchRing::kEpochs) break;
    ASSERT_EQ(f.ring.Reserve({}, &place), ReserveResult::kOk);
    f.ring.Publish(place, nullptr);
  }
  place = f.TakeAndPublish(&other);
  ASSERT_EQ(place.epoch, before.epoch);  // they wrap
  ASSERT_EQ(place.row, before.row);
  EXPECT_EQ(f.TakeAndPublish(&stood_still).row, 4u);
  EXPECT_EQ(f.TakeAndPublish(&other).row, 1u);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.Written(), (std::vector<uint32_t>{0, 1, 4}));
  f.ring.Complete(f.claimed);
}

TEST(RunWriter, ATurnIsPublishedAsAWhole) {
  Fixture f(64);
  RunWriter writer(&f.ring, {.mode = RunMode::kTurn, .first_rows = 4, .rows_max = 4});
  const auto waiting = [&f] {
    uint32_t reservations = 0;
    f.ring.ForEachWaiting([&](uint32_t, uint32_t) { ++reservations; });
    return reservations;
  };
  f.TakeAndPublish(&writer, 2);
  f.TakeAndPublish(&writer);
  writer.EndTurn();
  writer.EndTurn();
  Reservation plain;
  ASSERT_EQ(f.ring.Reserve({}, &plain), ReserveResult::kOk);
  EXPECT_EQ(plain.row, 4u);
  f.ring.Publish(plain, nullptr);
  EXPECT_EQ(waiting(), 1u);  // runs are left out
  // Used up: published at once.
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(f.TakeAndPublish(&writer).row, 5 + i);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.rows, 8u);
  EXPECT_EQ(f.claimed.voids, 1u);
  EXPECT_EQ(f.Written(), (std::vector<uint32_t>{0, 1, 2, 4, 5, 6, 7}));
  f.ring.Complete(f.claimed);
  EXPECT_EQ(waiting(), 0u);
}

TEST(RunWriter, RunsGrowWhileABatchTakesSeveral) {
  Fixture f(256);
  RunWriter writer(&f.ring);
  // Lone requests: no row is reserved in vain, however many there are.
  for (int i = 0; i < 20; ++i) {
    f.TakeAndPublish(&writer);
    ASSERT_TRUE(f.ring.Claim(&f.claimed));
    EXPECT_EQ(f.claimed.reserved, 1u);
    f.ring.Complete(f.claimed);
  }
  // Many at once: 1, 1, 2, 4, 8, 16, 32.
  for (int i = 0; i < 33; ++i) f.TakeAndPublish(&writer);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.rows, 33u);
  EXPECT_EQ(f.claimed.reserved, 1u + 1 + 2 + 4 + 8 + 16 + 32);
  f.ring.Complete(f.claimed);
  // One was taken of the last: the next has one row.
  f.TakeAndPublish(&writer);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.reserved, 1u);
  f.ring.Complete(f.claimed);
}

// Small batches have small runs: voids stay few.
TEST(RunWriter, ARunIsAtMostAQuarterOfABatch) {
  Fixture f(8);
  RunWriter writer(&f.ring);
  Reservation place;
  for (int i = 0; i < 5; ++i) place = f.TakeAndPublish(&writer);
  ASSERT_TRUE(f.ring.Claim(&f.claimed));
  EXPECT_EQ(f.claimed.reserved, 1u + 1 + 2 + 2);
  f.ring.Complete(f.claimed);
  EXPECT_EQ(writer.Take(9, &place), ReserveResult::kTooLarge);
}

}  // namespace
}  // namespace penstock::batch
