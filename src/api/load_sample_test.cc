#include "api/load_sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"
#include "sched/scheduler_metrics.h"

namespace penstock::api {
namespace {

TEST(LoadPoint, RatesAreOfTheTimeBetween) {
  metrics::DurationHistogram requests;
  LoadSample before;
  before.seconds = 10;
  before.rows = 100;
  before.fill = 3;
  before.batches = 10;
  before.stage_s[0] = 1;
  requests.Record(5'000'000'000);
  before.requests = requests.Snapshot();
  for (int i = 0; i < 100; ++i) requests.Record(2'000'000);
  LoadSample now = before;
  now.requests = requests.Snapshot();
  now.seconds = 12;
  now.rows = 150;
  now.fill = 5;
  now.batches = 14;
  metrics::DurationHistogram infers;
  for (int i = 0; i < 6; ++i) infers.Record(3'000'000);
  now.infers = infers.Snapshot();
  now.tensor_rows = 48;
  now.tensor_batches = 4;
  now.tensor_fill = 3;
  now.now.tensor_queue.rows = 5;
  now.stage_s[0] = 1.5;
  now.processor_s = 3;
  now.tokenize_busy_s = 2;
  now.token_cache_hits = 3;
  now.token_cache_lookups = 4;
  now.now.texts_running = 7;
  const LoadPoint point = LoadPoint::Between(before, now, 4);
  EXPECT_DOUBLE_EQ(point.seconds, 2);
  EXPECT_DOUBLE_EQ(point.requests_per_s, 50);
  EXPECT_NEAR(point.p50_ms, 2, 0.04);
  EXPECT_NEAR(point.max_ms, 2, 0.04);  // the slow one was before
  EXPECT_DOUBLE_EQ(point.rows_per_s, 25);
  EXPECT_DOUBLE_EQ(point.batches_per_s, 2);
  EXPECT_DOUBLE_EQ(point.batch_fill, 0.5);
  EXPECT_DOUBLE_EQ(point.tensor_requests_per_s, 3);
  EXPECT_NEAR(point.tensor_p99_ms, 3, 0.06);
  EXPECT_DOUBLE_EQ(point.tensor_rows_per_s, 24);
  EXPECT_DOUBLE_EQ(point.tensor_batches_per_s, 2);
  EXPECT_DOUBLE_EQ(point.tensor_batch_fill, 0.75);
  EXPECT_EQ(point.now.tensor_queue.rows, 5);
  EXPECT_DOUBLE_EQ(point.stage_ms[0], 5);
  EXPECT_DOUBLE_EQ(point.processors, 1.5);
  EXPECT_DOUBLE_EQ(point.tokenization, 0.25);
  EXPECT_DOUBLE_EQ(point.token_cache_hits, 0.75);
  EXPECT_EQ(point.now.texts_running, 7);
}

TEST(LoadPoint, NothingIsNotZero) {
  LoadSample now;
  now.seconds = 1;
  const LoadPoint point = LoadPoint::Between({}, now, 1);
  EXPECT_EQ(point.requests_per_s, 0);
  EXPECT_EQ(point.tensor_requests_per_s, 0);
  EXPECT_TRUE(std::isnan(point.tensor_p50_ms));
  for (const double ratio :
       {point.p50_ms, point.p99_ms, point.stage_ms[0], point.batch_fill, point.tensor_batch_fill,
        point.token_cache_hits, point.result_cache_hits}) {
    EXPECT_TRUE(std::isnan(ratio));
  }
}

TEST(LoadPoint, SumsThatFellCountAsUnchanged) {
  LoadSample before, now;
  before.rows = 10;
  before.generated_tokens = 5;
  now.seconds = 1;
  const LoadPoint point = LoadPoint::Between(before, now, 1);
  EXPECT_EQ(point.rows_per_s, 0);
  EXPECT_EQ(point.generated_tokens_per_s, 0);
}

TEST(LoadSample, IsReadOfAService) {
  metrics::Metrics metrics;
  registry::Registry registry(nullptr, &metrics);
  engine::EncoderEngineOptions options;
  options.name = "embedder";
  ASSERT_TRUE(registry
                  .AddLoaded(std::make_unique<engine::EncoderEngine>(
                      engine::FakeParts(families::ModelTask::kEmbedding), options, &metrics))
                  .ok());
  ServiceOptions limits;
  limits.inflight_bytes = 1 << 20;
  Service service(&registry, limits, &metrics);
  const LoadSample before = service.SampleLoad();
  sched::SchedulerMetrics model = sched::SchedulerMetrics::Of(&metrics, "embedder");
  model.batch_tokens.Observe(30);
  model.batch_sequences.Observe(2);
  model.batch_fill.Observe(0.25);
  model.classes[1].queue_requests->Add(3);
  const auto begin = Clock::now();
  metrics::RequestTrace trace(begin);
  trace.Finish(begin + std::chrono::milliseconds(8));
  service.RecordTrace(trace);
  const LoadSample now = service.SampleLoad();
  EXPECT_EQ(now.batches - before.batches, 1);
  EXPECT_EQ(now.tokens - before.tokens, 30);
  EXPECT_EQ(now.rows - before.rows, 2);
  EXPECT_EQ(now.now.queues[0].requests, 0);
  EXPECT_EQ(now.now.queues[1].requests, 3);
  EXPECT_EQ(now.requests.Since(before.requests).count(), 1u);
  EXPECT_GT(now.now.memory.resident, 0);
  EXPECT_GT(now.seconds, before.seconds);
  EXPECT_EQ(service.GetLoadLimits().requests_bytes, 1 << 20);
  const LoadPoint point = LoadPoint::Between(before, now, 1);
  EXPECT_DOUBLE_EQ(point.batch_fill, 0.25);
  EXPECT_NEAR(point.stage_ms[static_cast<size_t>(metrics::Stage::kReceive)], 8, 0.2);
}

}  // namespace
}  // namespace penstock::api
