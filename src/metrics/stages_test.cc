#include "metrics/stages.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace penstock::metrics {
namespace {

using std::chrono::nanoseconds;

const Clock::time_point kBegin{nanoseconds(1'000'000)};
Clock::time_point At(int64_t ns) { return kBegin + nanoseconds(ns); }

int64_t Sum(const RequestTrace& trace) {
  int64_t sum = 0;
  for (size_t s = 0; s < kStages; ++s) sum += trace.ns(static_cast<Stage>(s));
  return sum;
}

TEST(RequestTrace, StagesPartitionTheTime) {
  RequestTrace trace(kBegin);
  trace.Enter(Stage::kParse, At(10));
  trace.Enter(Stage::kTokenize, At(30));
  trace.Enter(Stage::kQueue, At(60));
  trace.Batched(At(100), At(105), At(205), false);
  trace.Batched(At(250), At(251), At(300), true);
  trace.Enter(Stage::kSerialise, At(310));
  trace.Enter(Stage::kSend, At(330));
  trace.Finish(At(400));
  EXPECT_EQ(trace.ns(Stage::kReceive), 10);
  EXPECT_EQ(trace.ns(Stage::kParse), 20);
  EXPECT_EQ(trace.ns(Stage::kTokenize), 30);
  EXPECT_EQ(trace.ns(Stage::kQueue), 40 + 45);
  EXPECT_EQ(trace.ns(Stage::kForm), 5 + 1);
  EXPECT_EQ(trace.ns(Stage::kForward), 100 + 49);
  EXPECT_EQ(trace.ns(Stage::kComplete), 10);
  EXPECT_EQ(trace.ns(Stage::kSerialise), 20);
  EXPECT_EQ(trace.ns(Stage::kSend), 70);
  EXPECT_EQ(trace.wall_ns(), 400);
  EXPECT_EQ(Sum(trace), 400);
}

TEST(RequestTrace, TimeDoesNotRunBackwards) {
  RequestTrace trace(kBegin);
  trace.Enter(Stage::kQueue, At(100));
  // Batches that overlapped in time, told one after the other.
  trace.Batched(At(110), At(120), At(200), false);
  trace.Batched(At(115), At(130), At(190), true);
  trace.Enter(Stage::kSerialise, At(-5));
  trace.Finish(At(250));
  EXPECT_EQ(trace.ns(Stage::kForward), 80);
  EXPECT_EQ(trace.ns(Stage::kSerialise), 50);
  EXPECT_EQ(Sum(trace), 250);
}

TEST(RequestTrace, LateThreadsChangeNothing) {
  RequestTrace trace(kBegin);
  trace.Enter(Stage::kQueue, At(10));
  trace.Enter(Stage::kSerialise, At(20));  // its deadline passed: answered from the queue
  trace.Batched(At(25), At(26), At(27), true);
  trace.Enter(Stage::kSend, At(30));
  trace.Finish(At(40));
  trace.Batched(At(45), At(46), At(47), true);
  trace.Finish(At(50));
  EXPECT_EQ(trace.ns(Stage::kForward), 0);
  EXPECT_EQ(trace.ns(Stage::kSerialise), 10);
  EXPECT_EQ(trace.ns(Stage::kSend), 10);
  EXPECT_EQ(Sum(trace), 40);
  EXPECT_EQ(trace.wall_ns(), 40);
}

TEST(RequestTrace, ThreadsOfOneRequestNeverSumToMoreThanItsTime) {
  const auto begin = Clock::now();
  RequestTrace trace(begin);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&trace] {
      for (int i = 0; i < 20'000; ++i) {
        trace.Enter(Stage::kForm);
        trace.Enter(Stage::kForward);
        trace.Enter(Stage::kQueue);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  trace.Finish();
  EXPECT_EQ(Sum(trace), trace.wall_ns());
  EXPECT_LE(trace.wall_ns(), nanoseconds(Clock::now() - begin).count());
}

TEST(RequestTrace, ModelNamesAreCut) {
  RequestTrace trace(kBegin);
  EXPECT_STREQ(trace.model(), "");
  trace.SetModel("owner/name");
  EXPECT_STREQ(trace.model(), "owner/name");
  RequestTrace other(kBegin);
  other.SetModel(std::string(100, 'x'));
  EXPECT_EQ(std::string_view(other.model()).size(), RequestTrace::kModelBytesMax);
}

// A name is never written where another thread may read it already.
TEST(RequestTrace, AModelNameThatWasShownStays) {
  RequestTrace trace(kBegin);
  trace.SetModel("a");
  const char* const shown = trace.model();
  trace.SetModel("longer");
  EXPECT_STREQ(shown, "a");
  EXPECT_STREQ(trace.model(), "a");
}

TEST(Stages, HaveDistinctNames) {
  for (size_t a = 0; a < kStages; ++a) {
    for (size_t b = 0; b < a; ++b) {
      EXPECT_STRNE(StageName(static_cast<Stage>(a)), StageName(static_cast<Stage>(b)));
    }
  }
}

}  // namespace
}  // namespace penstock::metrics
