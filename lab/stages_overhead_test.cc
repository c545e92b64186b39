#include "lab/stages_overhead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/fake_service_test.h"
#include "telemetry/collector.h"

namespace penstock::lab {
namespace {

TEST(StagesOverhead, MeasuresBothSides) {
  FakeService fake;
  StagesOverheadOptions options;
  options.concurrency = 2;
  options.rounds = 2;
  options.round_s = 0.05;
  load::BenchRecords records;
  const Status status = RunStagesOverhead(&fake.service, &fake.metrics, options, &records);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(records.ToJsonLines(), testing::HasSubstr("\"stages.overhead_percent\""));
  // Only one of the servers timed its requests.
  const uint64_t timed = fake.service.GetStats().window.requests.count();
  EXPECT_GT(timed, 0u);
  EXPECT_LT(timed, static_cast<uint64_t>(fake.service.GetStats().window.models[0].rows));
}

}  // namespace
}  // namespace penstock::lab
