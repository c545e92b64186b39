// A failure hits only its own job: models and callbacks that throw, and allocations that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/failing_new.h"
#include "log/log.h"
#include "sched/call_count.h"
#include "sched/encoder_scheduler.h"

namespace penstock::sched {
namespace {

using testing::HasSubstr;

// Ids at which the model throws.
constexpr int32_t kBadAlloc = 701;
constexpr int32_t kLengthError = 702;
constexpr int32_t kRuntimeError = 703;
constexpr int32_t kInt = 704;

class ThrowingRunner final : public program::EncoderRunner {
 public:
  int32_t OutputWidth(program::EncoderOutput output) const override {
    return output == program::EncoderOutput::kTokens ? 1024 : 1;
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    for (size_t s = 0; s < batch.sequences(); ++s) {
      const int32_t id = batch.ids[static_cast<size_t>(batch.offsets[s])];
      if (id == kBadAlloc) throw std::bad_alloc();
      if (id == kLengthError) throw std::length_error("vector");
      if (id == kRuntimeError) throw std::runtime_error("the model is broken");
      if (id == kInt) throw 7;
      if (output == program::EncoderOutput::kPooled) *sinks[s] = static_cast<float>(id);
    }
    return Status::Ok();
  }
};

std::vector<std::unique_ptr<program::EncoderRunner>> Runners(size_t count) {
  std::vector<std::unique_ptr<program::EncoderRunner>> runners;
  for (size_t i = 0; i < count; ++i) runners.push_back(std::make_unique<ThrowingRunner>());
  return runners;
}

// Has memory for a given number of rows.
class SmallRunner final : public program::EncoderRunner {
 public:
  explicit SmallRunner(size_t rows) : rows_(rows) {}
  int32_t OutputWidth(program::EncoderOutput) const override { return 1; }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    if (batch.sequences() > rows_) throw std::bad_alloc();
    for (size_t s = 0; s < batch.sequences(); ++s) {
      *sinks[s] = static_cast<float>(batch.ids[static_cast<size_t>(batch.offsets[s])]);
    }
    return Status::Ok();
  }

 private:
  const size_t rows_;
};

struct Answer {
  Status status;
  std::vector<float> values;
};

std::unique_ptr<EncodeJob> MakeJob(int32_t id, std::future<Answer>* answer, size_t tokens = 1) {
  auto job = std::make_unique<EncodeJob>();
  job->ids.assign(tokens, id);
  job->lengths = {static_cast<int32_t>(tokens)};
  auto promise = std::make_shared<std::promise<Answer>>();
  *answer = promise->get_future();
  // set_value throws if it comes twice, which is logged: get() of a second promise would hang.
  job->done = [promise](std::unique_ptr<EncodeJob> back, Status status) {
    promise->set_value({std::move(status), std::move(back->values)});
  };
  return job;
}

struct Setting {
  size_t replicas;
  bool may_lead;
};

// A job of `rows` texts with ids 1, 2, ...
std::unique_ptr<EncodeJob> MakeRows(size_t rows, std::future<Answer>* answer) {
  auto job = MakeJob(1, answer);
  job->ids.resize(rows);
  std::iota(job->ids.begin(), job->ids.end(), 1);
  job->lengths.assign(rows, 1);
  return job;
}

TEST(OutOfMemory, BatchesAreSplitUntilTheyFit) {
  InitLog({.level = LogLevel::kOff});
  for (const size_t fits : {1u, 3u, 16u}) {
    metrics::Metrics metrics;
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(std::make_unique<SmallRunner>(fits));
    EncoderScheduler scheduler(std::move(runners), {.model = "m"}, &metrics);
    std::array<std::future<Answer>, 3> answers;
    for (auto& answer : answers) {
      ASSERT_TRUE(scheduler.Submit(MakeRows(21, &answer)).ok());
    }
    for (auto& one : answers) {
      const Answer answer = one.get();
      ASSERT_TRUE(answer.status.ok()) << answer.status.message();
      for (size_t i = 0; i < 21; ++i) EXPECT_EQ(answer.values[i], static_cast<float>(i + 1));
    }
  }
  InitLog({});
}

TEST(OutOfMemory, ARowThatDoesNotFitAloneFails) {
  InitLog({.level = LogLevel::kOff});
  metrics::Metrics metrics;
  std::vector<std::unique_ptr<program::EncoderRunner>> runners;
  runners.push_back(std::make_unique<SmallRunner>(0));
  EncoderScheduler scheduler(std::move(runners), {.model = "m"}, &metrics);
  std::future<Answer> answer;
  ASSERT_TRUE(scheduler.Submit(MakeRows(5, &answer)).ok());
  EXPECT_EQ(answer.get().status.code(), StatusCode::kResourceExhausted);
  InitLog({});
}

class Throwing : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override { InitLog({.level = LogLevel::kOff}); }
  void TearDown() override { InitLog({}); }
};

INSTANTIATE_TEST_SUITE_P(All, Throwing,
                         testing::Values(Setting{1, false}, Setting{1, true}, Setting{2, false},
                                         Setting{2, true}));

TEST_P(Throwing, ModelFailsItsOwnJobsOnly) {
  metrics::Metrics metrics;
  EncoderScheduler scheduler(Runners(GetParam().replicas), {.model = "m"}, &metrics);
  struct Expected {
    int32_t id;
    StatusCode code;
    const char* message;
  };
  const std::array<Expected, 6> expected{{{1, StatusCode::kOk, ""},
                                          {kBadAlloc, StatusCode::kResourceExhausted, "out of"},
                                          {kLengthError, StatusCode::kResourceExhausted, "out of"},
                                          {kRuntimeError, StatusCode::kInternal, "is broken"},
                                          {kInt, StatusCode::kInternal, "unknown"},
                                          {2, StatusCode::kOk, ""}}};
  for (int round = 0; round < 30; ++round) {
    std::array<std::future<Answer>, expected.size()> answers;
    for (size_t i = 0; i < expected.size(); ++i) {
      auto job = MakeJob(expected[i].id, &answers[i]);
      job->may_lead = GetParam().may_lead;
      if ((round + static_cast<int>(i)) % 3 == 0) job->context.priority = Priority::kBulk;
      ASSERT_TRUE(scheduler.Submit(std::move(job)).ok());
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const Answer answer = answers[i].get();
      EXPECT_EQ(answer.status.code(), expected[i].code);
      EXPECT_THAT(answer.status.message(), HasSubstr(expected[i].message));
      if (answer.status.ok()) {
        EXPECT_EQ(answer.values[0], static_cast<float>(expected[i].id));
      }
      if (answer.status.code() == StatusCode::kResourceExhausted) {
        EXPECT_EQ(answer.status.retry_after_s(), 1);
      }
    }
  }
  scheduler.Stop();
  EXPECT_EQ(scheduler.queued_rows(), 0);
}

TEST_P(Throwing, CallbackIsCalledOnceAndHurtsNobodyElse) {
  metrics::Metrics metrics;
  EncoderScheduler scheduler(Runners(GetParam().replicas), {.model = "m"}, &metrics);
  std::atomic<int> calls{0};
  for (int i = 0; i < 50; ++i) {
    std::future<Answer> unused, answer;
    auto job = MakeJob(1, &unused);
    job->may_lead = GetParam().may_lead;
    job->done = [&](std::unique_ptr<EncodeJob>, Status) {
      ++calls;
      if (calls % 2 == 0) throw std::runtime_error("the callback is broken");
      throw 7;
    };
    EXPECT_TRUE(scheduler.Submit(std::move(job)).ok());
    job = MakeJob(2, &answer);
    job->may_lead = GetParam().may_lead;
    EXPECT_TRUE(scheduler.Submit(std::move(job)).ok());
    EXPECT_TRUE(answer.get().status.ok());
  }
  scheduler.Stop();
  EXPECT_EQ(calls, 50);
  EXPECT_EQ(scheduler.queued_rows(), 0);
}

class NoMemory : public testing::Test {
 protected:
  NoMemory()
      : scheduler_(Runners(1),
                   {.max_batch_tokens = 64,
                    .max_batch_rows = 16,
                    .max_queued_tokens = 10'000,
                    .manual = true,
                    .model = "m"},
                   &metrics_) {}
  void ExpectEmpty() {
    EXPECT_EQ(scheduler_.queued_tokens(), 0);
    EXPECT_EQ(scheduler_.queued_rows(), 0);
    EXPECT_THAT(metrics_.Render(),
                HasSubstr("penstock_queue_tokens{model=\"m\",lane=\"interactive\"} 0\n"));
    EXPECT_THAT(metrics_.Render(),
                HasSubstr("penstock_queue_requests{model=\"m\",lane=\"interactive\"} 0\n"));
  }
  metrics::Metrics metrics_;
  EncoderScheduler scheduler_;
};

// [tokens, 1024] floats of results: 40 MB where 10,000 tokens are admitted.
TEST_F(NoMemory, ResultsAreMadeOnlyOfWhatWasAdmitted) {
  std::future<Answer> answer;
  auto job = MakeJob(1, &answer, 10'001);
  job->output = program::EncoderOutput::kTokens;
  Status status;
  {
    const LargeNewFails fail(1 << 20);
    status = scheduler_.Submit(std::move(job));
  }
  EXPECT_EQ(status.code(), StatusCode::kPayloadTooLarge) << status.ToString();
  std::future<Answer> waits;
  ASSERT_TRUE(scheduler_.Submit(MakeJob(1, &waits, 9'000)).ok());
  job = MakeJob(1, &answer, 2'000);
  job->output = program::EncoderOutput::kTokens;
  {
    const LargeNewFails fail(1 << 20);
    status = scheduler_.Submit(std::move(job));
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the queue is full"));
  EXPECT_EQ(scheduler_.queued_tokens(), 9'000);
  scheduler_.Stop();
  ExpectEmpty();
}

TEST_F(NoMemory, SubmitIsAllOrNothing) {
  std::future<Answer> unused;
  int answers = 0;
  const auto make_job = [&](size_t tokens, program::EncoderOutput output) {
    auto job = MakeJob(1, &unused, tokens);
    job->output = output;
    job->done = [&answers](std::unique_ptr<EncodeJob>, Status answer) { answers += answer.ok(); };
    return job;
  };
  auto job = make_job(9'000, program::EncoderOutput::kTokens);
  Status status;
  {
    const LargeNewFails fail(1 << 20);
    status = scheduler_.Submit(std::move(job));
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_EQ(status.retry_after_s(), 1);
  ExpectEmpty();

  // Any allocation may fail, also where the answer is a refusal.
  for (const size_t tokens : {size_t{5}, size_t{100}, size_t{10'001}}) {
    int failures = 0;
    for (long nth = 1;; ++nth) {
      ASSERT_LT(nth, 100);
      job = make_job(tokens, program::EncoderOutput::kPooled);
      bool failed = false;
      {
        const FailingNew fail(nth);
        status = scheduler_.Submit(std::move(job));
        failed = fail.failed();
      }
      if (!failed) break;
      ++failures;
      EXPECT_FALSE(status.ok());
      ExpectEmpty();
    }
    EXPECT_GT(failures, 0);
    EXPECT_EQ(answers, 0);
    EXPECT_EQ(status.code(), tokens > 10'000 ? StatusCode::kPayloadTooLarge : StatusCode::kOk);
    while (scheduler_.Step()) {
    }
    EXPECT_EQ(answers, tokens > 10'000 ? 0 : 1);
    answers = 0;
    ExpectEmpty();
  }
}

TEST_F(NoMemory, ARowThatIsLongerThanABatchFailsAlone) {
  std::future<Answer> small, large, behind;
  ASSERT_TRUE(scheduler_.Submit(MakeJob(kBadAlloc, &small)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(2, &large, 5'000)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(3, &behind)).ok());
  {
    const LargeNewFails fail(10'000);
    while (scheduler_.Step()) {
    }
  }
  EXPECT_EQ(small.get().status.code(), StatusCode::kResourceExhausted);
  const Status status = large.get().status;
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.retry_after_s(), 1);
  EXPECT_TRUE(behind.get().status.ok());
  ExpectEmpty();
}

// Every allocation of a Step, and of the callback that is called in it.
TEST_F(NoMemory, EveryJobIsAnsweredWhateverFailsInABatch) {
  for (long nth = 1; nth < 12; ++nth) {
    std::vector<std::future<Answer>> answers(6);
    for (size_t i = 0; i < answers.size(); ++i) {
      auto job = MakeJob(i % 3 == 0 ? kRuntimeError : 1, &answers[i], i == 4 ? 100 : 3);
      if (i == 5) job->context.deadline = Clock::now();
      ASSERT_TRUE(scheduler_.Submit(std::move(job)).ok());
    }
    {
      const FailingNew fail(nth);
      while (scheduler_.Step()) {
      }
    }
    for (auto& answer : answers) {
      EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    }
    ExpectEmpty();
  }
}

TEST(SchedulerStart, JoinsWhatItStartedWhenItThrows) {
  bool failed = true;
  for (long nth = 1; failed; ++nth) {
    ASSERT_LT(nth, 10'000);
    metrics::Metrics metrics;
    auto runners = Runners(3);
    const EncoderSchedulerOptions options{.model = "m"};
    const FailingNew fail(nth);
    try {
      const EncoderScheduler scheduler(std::move(runners), options, &metrics);
      failed = fail.failed();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(fail.failed());
    }
  }
}

TEST(CallCount, AwaitsThoseInside) {
  CallCount count;
  count.AwaitNone();
  std::atomic<bool> inside{false}, leave{false}, left{false};
  std::thread caller([&] {
    const CallCount::Call call(&count);
    inside = true;
    while (!leave) std::this_thread::yield();
    left = true;
  });
  while (!inside) std::this_thread::yield();
  std::thread waiter([&] {
    count.AwaitNone();
    EXPECT_TRUE(left);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a wait that is too short ends here
  leave = true;
  caller.join();
  waiter.join();
}

// A caller that has its answer may destroy the scheduler while the submitting thread is still in
// Submit.
TEST(SchedulerEnd, WaitsForThoseThatSubmitted) {
  for (int round = 0; round < 200; ++round) {
    metrics::Metrics metrics;
    auto scheduler = std::make_unique<EncoderScheduler>(
        Runners(2), EncoderSchedulerOptions{.model = "m"}, &metrics);
    std::future<Answer> answer;
    auto job = MakeJob(1, &answer);
    job->may_lead = round % 2 == 0;
    if (round % 3 == 0) job->context.priority = Priority::kBulk;
    std::thread submitter(
        [&, raw = scheduler.get()] { EXPECT_TRUE(raw->Submit(std::move(job)).ok()); });
    EXPECT_TRUE(answer.get().status.ok());
    scheduler.reset();
    submitter.join();
  }
}

}  // namespace
}  // namespace penstock::sched
