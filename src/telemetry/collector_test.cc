#include "telemetry/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/fake_engine.h"
#include "registry/registry.h"
#include "sched/scheduler_metrics.h"

namespace penstock::telemetry {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class CollectorTest : public testing::Test {
 protected:
  CollectorTest()
      : registry_(nullptr, &metrics_), pool_(2, 10), collector_(&registry_, &pool_, &metrics_) {}

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
    collector_.Record(trace);
  }

  metrics::Metrics metrics_;
  registry::Registry registry_;
  WorkerPool pool_;
  Collector collector_;
};

TEST_F(CollectorTest, StagesSumUpToTheRequests) {
  for (int i = 0; i < 100; ++i) Record();
  // The window has time in which this process does nothing: its processors are not busy.
  std::this_thread::sleep_for(milliseconds(50));
  const Stats stats = collector_.ReadStats();
  EXPECT_EQ(stats.window.requests.count(), 100u);
  EXPECT_NEAR(stats.window.requests.total_s(), 7.8, 1e-9);
  double total_s = 0;
  for (size_t s = 0; s < metrics::kStages; ++s) {
    const metrics::DurationSnapshot& stage = stats.window.stages[s];
    EXPECT_EQ(stage.count(), 100u);
    EXPECT_NEAR(stage.total_s(), 0.1 * static_cast<double>(s + 1), 1e-9);
    EXPECT_NEAR(stage.percentile_ns(0.99), 1e6 * static_cast<double>(s + 1),
                0.02e6 * static_cast<double>(s + 1));
    total_s += stage.total_s();
  }
  EXPECT_NEAR(total_s, stats.window.requests.total_s(), 1e-9);
  EXPECT_EQ(stats.bottleneck.name, "send");
  EXPECT_FALSE(stats.bottleneck.saturated);
}

TEST_F(CollectorTest, AStageThatWasNotPassedIsNotCounted) {
  metrics::RequestTrace trace(Clock::now());
  trace.Enter(metrics::Stage::kParse, Clock::now() + milliseconds(1));
  trace.Enter(metrics::Stage::kTokenize, Clock::now() + milliseconds(2));
  trace.Enter(metrics::Stage::kSerialise, Clock::now() + milliseconds(3));
  trace.Finish(Clock::now() + milliseconds(4));
  collector_.Record(trace);
  const Stats stats = collector_.ReadStats();
  EXPECT_EQ(stats.window.stages[static_cast<size_t>(metrics::Stage::kTokenize)].count(), 1u);
  EXPECT_EQ(stats.window.stages[static_cast<size_t>(metrics::Stage::kForward)].count(), 0u);
}

TEST_F(CollectorTest, ResetBeginsANewWindowAndMetricsGoOn) {
  Record(100);
  collector_.Reset();
  EXPECT_EQ(collector_.ReadStats().window.requests.count(), 0u);
  EXPECT_EQ(collector_.ReadStats().window.requests.max_ns(), 0);
  Record();
  const Stats stats = collector_.ReadStats();
  EXPECT_EQ(stats.window.requests.count(), 1u);
  EXPECT_NEAR(stats.window.requests.max_ns(), 78e6, 0.02 * 78e6);
  EXPECT_LT(stats.window.seconds, stats.uptime_s);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_stage_duration_seconds_count{stage=\"forward\"} 2\n"));
}

TEST_F(CollectorTest, ResetsWhileRequestsEndLoseNone) {
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
    collector_.Reset();
    EXPECT_LE(collector_.ReadStats().window.requests.count(), uint64_t{kThreads} * kRequests);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_stage_duration_seconds_count{stage=\"send\"} 1200\n"));
}

TEST_F(CollectorTest, ReadsTheSeriesOfModelsByTheirNames) {
  engine::EncoderEngineOptions options;
  options.name = "embedder";
  ASSERT_TRUE(registry_
                  .AddLoaded(std::make_unique<engine::EncoderEngine>(
                      engine::FakeParts(families::ModelTask::kEmbedding), options, &metrics_))
                  .ok());
  const Snapshot before = collector_.Read();
  sched::SchedulerMetrics series = sched::SchedulerMetrics::Of(&metrics_, "embedder");
  series.batch_tokens.Observe(30);
  series.batch_sequences.Observe(2);
  series.batch_fill.Observe(0.25);
  series.classes[1].queue_requests->Add(3);
  const Snapshot now = collector_.Read();
  const Snapshot window = now.Since(before);
  ASSERT_EQ(window.models.size(), 1u);
  const Snapshot::Model& model = window.models[0];
  EXPECT_EQ(model.name, "embedder");
  EXPECT_EQ(model.kind, Snapshot::Model::Kind::kEncoder);
  EXPECT_TRUE(model.ready);
  EXPECT_EQ(model.batches, 1u);
  EXPECT_EQ(model.tokens, 30u);
  EXPECT_EQ(model.rows, 2u);
  EXPECT_EQ(model.fill, 0.25);
  EXPECT_EQ(model.queues[0].requests, 0);
  EXPECT_EQ(model.queues[1].requests, 3);
  EXPECT_EQ(model.queued_requests(), 3);
  EXPECT_GT(now.resident_bytes, 0);
  EXPECT_GT(now.seconds, before.seconds);
  EXPECT_EQ(now.tokenization.workers, 2);
}

}  // namespace
}  // namespace penstock::telemetry
