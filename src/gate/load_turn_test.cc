#include "gate/load_turn.h"

#include <gtest/gtest.h>

#include <chrono>

namespace penstock::gate {
namespace {

using std::chrono::milliseconds;

int64_t TimeNs(Clock::time_point at) {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

// For how long works share a turn, to a millisecond; -1: others took the processor meanwhile.
int SharedMs(LoadTurn* load) {
  const Clock::time_point before = Clock::now();
  load->Begin();
  for (int shared = 0; shared < 1000; ++shared) {
    load->EndAt(before + milliseconds(shared));
    if (Clock::now() - before > milliseconds(1)) return -1;  // disturbed
    if (!load->held()) return shared;
    load->Begin();  // held: no wait
  }
  return 1000;
}

// `want`, or one more: the turn began a little after the time counted from.
testing::AssertionResult Shares(ComputeGate* gate, const LoadTurnLimits& limits, int want) {
  int shared = -1;
  for (int tries = 0; shared < 0 && tries < 1000; ++tries) {
    LoadTurn load(gate, limits);
    shared = SharedMs(&load);
  }
  if (shared == want || shared == want + 1) return testing::AssertionSuccess();
  return testing::AssertionFailure() << shared << " ms";
}

TEST(LoadTurn, WorksShareATurnForAWhile) {
  ComputeGate gate;
  EXPECT_TRUE(
      Shares(&gate, {.beside_interactive = milliseconds(5), .beside_bulk = milliseconds(50)}, 50));
  gate.SeeInteractive(TimeNs(Clock::now() + std::chrono::hours(1)));
  EXPECT_TRUE(
      Shares(&gate, {.beside_interactive = milliseconds(5), .beside_bulk = milliseconds(50)}, 5));
  EXPECT_EQ(gate.taken(), 0u);
}

TEST(LoadTurn, IsGivenBackAtOnceWhereAskedTo) {
  ComputeGate gate;
  LoadTurn load(
      &gate, {.beside_interactive = std::chrono::hours(1), .beside_bulk = std::chrono::hours(1)});
  load.GiveBack();
  for (int i = 0; i < 3; ++i) {
    load.Begin();
    load.End();
    EXPECT_TRUE(load.held());
    EXPECT_EQ(gate.taken(), 1u);
    load.GiveBack();
    EXPECT_FALSE(load.held());
    EXPECT_EQ(gate.taken(), 0u);
  }
  load.Begin();
}

// A batch of bulk work waits for as long as works share a turn, and no longer.
TEST(LoadTurn, GoesToWhoeverWaits) {
  struct Bulk final : GateClient {
    GateDemand Demand() const override { return {.bulk = true, .bulk_pending = true}; }
  } bulk;
  ComputeGate gate;
  LoadTurn load(
      &gate, {.beside_interactive = std::chrono::hours(1), .beside_bulk = std::chrono::hours(1)});
  load.Begin();
  ComputeGate::Turn turn(&gate, &bulk);
  EXPECT_EQ(turn.Ask(), ComputeGate::Answer::kWaits);
  load.End();
  EXPECT_EQ(turn.Ask(), ComputeGate::Answer::kWaits);
  load.Begin();
  load.EndAt(Clock::now() + std::chrono::hours(2));
  EXPECT_FALSE(load.held());
  EXPECT_EQ(turn.Ask(), ComputeGate::Answer::kGranted);
}

}  // namespace
}  // namespace penstock::gate
