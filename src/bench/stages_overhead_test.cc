#include "bench/stages_overhead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "engine/registry.h"

namespace penstock {
namespace {

TEST(RobustMedian, OfKnownValues) {
  EXPECT_EQ(RobustMedian({}).median, 0);
  EXPECT_EQ(RobustMedian({3}).median, 3);
  EXPECT_EQ(RobustMedian({3}).error, 0);
  EXPECT_EQ(RobustMedian({9, 1, 5}).median, 5);
  EXPECT_EQ(RobustMedian({1, 2, 3, 1000}).median, 2.5);
}

TEST(RobustMedian, ItsIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(10, 2);
  int held = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(60);
    for (double& value : values) value = normal(random);
    const MedianOf found = RobustMedian(values);
    held += std::abs(found.median - 10) <= found.error;
  }
  EXPECT_GT(held, 0.92 * kTrials);
  EXPECT_LT(held, 0.98 * kTrials);
}

TEST(StagesOverhead, MeasuresBothSides) {
  Metrics metrics;
  Registry registry(nullptr, &metrics);
  EngineParts parts = FakeParts(ModelTask::kEmbedding);
  EngineOptions engine;
  engine.name = "fake";
  ASSERT_TRUE(
      registry.AddEngine(std::make_unique<Engine>(std::move(parts), engine, &metrics)).ok());
  Service service(&registry, {}, &metrics);
  StagesOverheadOptions options;
  options.concurrency = 2;
  options.rounds = 2;
  options.round_s = 0.05;
  BenchRecords records;
  const Status status = RunStagesOverhead(&service, &metrics, options, &records);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(records.ToJsonLines(), testing::HasSubstr("\"stages.overhead_percent\""));
  // Only one of the servers timed its requests.
  const uint64_t timed = service.GetStats().requests.count();
  EXPECT_GT(timed, 0u);
  EXPECT_LT(timed, static_cast<uint64_t>(service.GetStats().models[0].rows));
}

}  // namespace
}  // namespace penstock
