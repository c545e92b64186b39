// Models that share a processor: threads, leaders, replicas, models that stop while others wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sched/encoder_scheduler.h"

namespace penstock::sched {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The processor: one batch of any model at a time.
class Processor {
 public:
  void Enter(int32_t id) {
    EXPECT_EQ(++inside_, 1) << "two batches at a time";
    {
      std::unique_lock lock(mutex_);
      order_.push_back(id);
      changed_.notify_all();
      changed_.wait(lock, [&] { return !shut_; });
    }
    if (id % 7 == 0) std::this_thread::yield();
    --inside_;
  }
  void SetShut(bool shut) {
    const std::lock_guard lock(mutex_);
    shut_ = shut;
    changed_.notify_all();
  }
  void AwaitBatches(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= count; });
  }
  std::vector<int32_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  gate::ComputeGate gate;

 private:
  std::atomic<int> inside_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> order_;
  bool shut_ = false;
};

class Runner final : public program::EncoderRunner {
 public:
  explicit Runner(Processor* processor) : processor_(processor) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kPooled ? 1 : 0;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    processor_->Enter(batch.ids[0]);
    for (size_t s = 0; s < batch.sequences(); ++s) {
      *sinks[s] = static_cast<float>(batch.ids[static_cast<size_t>(batch.offsets[s])]);
    }
    return Status::Ok();
  }

 private:
  Processor* const processor_;
};

class SharedGate : public testing::Test {
 protected:
  std::unique_ptr<EncoderScheduler> Make(size_t replicas = 1, const char* name = "m") {
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    for (size_t i = 0; i < replicas; ++i) runners.push_back(std::make_unique<Runner>(&processor_));
    EncoderSchedulerOptions options{.max_batch_tokens = 16, .model = name};
    options.gate = &processor_.gate;
    return std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  }
  static std::unique_ptr<EncodeJob> MakeJob(int32_t id, Priority priority,
                                            std::future<Status>* answer) {
    auto job = std::make_unique<EncodeJob>();
    job->ids.assign(16, id);
    job->lengths = {16};
    job->context.priority = priority;
    auto promise = std::make_shared<std::promise<Status>>();
    *answer = promise->get_future();
    job->done = [promise, id](std::unique_ptr<EncodeJob> back, Status status) {
      EXPECT_EQ(back->values, std::vector<float>{static_cast<float>(id)});
      promise->set_value(std::move(status));
    };
    return job;
  }
  static std::future<Status> Submit(EncoderScheduler* scheduler, int32_t id,
                                    Priority priority = Priority::kInteractive) {
    std::future<Status> answer;
    EXPECT_TRUE(scheduler->Submit(MakeJob(id, priority, &answer)).ok());
    return answer;
  }

  Processor processor_;
  metrics::Metrics metrics_;
};

TEST_F(SharedGate, ABatchGrowsWhileItsModelWaitsAndInteractiveGoesFirst) {
  auto a = Make(1, "a"), b = Make(1, "b");
  processor_.SetShut(true);
  auto first = Submit(a.get(), 1);
  processor_.AwaitBatches(1);
  auto bulk = Submit(a.get(), 2, Priority::kBulk);
  // b's executor gets into line with one job, and finds three when its turn comes.
  std::vector<std::future<Status>> answers;
  for (int i = 0; i < 3; ++i) {
    std::future<Status> answer;
    auto job = MakeJob(3, Priority::kInteractive, &answer);
    job->ids.resize(4);
    job->lengths = {4};
    EXPECT_TRUE(b->Submit(std::move(job)).ok());
    answers.push_back(std::move(answer));
    if (i == 0) {
      while (processor_.gate.waiting() == 0) std::this_thread::yield();
    }
  }
  processor_.SetShut(false);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(bulk.get().ok());
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(processor_.order(), (std::vector<int32_t>{1, 3, 2}));
  a->Stop();
  b->Stop();
  const std::string rendered = metrics_.Render();
  EXPECT_THAT(rendered,
              HasSubstr("penstock_gate_turn_seconds_count{model=\"b\",class=\"interactive\"} 1\n"));
  EXPECT_THAT(rendered,
              HasSubstr("penstock_gate_turn_seconds_count{model=\"a\",class=\"bulk\"} 1\n"));
  EXPECT_THAT(rendered,
              HasSubstr("penstock_gate_wait_seconds_count{model=\"b\",class=\"interactive\"} 1\n"));
}

// A batch in parts: each enters the processor, and others are let in between.
class PartsRunner final : public program::EncoderRunner {
 public:
  PartsRunner(Processor* processor, int parts) : processor_(processor), parts_(parts) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kPooled ? 1 : 0;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    for (int part = 0; part < parts_; ++part) {
      processor_->Enter(batch.ids[0]);
      if (part + 1 < parts_ && pause() != nullptr) pauses_ += pause()->Pause();
    }
    for (size_t s = 0; s < batch.sequences(); ++s) {
      *sinks[s] = static_cast<float>(batch.ids[static_cast<size_t>(batch.offsets[s])]);
    }
    return Status::Ok();
  }
  int pauses() const { return pauses_; }

 private:
  Processor* const processor_;
  const int parts_;
  std::atomic<int> pauses_{0};
};

TEST_F(SharedGate, ALongBatchLetsOthersIn) {
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    auto owned = std::make_unique<PartsRunner>(&processor_, 3);
    PartsRunner* const parts = owned.get();
    runners.push_back(std::move(owned));
    EncoderSchedulerOptions options{.max_batch_tokens = 16, .model = "long"};
    options.gate = &processor_.gate;
    auto a = std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
    auto b = Make(1, "b");
    const size_t before = processor_.order().size();
    processor_.SetShut(true);
    auto slow = Submit(a.get(), 1, priority);
    processor_.AwaitBatches(before + 1);
    auto quick = Submit(b.get(), 2);
    while (processor_.gate.waiting() == 0) std::this_thread::yield();
    processor_.SetShut(false);
    EXPECT_TRUE(quick.get().ok());
    EXPECT_TRUE(slow.get().ok());
    const std::vector<int32_t> all = processor_.order();
    EXPECT_EQ(std::vector<int32_t>(all.begin() + static_cast<ptrdiff_t>(before), all.end()),
              (std::vector<int32_t>{1, 2, 1, 1}));
    EXPECT_EQ(parts->pauses(), 1);
    // Work for both goes on as before.
    for (int i = 0; i < 20; ++i) {
      auto one = Submit(a.get(), 3, priority);
      auto other = Submit(b.get(), 4);
      EXPECT_TRUE(one.get().ok());
      EXPECT_TRUE(other.get().ok());
    }
    a->Stop();
    b->Stop();
    EXPECT_EQ(processor_.gate.taken(), 0u);
    EXPECT_EQ(processor_.gate.waiting(), 0u);
  }
}

// Fails with id 5, after `on_failure` the first time.
class FailingRunner final : public program::EncoderRunner {
 public:
  explicit FailingRunner(Processor* processor) : processor_(processor) {}
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kPooled ? 1 : 0;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    processor_->Enter(batch.ids[0]);
    for (size_t s = 0; s < batch.sequences(); ++s) {
      const int32_t id = batch.ids[static_cast<size_t>(batch.offsets[s])];
      if (id == 5) {
        if (on_failure) std::exchange(on_failure, nullptr)();
        return Status::Internal("five");
      }
      *sinks[s] = static_cast<float>(id);
    }
    return Status::Ok();
  }
  std::function<void()> on_failure;

 private:
  Processor* const processor_;
};

TEST_F(SharedGate, ABatchThatFailedLetsOthersInBeforeItIsRunAgain) {
  auto owned = std::make_unique<FailingRunner>(&processor_);
  FailingRunner* const failing = owned.get();
  std::vector<std::unique_ptr<program::EncoderRunner>> runners;
  runners.push_back(std::move(owned));
  EncoderSchedulerOptions options{.max_batch_tokens = 64, .model = "failing"};
  options.gate = &processor_.gate;
  auto a = std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  auto b = Make(1, "b");
  std::future<Status> quick;
  failing->on_failure = [&] {
    quick = Submit(b.get(), 2);
    while (processor_.gate.waiting() == 0) std::this_thread::yield();
  };
  processor_.SetShut(true);
  auto first = Submit(a.get(), 9);
  processor_.AwaitBatches(1);
  std::vector<std::future<Status>> answers;
  for (const int32_t id : {1, 3, 4}) answers.push_back(Submit(a.get(), id));
  std::promise<Status> bad;
  std::future<Status> unused;
  auto job = MakeJob(5, Priority::kInteractive, &unused);
  job->done = [&](std::unique_ptr<EncodeJob>, Status status) { bad.set_value(std::move(status)); };
  ASSERT_TRUE(a->Submit(std::move(job)).ok());
  processor_.SetShut(false);
  EXPECT_TRUE(first.get().ok());
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(bad.get_future().get().code(), StatusCode::kInternal);
  EXPECT_TRUE(quick.get().ok());
  // Model b has its turn before the failed batch is run in parts: 1 and 3, 4 and 5, 4, 5.
  EXPECT_EQ(processor_.order(), (std::vector<int32_t>{9, 1, 2, 1, 4, 4, 5}));
}

TEST_F(SharedGate, AJobThatMayLeadDoesNotWaitForAnotherModel) {
  auto a = Make(1, "a"), b = Make(1, "b");
  processor_.SetShut(true);
  auto first = Submit(a.get(), 1);
  processor_.AwaitBatches(1);
  std::future<Status> answer;
  auto job = MakeJob(2, Priority::kInteractive, &answer);
  job->may_lead = true;
  EXPECT_TRUE(b->Submit(std::move(job)).ok());  // returns at once
  EXPECT_EQ(answer.wait_for(milliseconds(5)), std::future_status::timeout);
  processor_.SetShut(false);
  EXPECT_TRUE(answer.get().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST_F(SharedGate, AModelEndsWhileOthersWait) {
  auto a = Make(1, "a"), b = Make(2, "b"), c = Make(1, "c");
  for (int round = 0; round < 30; ++round) {
    auto gone = Make(1 + static_cast<size_t>(round) % 2, "gone");
    processor_.SetShut(true);
    std::vector<std::future<Status>> answers;
    const size_t before = processor_.order().size();
    answers.push_back(Submit(a.get(), 1));
    processor_.AwaitBatches(before + 1);
    for (EncoderScheduler* scheduler : {gone.get(), b.get(), c.get(), gone.get()}) {
      answers.push_back(Submit(scheduler, 5));
      answers.push_back(Submit(scheduler, 6, Priority::kBulk));
    }
    std::thread ends([&] { gone.reset(); });
    processor_.SetShut(false);
    ends.join();
    for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  }
}

// All at once: three models, one of them with two replicas, leaders, models that come and go.
TEST_F(SharedGate, EveryJobIsAnsweredOnce) {
  auto a = Make(1, "a"), b = Make(2, "b");
  std::atomic<int> answered{0};
  constexpr int kJobs = 300;
  const auto submit = [&](EncoderScheduler* scheduler, int i) {
    std::future<Status> unused;
    auto job = MakeJob(i, i % 3 == 0 ? Priority::kBulk : Priority::kInteractive, &unused);
    job->may_lead = i % 2 == 0;
    job->done = [&](std::unique_ptr<EncodeJob>, Status status) {
      EXPECT_TRUE(status.ok());
      ++answered;
    };
    EXPECT_TRUE(scheduler->Submit(std::move(job)).ok());
    // Now and then a pause, so that executors go to sleep and are woken.
    if (i % 50 == 0) std::this_thread::sleep_for(milliseconds(1));
  };
  std::vector<std::thread> threads;
  for (EncoderScheduler* scheduler : {a.get(), b.get(), a.get(), b.get()}) {
    threads.emplace_back([&, scheduler] {
      for (int i = 0; i < kJobs; ++i) submit(scheduler, i);
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kJobs; i += 10) {
      auto comes = Make(1, "comes");
      for (int k = 0; k < 10; ++k) submit(comes.get(), i + k);
    }
  });
  for (std::thread& thread : threads) thread.join();
  a->Stop();
  b->Stop();
  EXPECT_EQ(answered, 5 * kJobs);
  EXPECT_EQ(processor_.gate.taken(), 0u);
  EXPECT_EQ(processor_.gate.waiting(), 0u);
}

// The gate's cost for a lone batch is measured by `penstock bench http`; here only that interactive
// work of one model, and the load of one, cut the bulk batches of another.
TEST_F(SharedGate, InteractiveWorkAndLoadsCutBulkBatchesOfOthers) {
  Clock::time_point now = Clock::time_point(std::chrono::hours(1));
  const auto make = [&](const char* name) {
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(std::make_unique<Runner>(&processor_));
    EncoderSchedulerOptions options{.max_batch_tokens = 8192,
                                    .times = {.fixed_s = 1e-4, .token_s = 1e-5, .work_s = 0}};
    options.model = name;
    options.manual = true;
    options.now = [&] { return now; };
    options.gate = &processor_.gate;
    return std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  };
  auto a = make("a"), b = make("b");
  const auto bulk_batches = [&] {
    const size_t before = processor_.order().size();
    auto answer = std::vector<std::future<Status>>();
    for (int i = 0; i < 500; ++i) answer.push_back(Submit(b.get(), 1, Priority::kBulk));
    while (b->Step()) {
    }
    for (auto& one : answer) EXPECT_TRUE(one.get().ok());
    return processor_.order().size() - before;
  };
  EXPECT_EQ(bulk_batches(), 1u);  // 80 ms
  auto answer = Submit(a.get(), 1);
  EXPECT_TRUE(a->Step());
  EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(bulk_batches(), 4u);  // at most 25 ms each
  now += std::chrono::seconds(2);
  EXPECT_EQ(bulk_batches(), 1u);
  processor_.gate.SeeLoad(std::chrono::nanoseconds(now.time_since_epoch()).count());
  EXPECT_EQ(bulk_batches(), 4u);
  now += std::chrono::seconds(2);
  EXPECT_EQ(bulk_batches(), 1u);
}

}  // namespace
}  // namespace penstock::sched
