// A device apart from the host, with two turns: one batch computes, one waits behind it. Time is
// the device's.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "sched/encoder_scheduler.h"

namespace penstock::sched {
namespace {

// A device that runs batches in the order in which they come; or a clock that batches move on.
struct FakeDevice {
  static constexpr int kTurns = 2;
  gate::ComputeGate gate{kTurns};
  std::mutex mutex;
  std::condition_variable changed;
  int behind = 0;      // batches that are put and not computed
  int most = 0;        // of them
  int computed = 0;    // batches
  int held_until = 0;  // batches behind without which none is computed, while more will come
  int to_come = 0;     // batches

  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  double wall_s_per_token = 0, device_s_per_token = 0;
};

class DeviceRunner final : public program::EncoderRunner {
 public:
  explicit DeviceRunner(FakeDevice* device)
      : device_(device), wall_s_per_token_(device->wall_s_per_token) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kPooled ? 1 : 0;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    for (float* sink : sinks) *sink = 1;
    const auto tokens = static_cast<double>(batch.tokens());
    seconds_ = tokens * device_->device_s_per_token;
    batches_.push_back(static_cast<int>(batch.tokens()));
    std::unique_lock lock(device_->mutex);
    device_->now += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(tokens * wall_s_per_token_));
    device_->most = std::max(device_->most, ++device_->behind);
    --device_->to_come;
    device_->changed.notify_all();
    // Computed only once another batch is behind it.
    device_->changed.wait_for(lock, std::chrono::seconds(1), [&] {
      return device_->behind >= std::min(device_->held_until, device_->to_come + device_->behind);
    });
    --device_->behind;
    ++device_->computed;
    return Status::Ok();
  }
  double device_seconds() const override { return seconds_; }
  const std::vector<int>& batches() const { return batches_; }

 private:
  FakeDevice* const device_;
  const double wall_s_per_token_;
  double seconds_ = 0;
  std::vector<int> batches_;
};

class DeviceTurns : public testing::Test {
 protected:
  EncoderSchedulerOptions Options(const char* model) {
    EncoderSchedulerOptions options{.max_batch_tokens = 16, .model = model};
    options.gate = &device_.gate;
    options.queued_turns = FakeDevice::kTurns;
    return options;
  }
  std::unique_ptr<EncoderScheduler> Make(size_t runners, const EncoderSchedulerOptions& options) {
    std::vector<std::unique_ptr<program::EncoderRunner>> made;
    for (size_t i = 0; i < runners; ++i) {
      auto runner = std::make_unique<DeviceRunner>(&device_);
      last_ = runner.get();
      made.push_back(std::move(runner));
    }
    return std::make_unique<EncoderScheduler>(std::move(made), options, &metrics_);
  }
  // In manual mode, on the device's clock.
  std::unique_ptr<EncoderScheduler> MakeManual(EncoderSchedulerOptions options) {
    options.manual = true;
    options.now = [this] { return device_.now; };
    device_.to_come = 1 << 20;
    return Make(1, options);
  }
  std::future<Status> Submit(EncoderScheduler* scheduler, size_t tokens,
                             Priority priority = Priority::kInteractive, bool may_lead = false) {
    auto job = std::make_unique<EncodeJob>();
    job->ids.assign(tokens, 1);
    job->lengths = {static_cast<int32_t>(tokens)};
    job->context.priority = priority;
    job->may_lead = may_lead;
    auto promise = std::make_shared<std::promise<Status>>();
    job->done = [promise](std::unique_ptr<EncodeJob>, Status status) {
      promise->set_value(std::move(status));
    };
    EXPECT_TRUE(scheduler->Submit(std::move(job)).ok());
    return promise->get_future();
  }

  FakeDevice device_;
  metrics::Metrics metrics_;
  const DeviceRunner* last_ = nullptr;
};

// With one turn, or with two runners of which bulk gets one, none would ever be behind another.
TEST_F(DeviceTurns, OneIsComputedWhileTheNextIsBehindIt) {
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    constexpr int kBatches = 40;
    device_.held_until = FakeDevice::kTurns;
    device_.to_come = kBatches;
    device_.most = device_.computed = 0;
    const auto scheduler = Make(3, Options("m"));
    std::vector<std::future<Status>> answers;
    for (int i = 0; i < kBatches; ++i) answers.push_back(Submit(scheduler.get(), 16, priority));
    for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
    EXPECT_EQ(device_.most, FakeDevice::kTurns);
    EXPECT_EQ(device_.computed, kBatches);
  }
}

// A batch that waited 8 ms behind another and computed for 2 has cost 2: in what an engine has had,
// in the rate by which clients are told when to come again, in how full bulk batches may be.
TEST_F(DeviceTurns, SecondsAreTheDevices) {
  device_.wall_s_per_token = 4e-4;
  device_.device_s_per_token = 1e-4;
  EncoderSchedulerOptions options = Options("m");
  options.max_batch_tokens = 1024;
  options.times = {0, 1e-4, 0};
  const auto scheduler = MakeManual(options);
  std::vector<std::future<Status>> answers;
  for (int i = 0; i < 200; ++i) answers.push_back(Submit(scheduler.get(), 25, Priority::kBulk));
  answers.push_back(Submit(scheduler.get(), 25));  // interactive work is about
  while (scheduler->Step()) {
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_NEAR(SchedulerMetrics::Of(&metrics_, "m").Read().busy_s, 201 * 25 * 1e-4, 1e-9);
  // 125 tokens take half of kBulkBatchS of the device, for an interactive job may wait for two, and
  // 0.05 s of the second for which such are remembered. Were the clock's time taken for slowness,
  // batches would shrink to a quarter.
  const std::vector<int>& batches = last_->batches();
  EXPECT_EQ(std::count(batches.begin(), batches.end(), 125), 20);
}

// Batches of the one wait behind others, which is not its own time.
TEST_F(DeviceTurns, EnginesHaveEqualTimesOfTheDevice) {
  gate::ComputeGate gate(1);
  EncoderSchedulerOptions options = Options("a");
  options.gate = &gate;
  device_.device_s_per_token = device_.wall_s_per_token = 1e-4;
  const auto a = MakeManual(options);
  const DeviceRunner* const of_a = last_;
  device_.wall_s_per_token = 8e-4;
  options.model = "b";
  const auto b = MakeManual(options);
  std::vector<std::future<Status>> answers;
  for (int i = 0; i < 120; ++i) {
    for (EncoderScheduler* const one : {a.get(), b.get()}) answers.push_back(Submit(one, 16));
  }
  const auto step_both = [&] {
    a->Step();
    b->Step();
  };
  while (of_a->batches().size() + last_->batches().size() < 100) step_both();
  EXPECT_NEAR(static_cast<double>(of_a->batches().size()), 50, 2);
  while (a->queued_rows() + b->queued_rows() > 0) step_both();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
}

// A leader would wait for the batch before, on a thread that has other things to do.
TEST_F(DeviceTurns, AThreadLeadsOnlyWhileNothingIsOnTheDevice) {
  device_.to_come = 1 << 20;
  const auto scheduler = Make(3, Options("m")), other = Make(3, Options("other"));
  const auto led = [&] {
    return metrics_.Render().find("penstock_batches_led_total{model=\"m\"} 1");
  };
  {
    struct Other final : gate::GateClient {
      gate::GateDemand Demand() const override { return {}; }
    } client;
    gate::ComputeGate::Turn turn(&device_.gate, &client);
    ASSERT_TRUE(turn.TryTake(Priority::kInteractive));
    EXPECT_TRUE(Submit(scheduler.get(), 16, Priority::kInteractive, true).get().ok());
    EXPECT_EQ(led(), std::string::npos);
    turn.End(0, {});
  }
  // An executor that woke for the first job may hold a turn for a moment.
  for (int tries = 0; tries < 1000 && led() == std::string::npos; ++tries) {
    EXPECT_TRUE(Submit(scheduler.get(), 16, Priority::kInteractive, true).get().ok());
  }
  EXPECT_NE(led(), std::string::npos) << metrics_.Render();
}

}  // namespace
}  // namespace penstock::sched
