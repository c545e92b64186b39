// Several runners of one model: none sleeps while there is work for it, bulk never has the last.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sched/encoder_scheduler.h"

namespace penstock::sched {
namespace {

using std::chrono::milliseconds;

// The state of the runners.
class Stage {
 public:
  // A batch whose first id is kWaits goes on once `open`; kMeets, once two such are here at a time.
  static constexpr int32_t kWaits = 1;
  static constexpr int32_t kMeets = 2;

  void Enter(int32_t id) {
    std::unique_lock lock(mutex_);
    begun_.push_back(id);
    changed_.notify_all();
    if (id == kWaits) changed_.wait(lock, [this] { return open_; });
    if (id == kMeets) {
      ++meeting_;
      changed_.notify_all();
      // Longer than any thread here is kept from running.
      if (!changed_.wait_for(lock, milliseconds(1000), [this] { return meeting_ >= 2; })) {
        missed_ = true;
      }
    }
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool WaitForBatches(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, milliseconds(5000), [&] { return begun_.size() >= count; });
  }
  std::vector<int32_t> begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  bool missed() {
    const std::lock_guard lock(mutex_);
    return missed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> begun_;
  int meeting_ = 0;
  bool open_ = false;
  bool missed_ = false;
};

class StageRunner final : public program::EncoderRunner {
 public:
  explicit StageRunner(Stage* stage) : stage_(stage) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kPooled ? 1 : 0;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    stage_->Enter(batch.ids[0]);
    for (float* sink : sinks) *sink = 0;
    return Status::Ok();
  }

 private:
  Stage* const stage_;
};

class Replicas : public testing::Test {
 protected:
  void Start(size_t replicas) {
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    for (size_t i = 0; i < replicas; ++i) runners.push_back(std::make_unique<StageRunner>(&stage_));
    scheduler_ = std::make_unique<EncoderScheduler>(
        std::move(runners), EncoderSchedulerOptions{.max_batch_tokens = 16, .model = "m"},
        &metrics_);
    std::this_thread::sleep_for(milliseconds(5));  // the executors sleep
  }
  // A job that fills a batch.
  std::unique_ptr<EncodeJob> MakeJob(int32_t id, Priority priority, std::future<Status>* answer) {
    auto job = std::make_unique<EncodeJob>();
    job->ids.assign(16, id);
    job->lengths = {16};
    job->context.priority = priority;
    auto promise = std::make_shared<std::promise<Status>>();
    *answer = promise->get_future();
    job->done = [promise](std::unique_ptr<EncodeJob>, Status status) {
      promise->set_value(std::move(status));
    };
    return job;
  }
  std::future<Status> Submit(int32_t id, Priority priority = Priority::kInteractive) {
    std::future<Status> answer;
    EXPECT_TRUE(scheduler_->Submit(MakeJob(id, priority, &answer)).ok());
    return answer;
  }
  // Leads a job whose callback waits for `leave`.
  std::thread Lead(std::atomic<int>* inside, std::atomic<bool>* leave) {
    std::future<Status> unused;
    auto job = MakeJob(0, Priority::kInteractive, &unused);
    job->may_lead = true;
    job->done = [inside, leave](std::unique_ptr<EncodeJob>, Status) {
      ++*inside;
      while (!*leave) std::this_thread::yield();
    };
    return std::thread([this, job = std::move(job)]() mutable {
      EXPECT_TRUE(scheduler_->Submit(std::move(job)).ok());
    });
  }

  metrics::Metrics metrics_;
  Stage stage_;
  std::unique_ptr<EncoderScheduler> scheduler_;
};

// Two leaders have both runners when work for both executors comes; they leave at about the same
// time, so that one release may find the other's wake-up on its way.
TEST_F(Replicas, NoneSleepsWhileWorkWaits) {
  int missed = 0;
  for (int trial = 0; trial < 60 && missed == 0; ++trial) {
    Stage stage;
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    for (int i = 0; i < 2; ++i) runners.push_back(std::make_unique<StageRunner>(&stage));
    scheduler_ = std::make_unique<EncoderScheduler>(
        std::move(runners), EncoderSchedulerOptions{.max_batch_tokens = 16, .model = "m"},
        &metrics_);
    std::this_thread::sleep_for(milliseconds(2));  // the executors sleep
    std::atomic<int> inside{0};
    std::atomic<bool> leave{false};
    std::thread first = Lead(&inside, &leave);
    while (inside < 1) std::this_thread::yield();
    std::thread second = Lead(&inside, &leave);
    while (inside < 2) std::this_thread::yield();
    std::future<Status> a = Submit(Stage::kMeets);
    std::this_thread::sleep_for(milliseconds(1));  // the first has reached its executor
    std::future<Status> b = Submit(Stage::kMeets);
    std::this_thread::sleep_for(milliseconds(2));  // both wait for a runner
    leave = true;
    EXPECT_TRUE(a.get().ok());
    EXPECT_TRUE(b.get().ok());
    missed += stage.missed();
    first.join();
    second.join();
    scheduler_.reset();
  }
  EXPECT_EQ(missed, 0);
}

TEST_F(Replicas, ALedBulkJobCountsAsBulk) {
  Start(2);
  std::future<Status> led, waits;
  auto job = MakeJob(Stage::kWaits, Priority::kBulk, &led);
  job->may_lead = true;
  std::thread leader([&] { EXPECT_TRUE(scheduler_->Submit(std::move(job)).ok()); });
  ASSERT_TRUE(stage_.WaitForBatches(1));
  waits = Submit(7, Priority::kBulk);
  std::this_thread::sleep_for(milliseconds(10));  // bulk could take a runner meanwhile
  EXPECT_EQ(stage_.begun().size(), 1u);           // bulk has not taken the last runner
  EXPECT_TRUE(Submit(8).get().ok());
  EXPECT_EQ(stage_.begun(), (std::vector<int32_t>{Stage::kWaits, 8}));
  stage_.Open();
  leader.join();
  EXPECT_TRUE(waits.get().ok());  // only the leader could have woken the executors
}

// A bulk job is not led either while a replica is at bulk work.
TEST_F(Replicas, BulkIsNotLedOnTheLastRunner) {
  Start(2);
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  std::future<Status> unused, second;
  auto job = MakeJob(0, Priority::kBulk, &unused);
  // Its rows are off the counts, and its executor still has the runner.
  job->done = [&](std::unique_ptr<EncodeJob>, Status) {
    ++inside;
    while (!leave) std::this_thread::yield();
  };
  EXPECT_TRUE(scheduler_->Submit(std::move(job)).ok());
  while (inside < 1) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(2));  // the counts are read
  job = MakeJob(9, Priority::kBulk, &second);
  job->may_lead = true;
  EXPECT_TRUE(scheduler_->Submit(std::move(job)).ok());
  std::this_thread::sleep_for(milliseconds(5));  // the job could begin meanwhile
  EXPECT_EQ(stage_.begun().size(), 1u);
  EXPECT_TRUE(Submit(8).get().ok());
  leave = true;
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(stage_.begun(), (std::vector<int32_t>{0, 8, 9}));
}

}  // namespace
}  // namespace penstock::sched
