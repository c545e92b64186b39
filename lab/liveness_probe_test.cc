#include "lab/liveness_probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "load/fake_server.h"

namespace penstock::lab {
namespace {

TEST(LivenessProbeTest, MeasuresAnswers) {
  load::FakeServer server([](const std::string&) { return std::string(); });
  LivenessProbe probe(server.target(), 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));  // the probe measures meanwhile
  const auto result = probe.Stop();
  EXPECT_GT(result.answer.count(), 5u);
  EXPECT_EQ(result.failures, 0u);
  EXPECT_LT(result.answer.PercentileMs(0.5), 100);
  EXPECT_LE(result.arrival.PercentileMs(0.5), result.answer.PercentileMs(0.5));
}

// A probe that waits 100 ms stands for those that should have been sent meanwhile.
TEST(LivenessProbeTest, AStallCountsAsLongAsItLasts) {
  load::FakeServer server([](const std::string&) { return std::string(); },
                          std::chrono::milliseconds(100));
  LivenessProbe probe(server.target(), 10);
  std::this_thread::sleep_for(std::chrono::milliseconds(450));  // the probe measures meanwhile
  const auto result = probe.Stop();
  ASSERT_GT(result.answer.count(), 0u);
  EXPECT_GE(result.arrival.count(), 9 * result.answer.count());
  EXPECT_GE(result.arrival.max_ms(), 100);
  EXPECT_LT(result.arrival.PercentileMs(0.5), result.answer.PercentileMs(0.5));
}

}  // namespace
}  // namespace penstock::lab
