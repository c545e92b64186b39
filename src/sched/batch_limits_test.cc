#include "sched/batch_limits.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock::sched {
namespace {

std::vector<BatchSample> Samples(const BatchTimes& times,
                                 std::vector<std::pair<double, double>> tokens_and_lengths) {
  std::vector<BatchSample> samples;
  for (const auto& [tokens, length] : tokens_and_lengths) {
    samples.push_back({tokens, tokens * length, times.Seconds(tokens, tokens * length)});
  }
  return samples;
}

TEST(BatchLimits, FindsTheTimesAgain) {
  for (const BatchTimes times : {BatchTimes{200e-6, 10e-6, 5e-9}, BatchTimes{0, 10e-6, 0},
                                 BatchTimes{1e-3, 1e-6, 0}, BatchTimes{0, 2e-3, 4e-6}}) {
    const BatchTimes fit =
        FitBatchTimes(Samples(times, {{128, 32}, {256, 32}, {512, 256}, {1024, 32}, {2048, 512}}));
    EXPECT_NEAR(fit.fixed_s, times.fixed_s, 1e-3 * times.Seconds(128, 0));
    EXPECT_NEAR(fit.token_s, times.token_s, 1e-3 * times.token_s);
    EXPECT_NEAR(fit.work_s, times.work_s, 1e-3 * times.token_s / 512);
  }
}

TEST(BatchLimits, NoiseMakesNoNegativeTimes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  for (int round = 0; round < 200; ++round) {
    auto samples = Samples({5e-6, 10e-6, 1e-10},
                           {{128, 32}, {256, 32}, {512, 32}, {512, 256}, {1024, 32}, {2048, 32}});
    for (BatchSample& sample : samples) sample.seconds *= noise(random);
    const BatchTimes fit = FitBatchTimes(samples);
    EXPECT_GE(fit.fixed_s, 0);
    EXPECT_GE(fit.work_s, 0);
    EXPECT_NEAR(fit.token_s, 10e-6, 2e-6);
  }
}

TEST(BatchLimits, FewSamplesTellLess) {
  EXPECT_FALSE(FitBatchTimes({}).known());
  const BatchTimes one = FitBatchTimes({{100, 3200, 0.001}});
  EXPECT_DOUBLE_EQ(one.token_s, 1e-5);
  EXPECT_EQ(one.fixed_s, 0);
  // All of one length: attention cannot be told from the rest.
  const BatchTimes same =
      FitBatchTimes(Samples({1e-4, 1e-5, 0}, {{128, 32}, {256, 32}, {512, 32}}));
  EXPECT_NEAR(same.fixed_s, 1e-4, 1e-7);
}

TEST(BatchLimits, TheKneeIsNearTheFullRate) {
  const BatchTimes times{300e-6, 10e-6, 0};
  const int32_t knee = KneeTokens(times, 32, 8192);
  EXPECT_EQ(knee % 128, 0);
  const double rate = knee / times.Seconds(knee, 0);
  EXPECT_GE(rate, kKneeShare / 10e-6);
  EXPECT_LT((knee - 128) / times.Seconds(knee - 128, 0), kKneeShare / 10e-6);
  EXPECT_EQ(KneeTokens({0, 1e-5, 0}, 32, 8192), kKneeTokensMin);
  EXPECT_EQ(KneeTokens({1, 1e-5, 0}, 32, 8192), 8192);
  EXPECT_EQ(KneeTokens({0, 1e-5, 0}, 512, 8192), 512);
}

TEST(BatchLimits, AttentionMayTakeAsLongAsTheRest) {
  EXPECT_EQ(WorkLimit({0, 1e-5, 0}, 1024, 512), UINT64_MAX);
  EXPECT_EQ(WorkLimit({0, 1e-5, 1e-9}, 1000, 100), 10'000'000u);
  // Rows of the usual longest length are not cut off by it.
  EXPECT_EQ(WorkLimit({0, 1e-5, 1e-7}, 1000, 500), 500'000u);
}

// Runs take given times, on a clock of its own.
class TimedRunner final : public program::EncoderRunner {
 public:
  explicit TimedRunner(const BatchTimes& times) : times_(times) {}
  int32_t OutputWidth(program::EncoderOutput) const override { return 3; }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    EXPECT_EQ(sinks.size(), batch.sequences());
    double work = 0;
    for (size_t s = 0; s < batch.sequences(); ++s) {
      EXPECT_LE(batch.length(s), 128);
      work += static_cast<double>(batch.length(s)) * batch.length(s);
      for (int i = 0; i < 3; ++i) sinks[s][i] = 1;
    }
    const double seconds =
        std::max(least_s_, times_.Seconds(static_cast<double>(batch.tokens()), work));
    now_s_ += seconds + host_s_ + (runs_ == 0 ? first_s_ : 0);
    device_s_ = host_s_ > 0 ? seconds : 0;
    ++runs_;
    return fails_ ? Status::Internal("broken") : Status::Ok();
  }
  double device_seconds() const override { return device_s_; }
  BatchMeasurement Measure(int32_t tokens_max = 8192) {
    MeasureOptions options;
    options.length_max = 128;
    options.tokens_max = tokens_max;
    options.now = [this] {
      return Clock::time_point(
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(now_s_)));
    };
    auto measured = MeasureBatchTimes(this, options);
    EXPECT_TRUE(measured.ok());
    return measured.ok() ? *measured : BatchMeasurement{};
  }

  const BatchTimes times_;
  double first_s_ = 0;  // that the first run takes longer
  double least_s_ = 0;  // that a batch takes, however small
  double host_s_ = 0;   // of a batch; if it is not 0 the rest is a device's time
  double device_s_ = 0;
  double now_s_ = 1;
  int runs_ = 0;
  bool fails_ = false;
};

TEST(BatchLimits, MeasuresAModel) {
  TimedRunner fast({100e-6, 2e-6, 1e-9});
  const BatchMeasurement measured = fast.Measure();
  EXPECT_TRUE(measured.complete);
  EXPECT_NEAR(measured.times.token_s, 2e-6, 1e-8);
  EXPECT_NEAR(measured.times.work_s, 1e-9, 1e-11);
  EXPECT_GE(measured.knee_tokens, KneeTokens(measured.times, 32, 8192));
  EXPECT_LE(measured.knee_tokens, 4992);
  EXPECT_LT(fast.now_s_, 1.15);
}

TEST(BatchLimits, TheBudgetBoundsTheTimeItTakes) {
  TimedRunner slow({1e-3, 100e-6, 0});  // 14 ms for 128 tokens, 0.8 s the largest
  const BatchMeasurement measured = slow.Measure();
  EXPECT_FALSE(measured.complete);
  EXPECT_LT(slow.now_s_, 1.1);
  EXPECT_NEAR(measured.times.fixed_s, 1e-3, 1e-5);
  EXPECT_EQ(measured.knee_tokens, 1024);
  // With fewer runs there is no knee, but there is the time it may take.
  TimedRunner slower({0, 400e-6, 0});
  EXPECT_EQ(slower.Measure().knee_tokens, 625);
  // One that needs seconds even for the smallest batch: tried once, and batches stay small.
  TimedRunner huge({0, 10e-3, 0});
  EXPECT_EQ(huge.Measure().knee_tokens, kKneeTokensMin);
  EXPECT_LE(huge.runs_, 2);
}

TEST(BatchLimits, ASlowModelIsTriedFourTimes) {
  TimedRunner even({10e-6, 50e-6, 1e-9});
  const BatchMeasurement measured = even.Measure();
  EXPECT_NEAR(measured.knee_tokens, 999, 2);  // in 50 ms, for batches of unlike lengths
  EXPECT_NEAR(measured.times.token_s, 50e-6, 1e-7);
  EXPECT_NEAR(measured.times.work_s, 1e-9, 1e-10);
  EXPECT_EQ(even.runs_, 6);  // the first, and that of 32 tokens twice
  // The first run, which reads the weights from the disk, is not counted.
  TimedRunner cold({10e-6, 2e-6, 1e-9});
  cold.first_s_ = 0.12;
  EXPECT_TRUE(cold.Measure().complete);
}

TEST(BatchLimits, BatchesThatTakeTheSameTimeAreTriedFurther) {
  // What the weights take to be read hides the tokens up to 400.
  TimedRunner flat({0, 25e-6, 0});
  flat.least_s_ = 10e-3;
  const BatchMeasurement measured = flat.Measure();
  EXPECT_GE(measured.knee_tokens, 512);
  EXPECT_LE(measured.knee_tokens, 4096);
  TimedRunner device({0, 25e-6, 0});
  device.least_s_ = 10e-3;
  device.host_s_ = 1e-6;
  EXPECT_GE(device.Measure().knee_tokens, 512);
  EXPECT_LE(device.Measure().knee_tokens, 4096);
}

TEST(BatchLimits, BatchesThatWereNotTriedAreShort) {
  // By the fit 9,900 tokens, which take 0.4 s.
  TimedRunner steep({4e-3, 40e-6, 0});
  EXPECT_NEAR(steep.Measure().knee_tokens, 1150, 1);
  // No time was left for more than 256 tokens.
  TimedRunner slow({8e-3, 0.1e-3, 0});
  EXPECT_EQ(slow.Measure().knee_tokens, 1024);
}

TEST(BatchLimits, TimesOfADeviceAreWithoutTheHosts) {
  TimedRunner device({100e-6, 0.1e-6, 1e-12});
  device.host_s_ = 200e-6;
  const BatchMeasurement measured = device.Measure(32768);
  EXPECT_TRUE(measured.complete);
  EXPECT_NEAR(measured.times.fixed_s, 100e-6, 1e-6);
  EXPECT_NEAR(measured.times.token_s, 0.1e-6, 1e-9);
  EXPECT_EQ(measured.knee_tokens, 32768);  // at 8192 it is at nine tenths of its rate
  EXPECT_EQ(device.Measure(8192).knee_tokens, 8192);
  // Others' batches on the device, 40 ms each, do not end it; but the clock does at last.
  TimedRunner waits({100e-6, 0.1e-6, 1e-12});
  waits.host_s_ = 0.04;
  EXPECT_GE(waits.Measure(32768).knee_tokens, 8192);
  TimedRunner waits_long({0, 1e-9, 0});
  waits_long.host_s_ = 0.3;
  EXPECT_FALSE(waits_long.Measure(32768).complete);
  EXPECT_LE(waits_long.runs_, 3);
}

TEST(BatchLimits, PassesTheModelsErrorOn) {
  TimedRunner broken({0, 1e-6, 0});
  broken.fails_ = true;
  EXPECT_EQ(MeasureBatchTimes(&broken, {.length_max = 128}).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace penstock::sched
