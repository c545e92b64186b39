// Costs of steps on a clock of the test's own.
#include "generate/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::generate {
namespace {

// A model whose steps take what `truth` says, while they move the clock.
class TimedRun final : public program::ProgramRun {
 public:
  explicit TimedRun(const StepCost& truth) : truth_(truth) {}
  uint64_t block_bytes(size_t) const override { return 0; }
  uint64_t HeldBytes() const override { return 0; }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    const auto rows = static_cast<int32_t>(batch.ids.size());
    const double seconds = truth_.Seconds(rows, StepCost::Work(rows, batch.cached[0].past));
    steps.push_back(seconds);
    now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return Status::Ok();
  }
  Expected<std::span<const float>> Rows(size_t, size_t) override {
    return std::span<const float>();
  }

  std::vector<double> steps;
  Clock::time_point now{std::chrono::seconds(1)};

 private:
  const StepCost truth_;
};

StepCost Measured(TimedRun* run, int32_t context = 4096) {
  const auto cost = MeasureStepCost(run, context, nullptr, [run] { return run->now; });
  EXPECT_TRUE(cost.ok());
  return *cost;
}

TEST(StepCost, OfASmallModelIsMeasuredOverItsWholeRange) {
  const StepCost truth = {1e-3, 1.6e-3, 1.0e-3, 1.5e-4, 2e-8};
  TimedRun run(truth);
  const StepCost cost = Measured(&run);
  EXPECT_TRUE(cost.measured);
  EXPECT_NEAR(cost.one_s, truth.one_s, 1e-6);
  EXPECT_NEAR(cost.few_s, truth.few_s, 1e-5);
  EXPECT_NEAR(cost.row_s, truth.row_s, 1e-5);
  EXPECT_NEAR(cost.work_s, truth.work_s, 1e-9);
}

// So nobody who is served waits for longer than that, or than one row takes.
TEST(StepCost, NoStepOfTheMeasurementTakesMuchLongerThanItMay) {
  for (const double one_s : {1e-3, 5e-3, 12e-3, 24e-3, 0.1, 0.8}) {
    const StepCost truth = {one_s, 1.5 * one_s, one_s, 0.1 * one_s, 1e-5 * one_s};
    TimedRun run(truth);
    const StepCost cost = Measured(&run);
    const double longest = *std::max_element(run.steps.begin(), run.steps.end());
    EXPECT_LE(longest, std::max(0.026, 1.02 * one_s)) << one_s;
    EXPECT_EQ(cost.measured, one_s < 2e-3) << one_s;
    EXPECT_TRUE(cost.known());
    EXPECT_NEAR(cost.one_s, one_s, 0.02 * one_s);
    // What was not run is told to within a few times.
    EXPECT_GT(cost.Seconds(48, 0), 0.3 * truth.Seconds(48, 0)) << one_s;
    EXPECT_LT(cost.Seconds(48, 0), 4 * truth.Seconds(48, 0)) << one_s;
  }
}

TEST(StepCost, AContextOfOneTokenCanBeMeasured) {
  TimedRun run({1e-3, 1e-3, 1e-3, 1e-4, 0});
  EXPECT_TRUE(Measured(&run, 1).known());
}

TEST(StepCostFit, LiveStepsTellWhatWasNotMeasured) {
  const StepCost truth = {0.1, 0.15, 0.1, 0.01, 0};
  TimedRun run(truth);
  StepCostFit fit(Measured(&run));
  ASSERT_FALSE(fit.cost().measured);
  // Chunks of prompts of many sizes, and steps of a few texts.
  for (int step = 0; step < 200; ++step) {
    for (const int32_t rows : {1, 4, 8, 12 + step % 40, 64}) {
      fit.Observe(rows, 0, truth.Seconds(rows, 0));
    }
  }
  for (const int32_t rows : {1, 4, 8, 16, 40, 128}) {
    EXPECT_NEAR(fit.cost().Seconds(rows, 0), truth.Seconds(rows, 0), 0.1 * truth.Seconds(rows, 0))
        << rows;
  }
  EXPECT_NEAR(fit.cost().RowsWithin(0.5, 0, 0, 0), 40, 4);
}

TEST(StepCostFit, StepsOfOneSizeScaleTheLine) {
  StepCostFit fit({0.1, 0.2, 0.2, 0.02, 0, false});
  for (int step = 0; step < 100; ++step) fit.Observe(32, 0, 0.42);
  EXPECT_NEAR(fit.cost().Seconds(32, 0), 0.42, 0.01);
  fit.Observe(0, 0, 1);
  fit.Observe(5, 0, 0);  // a clock that stands still
  EXPECT_GT(fit.cost().few_s, 0);
}

}  // namespace
}  // namespace penstock::generate
