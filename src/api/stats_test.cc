#include "api/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "registry/registry.h"

namespace penstock::api {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class ServiceStatsTest : public testing::Test {
 protected:
  ServiceStatsTest()
      : registry_(nullptr, &metrics_), pool_(2, 10), stats_(&registry_, &pool_, &metrics_) {}

  // 1 ms receive, 2 parse, 3 load, ... 12 send: 78 ms in all, times `scale`.
  void Record(int scale = 1) {
    const Clock::time_point begin = Clock::now();
    metrics::RequestTrace trace(begin);
    auto at = begin;
    for (size_t s = 0; s < metrics::kStages; ++s) {
      if (s > 0) trace.Enter(static_cast<metrics::Stage>(s), at);
      at += milliseconds(scale * static_cast<int>(s + 1));
    }
    trace.Finish(at);
    stats_.Record(trace);
  }

  metrics::Metrics metrics_;
  registry::Registry registry_;
  WorkerPool pool_;
  ServiceStats stats_;
};

TEST_F(ServiceStatsTest, StagesSumUpToTheRequests) {
  for (int i = 0; i < 100; ++i) Record();
  // The window has time in which this process does nothing: its processors are not busy.
  std::this_thread::sleep_for(milliseconds(50));
  const Stats stats = stats_.Read();
  EXPECT_EQ(stats.requests.count(), 100u);
  EXPECT_NEAR(stats.requests.total_s(), 7.8, 1e-9);
  ASSERT_EQ(stats.stages.size(), metrics::kStages);
  double total_s = 0;
  double percent = 0;
  for (size_t s = 0; s < metrics::kStages; ++s) {
    const StageStats& stage = stats.stages[s];
    EXPECT_EQ(stage.latency.count(), 100u);
    EXPECT_NEAR(stage.latency.total_s(), 0.1 * static_cast<double>(s + 1), 1e-9);
    EXPECT_NEAR(stage.percent, static_cast<double>(s + 1) / 0.78, 1e-6);
    EXPECT_NEAR(stage.latency.percentile_ns(0.99), 1e6 * static_cast<double>(s + 1),
                0.02e6 * static_cast<double>(s + 1));
    total_s += stage.latency.total_s();
    percent += stage.percent;
  }
  EXPECT_NEAR(total_s, stats.requests.total_s(), 1e-9);
  EXPECT_NEAR(percent, 100, 1e-6);
  EXPECT_EQ(stats.bottleneck.name, "send");
  EXPECT_FALSE(stats.bottleneck.saturated);
}

TEST_F(ServiceStatsTest, AStageThatWasNotPassedIsNotCounted) {
  metrics::RequestTrace trace(Clock::now());
  trace.Enter(metrics::Stage::kParse, Clock::now() + milliseconds(1));
  trace.Enter(metrics::Stage::kTokenize, Clock::now() + milliseconds(2));
  trace.Enter(metrics::Stage::kSerialise, Clock::now() + milliseconds(3));
  trace.Finish(Clock::now() + milliseconds(4));
  stats_.Record(trace);
  const Stats stats = stats_.Read();
  EXPECT_EQ(stats.stages[static_cast<size_t>(metrics::Stage::kTokenize)].latency.count(), 1u);
  EXPECT_EQ(stats.stages[static_cast<size_t>(metrics::Stage::kForward)].latency.count(), 0u);
}

TEST_F(ServiceStatsTest, ResetBeginsANewWindowAndMetricsGoOn) {
  Record(100);
  stats_.Reset();
  EXPECT_EQ(stats_.Read().requests.count(), 0u);
  EXPECT_EQ(stats_.Read().requests.max_ns(), 0);
  Record();
  const Stats stats = stats_.Read();
  EXPECT_EQ(stats.requests.count(), 1u);
  EXPECT_NEAR(stats.requests.max_ns(), 78e6, 0.02 * 78e6);
  EXPECT_LT(stats.window_s, stats.uptime_s);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_stage_duration_seconds_count{stage=\"forward\"} 2\n"));
}

TEST_F(ServiceStatsTest, ResetsWhileRequestsEndLoseNone) {
  constexpr int kThreads = 3;
  constexpr int kRequests = 400;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRequests; ++i) Record();
      --running;
    });
  }
  while (running > 0) {
    stats_.Reset();
    EXPECT_LE(stats_.Read().requests.count(), uint64_t{kThreads} * kRequests);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_stage_duration_seconds_count{stage=\"send\"} 1200\n"));
}

LoadSums Load(double forward_s, double queue_s) {
  LoadSums load;
  load.seconds = 10;
  load.requests = 100;
  load.stage_s[static_cast<size_t>(metrics::Stage::kForward)] = forward_s;
  load.stage_s[static_cast<size_t>(metrics::Stage::kQueue)] = queue_s;
  load.models.resize(2);
  return load;
}

TEST(DecodeTotals, SinceNeverFallsBelowNothing) {
  generate::DecodeTotals before, now;
  before.steps = 5;
  before.busy_s = 2;
  now.steps = 7;
  now.busy_s = 1;  // another model of the name
  now.generated_tokens = 3;
  const generate::DecodeTotals since = now.Since(before);
  EXPECT_EQ(since.steps, 2u);
  EXPECT_EQ(since.busy_s, 0);
  EXPECT_EQ(since.generated_tokens, 3u);
}

TEST(FindBottleneck, AModelThatWritesAllTheTime) {
  LoadSums load = Load(1, 1);
  load.models[1].text = true;
  load.models[1].decode.busy_s = 9.5;
  const Bottleneck found = FindBottleneck(load, {"a", "writer"}, 2, 2);
  EXPECT_EQ(found.name, "decode");
  EXPECT_TRUE(found.saturated);
  EXPECT_THAT(found.why, HasSubstr("'writer' is busy 95 %"));
}

// Models come, go and change places between two looks.
TEST(LoadSums, ModelsAreKnownByTheirNames) {
  LoadSums before, now;
  before.seconds = 100;
  now.seconds = 115;
  before.models.resize(2);
  before.models[0].name = "a";
  before.models[0].batches = 760;
  before.models[0].decode.busy_s = 80;
  before.models[1].name = "b";
  before.models[1].batches = 5;
  now.models = {before.models[1], before.models[0], LoadSums::Model()};
  now.models[1].text = true;
  now.models[0].batches = 7;
  now.models[2].name = "c";
  now.models[2].batches = 1;
  const LoadSums window = now.Since(before);
  EXPECT_EQ(window.seconds, 15);
  EXPECT_EQ(window.models[0].batches, 2u);
  EXPECT_EQ(window.models[1].batches, 0u);
  EXPECT_EQ(window.models[1].decode.busy_s, 0);
  EXPECT_EQ(window.models[2].batches, 1u);
  EXPECT_EQ(FindBottleneck(window, {"b", "a", "c"}, 2, 2).name, "none");
}

TEST(Bottleneck, ABusyModelComesFirst) {
  LoadSums load = Load(10, 500);
  load.models[1].busy_s = 9.7;
  const Bottleneck found = FindBottleneck(load, {"a", "b"}, 4, 2);
  EXPECT_EQ(found.name, "forward");
  EXPECT_EQ(found.why, "the model 'b' is busy 97 % of the time");
  EXPECT_TRUE(found.saturated);
  EXPECT_EQ(found.window_s, 10);
}

TEST(Bottleneck, PercentagesHaveADigitAfterThePointWhereItIsNotZero) {
  LoadSums load = Load(10, 500);
  load.models[1].busy_s = 9.662;
  EXPECT_EQ(FindBottleneck(load, {"a", "b"}, 4, 2).why, "the model 'b' is busy 96.6 % of the time");
  load.models[1].busy_s = 12;  // of two threads
  EXPECT_EQ(FindBottleneck(load, {"a", "b"}, 4, 2).why, "the model 'b' is busy 100 % of the time");
}

TEST(Bottleneck, ThenBusyWorkersThenBusyProcessors) {
  LoadSums load = Load(10, 5);
  load.processor_s = 19;
  EXPECT_EQ(FindBottleneck(load, {"a", "b"}, 4, 4).name, "forward");  // not all are busy
  EXPECT_FALSE(FindBottleneck(load, {"a", "b"}, 4, 4).saturated);
  const Bottleneck processor = FindBottleneck(load, {"a", "b"}, 4, 2);
  EXPECT_EQ(processor.name, "processor");
  EXPECT_THAT(processor.why, HasSubstr("2 processors are busy 95 %"));
  EXPECT_THAT(processor.why, HasSubstr("forward"));
  load.tokenize_busy_s = 38;
  const Bottleneck workers = FindBottleneck(load, {"a", "b"}, 4, 2);
  EXPECT_EQ(workers.name, "tokenize");
  EXPECT_EQ(workers.why, "the 4 tokenization workers are busy 95 % of the time");
}

TEST(Bottleneck, ElseTheStageThatTakesMost) {
  const Bottleneck found = FindBottleneck(Load(1, 3), {"a", "b"}, 4, 2);
  EXPECT_EQ(found.name, "queue");
  EXPECT_THAT(found.why, HasSubstr("75 % of the requests' time"));
  EXPECT_FALSE(found.saturated);
}

TEST(Bottleneck, NothingToDoAndNoModel) {
  EXPECT_EQ(FindBottleneck(LoadSums(), {}, 4, 2).name, "none");
  LoadSums idle;
  idle.seconds = 10;
  idle.processor_s = 20;  // of something else: loading a model
  EXPECT_EQ(FindBottleneck(idle, {}, 4, 2).name, "none");
}

}  // namespace
}  // namespace penstock::api
