#include "bench/stages_overhead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "engine/registry.h"

namespace penstock {
namespace {

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
