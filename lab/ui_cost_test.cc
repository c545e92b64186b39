#include "lab/ui_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/fake_service_test.h"

namespace penstock::lab {
namespace {

TEST(UiCost, MeasuresEveryNumberOfWatchers) {
  FakeService fake;
  UiCostOptions options;
  options.concurrency = 2;
  options.rounds = 2;
  options.round_s = 0.05;
  options.idle_s = 1.2;  // an event at least
  load::BenchRecords records;
  const Status status = RunUiCost(&fake.service, &fake.metrics, options, &records);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string lines = records.ToJsonLines();
  for (const char* name :
       {"ui.cost_percent_1", "ui.cost_error_percent_50", "ui.processor_percent_50",
        "ui.idle_percent_0", "ui.idle_percent_50", "ui.bytes", "ui.gzip_bytes"}) {
    EXPECT_THAT(lines, testing::HasSubstr("\"" + std::string(name) + "\""));
  }
  EXPECT_THAT(lines, testing::Not(testing::HasSubstr("\"ui.event_bytes\",\"value\":0.0,")));
}

}  // namespace
}  // namespace penstock::lab
