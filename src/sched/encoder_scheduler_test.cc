#include "sched/encoder_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "base/eventually_test_util.h"

namespace penstock::sched {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;
using testing::UnorderedElementsAre;

constexpr int32_t kPoison = 666;  // a batch with this id fails
constexpr int32_t kNan = 667;     // a row with this id gives NaN
constexpr int32_t kWidth = 2;

// Gives [sum of ids + 1000 * sum of type ids, length] per sequence, [id, type] per token.
// Each run waits for a permit while the gate is shut.
class FakeRunner : public program::EncoderRunner {
 public:
  struct Log {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<int32_t>> batches;  // lengths of the sequences
    bool shut = false;
    std::vector<size_t> BatchTokens() {
      const std::lock_guard lock(mutex);
      std::vector<size_t> tokens;
      for (const auto& lengths : batches) {
        tokens.push_back(std::accumulate(lengths.begin(), lengths.end(), size_t{0}));
      }
      return tokens;
    }
    void SetShut(bool now) {
      const std::lock_guard lock(mutex);
      shut = now;
      changed.notify_all();
    }
    void WaitForBatches(size_t n) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return batches.size() >= n; });
    }
  };

  explicit FakeRunner(Log* log) : log_(log) {}
  int32_t OutputWidth(program::EncoderOutput) const override { return kWidth; }

  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    {
      std::unique_lock lock(log_->mutex);
      auto& lengths = log_->batches.emplace_back();
      for (size_t s = 0; s < batch.sequences(); ++s) lengths.push_back(batch.length(s));
      log_->changed.notify_all();
      log_->changed.wait(lock, [this] { return !log_->shut; });
    }
    EXPECT_EQ(sinks.size(), batch.sequences());
    for (size_t s = 0; s < batch.sequences(); ++s) {
      float* const out = sinks[s];
      size_t to = 0;
      float sum = 0;
      for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
        const float type = batch.type_ids.empty() ? 0 : batch.type_ids[t];
        if (batch.ids[t] == kPoison) return Status::Internal("poisoned");
        if (output == program::EncoderOutput::kTokens) {
          out[to++] = batch.ids[t];
          out[to++] = type;
        }
        sum += batch.ids[t] == kNan ? std::numeric_limits<float>::quiet_NaN()
                                    : batch.ids[t] + 1000 * type;
      }
      if (output != program::EncoderOutput::kTokens) {
        out[to++] = sum;
        out[to++] = batch.length(s);
      }
    }
    return Status::Ok();
  }

 private:
  Log* log_;
};

struct Result {
  Status status;
  std::vector<float> values;
};

// Row r is `lengths[r]` times the id `first_id` + r.
std::unique_ptr<EncodeJob> MakeJob(const std::vector<int32_t>& lengths, int32_t first_id,
                                   std::future<Result>* result) {
  auto job = std::make_unique<EncodeJob>();
  for (size_t row = 0; row < lengths.size(); ++row) {
    job->ids.insert(job->ids.end(), lengths[row], first_id + static_cast<int32_t>(row));
  }
  job->lengths = lengths;
  auto promise = std::make_shared<std::promise<Result>>();
  *result = promise->get_future();
  // set_value throws, and so ends the test, if it comes twice.
  job->done = [promise](std::unique_ptr<EncodeJob> back, Status status) {
    promise->set_value({std::move(status), std::move(back->values)});
  };
  return job;
}

std::vector<float> ExpectedRows(const std::vector<int32_t>& lengths, int32_t first_id) {
  std::vector<float> rows;
  for (size_t row = 0; row < lengths.size(); ++row) {
    rows.push_back(static_cast<float>(lengths[row]) * (first_id + static_cast<float>(row)));
    rows.push_back(lengths[row]);
  }
  return rows;
}

class EncoderSchedulerTest : public testing::Test {
 protected:
  void Start(EncoderSchedulerOptions options = {}, size_t replicas = 1) {
    options.model = "m";
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    for (size_t i = 0; i < replicas; ++i) runners.push_back(std::make_unique<FakeRunner>(&log_));
    scheduler_ = std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  }
  // Keeps the executor busy with a batch of its own until SetShut(false).
  void Block() {
    log_.SetShut(true);
    ASSERT_TRUE(scheduler_->Submit(MakeJob({1}, 1, &blocker_)).ok());
    log_.WaitForBatches(1);
  }
  std::string Rendered() { return metrics_.Render(); }

  FakeRunner::Log log_;
  metrics::Metrics metrics_;
  std::future<Result> blocker_;
  std::unique_ptr<EncoderScheduler> scheduler_;
};

TEST_F(EncoderSchedulerTest, OneRequestOnAnIdleServerRunsAtOnceAndAlone) {
  Start();
  std::future<Result> result;
  ASSERT_TRUE(scheduler_->Submit(MakeJob({3, 1, 2}, 10, &result)).ok());
  const Result got = result.get();
  EXPECT_TRUE(got.status.ok());
  EXPECT_EQ(got.values, ExpectedRows({3, 1, 2}, 10));
  EXPECT_EQ(log_.batches.size(), 1u);
}

TEST_F(EncoderSchedulerTest, TypeIdsAndTokenOutput) {
  Start();
  std::future<Result> result;
  auto job = MakeJob({2, 1}, 5, &result);
  job->type_ids = {0, 1, 1};
  job->output = program::EncoderOutput::kTokens;
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  EXPECT_THAT(result.get().values, ElementsAre(5, 0, 5, 1, 6, 1));
}

TEST_F(EncoderSchedulerTest, WaitingRequestsShareABatch) {
  Start();
  Block();
  std::vector<std::future<Result>> results(5);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(scheduler_->Submit(MakeJob({2, 3}, i * 10, &results[i])).ok());
  }
  log_.SetShut(false);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(results[i].get().values, ExpectedRows({2, 3}, i * 10));
  EXPECT_THAT(log_.BatchTokens(), ElementsAre(1, 25));
}

TEST_F(EncoderSchedulerTest, BatchesAreBoundedByTokensAndRowsAndRejoined) {
  Start({.max_batch_tokens = 10, .max_batch_rows = 4});
  const std::vector<int32_t> lengths = {4, 4, 4, 10, 25, 1, 1, 1, 1, 1, 7, 3};
  std::future<Result> result;
  ASSERT_TRUE(scheduler_->Submit(MakeJob(lengths, 1, &result)).ok());
  EXPECT_EQ(result.get().values, ExpectedRows(lengths, 1));
  scheduler_->Stop();
  EXPECT_EQ(log_.batches, (std::vector<std::vector<int32_t>>{
                              {4, 4}, {4}, {10}, {25}, {1, 1, 1, 1}, {1, 7}, {3}}));
}

TEST_F(EncoderSchedulerTest, ABulkRequestDoesNotHoldUpASmallOne) {
  Start({.max_batch_tokens = 10});
  Block();
  std::future<Result> bulk;
  std::future<Result> small;
  const std::vector<int32_t> lengths(20, 2);
  ASSERT_TRUE(scheduler_->Submit(MakeJob(lengths, 1, &bulk)).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({1, 1}, 100, &small)).ok());
  log_.SetShut(false);
  EXPECT_EQ(small.get().values, ExpectedRows({1, 1}, 100));
  EXPECT_EQ(bulk.get().values, ExpectedRows(lengths, 1));
  // The small one was in the first batch after the blocker, which was filled up by the bulk.
  EXPECT_THAT(log_.batches[1], ElementsAre(2, 2, 2, 2, 1, 1));
}

TEST_F(EncoderSchedulerTest, ALongRowAtTheFrontIsNotStarvedByShortOnes) {
  Start({.max_batch_tokens = 10});
  Block();
  std::vector<std::future<Result>> results(11);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({9}, 1, &results[0])).ok());
  for (int i = 1; i < 11; ++i) {
    ASSERT_TRUE(scheduler_->Submit(MakeJob({1}, 1, &results[i])).ok());
  }
  log_.SetShut(false);
  for (auto& result : results) EXPECT_TRUE(result.get().status.ok());
  EXPECT_THAT(log_.batches[1], ElementsAre(9, 1));
}

TEST_F(EncoderSchedulerTest, OutputsAreNotMixedInABatch) {
  Start();
  Block();
  std::vector<std::future<Result>> results(3);
  for (int i = 0; i < 3; ++i) {
    auto job = MakeJob({2}, i, &results[i]);
    if (i == 1) job->output = program::EncoderOutput::kTokens;
    ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  }
  log_.SetShut(false);
  EXPECT_THAT(results[0].get().values, ElementsAre(0, 2));
  EXPECT_THAT(results[1].get().values, ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(results[2].get().values, ElementsAre(4, 2));
  EXPECT_THAT(log_.BatchTokens(), UnorderedElementsAre(1, 4, 2));
}

TEST_F(EncoderSchedulerTest, CancelledAndExpiredRowsNeverReachTheModel) {
  Start();
  Block();
  std::vector<std::future<Result>> results(3);
  auto cancelled = MakeJob({2, 2}, 1, &results[0]);
  cancelled->context.cancel = std::make_shared<CancelToken>();
  auto token = cancelled->context.cancel;
  auto expired = MakeJob({3}, 1, &results[1]);
  expired->context.deadline = Clock::now();
  ASSERT_TRUE(scheduler_->Submit(std::move(cancelled)).ok());
  ASSERT_TRUE(scheduler_->Submit(std::move(expired)).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({4}, 1, &results[2])).ok());
  token->Cancel();
  log_.SetShut(false);
  EXPECT_EQ(results[0].get().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(results[1].get().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(results[2].get().status.ok());
  EXPECT_THAT(log_.BatchTokens(), ElementsAre(1, 4));
  EXPECT_THAT(Rendered(), HasSubstr(R"(penstock_dropped_total{model="m",reason="cancelled"} 2)"));
  EXPECT_THAT(Rendered(), HasSubstr(R"(penstock_dropped_total{model="m",reason="expired"} 1)"));
}

TEST_F(EncoderSchedulerTest, CancelHalfWayDropsTheRest) {
  Start({.max_batch_tokens = 4});
  log_.SetShut(true);
  std::future<Result> result;
  auto job = MakeJob(std::vector<int32_t>(10, 2), 1, &result);
  auto token = job->context.cancel = std::make_shared<CancelToken>();
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  log_.WaitForBatches(1);
  token->Cancel();
  log_.SetShut(false);
  EXPECT_EQ(result.get().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(log_.batches.size(), 1u);
  EXPECT_THAT(Rendered(), HasSubstr(R"(penstock_dropped_total{model="m",reason="cancelled"} 8)"));
}

TEST_F(EncoderSchedulerTest, TheQueueIsBoundedByTokens) {
  Start({.max_queued_tokens = 10});
  Block();  // holds 1 token
  std::vector<std::future<Result>> results(4);
  EXPECT_TRUE(scheduler_->Submit(MakeJob({6}, 1, &results[0])).ok());
  const Status full = scheduler_->Submit(MakeJob({4}, 1, &results[1]));
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(full.retry_after_s(), 1);
  EXPECT_TRUE(scheduler_->Submit(MakeJob({3}, 1, &results[2])).ok());
  EXPECT_EQ(scheduler_->queued_tokens(), 10);
  EXPECT_THAT(Rendered(),
              HasSubstr("penstock_queue_tokens{model=\"m\",lane=\"interactive\"} 10\n"));
  const Status never = scheduler_->Submit(MakeJob({5, 6}, 1, &results[3]));
  EXPECT_EQ(never.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(never.message(), HasSubstr("--max-queued-tokens"));
  log_.SetShut(false);
  EXPECT_TRUE(results[0].get().status.ok());
  EXPECT_TRUE(results[2].get().status.ok());
  scheduler_->Stop();
  EXPECT_EQ(scheduler_->queued_tokens(), 0);
  EXPECT_THAT(Rendered(),
              HasSubstr("penstock_queue_requests{model=\"m\",lane=\"interactive\"} 0\n"));
  EXPECT_THAT(Rendered(), HasSubstr(R"(penstock_dropped_total{model="m",reason="queue_full"} 3)"));
}

// 2 s a batch of at most 4 tokens, 3 s a token, 5 s for each unit of attention work.
TEST_F(EncoderSchedulerTest, DemandIsAllThatWasAskedForInSeconds) {
  EncoderSchedulerOptions options;
  options.max_batch_tokens = 4;
  options.times = {2, 3, 5};
  options.max_queued_tokens = 10;
  options.manual = true;
  Start(options);
  const auto value = [&](const char* name) {
    const std::string line = std::string(name) + "{model=\"m\",class=\"interactive\"} ";
    const std::string text = Rendered();
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + line.size()));
  };
  // A token costs 3 s, its part of a full batch, and attention as for rows of equal length.
  const double two_rows = 4 * (3 + 2.0 / 4 + 5 * 2), one_row = 4 * (3 + 2.0 / 4 + 5 * 4);
  const double refused = 3 * (3 + 2.0 / 4 + 5 * 3);
  std::vector<std::future<Result>> results(4);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({2, 2}, 1, &results[0])).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({4}, 1, &results[1])).ok());
  EXPECT_NEAR(value("penstock_queue_seconds"), two_rows + one_row, 1e-6);
  EXPECT_EQ(scheduler_->Submit(MakeJob({3}, 1, &results[2])).code(),
            StatusCode::kResourceExhausted);
  // One that can never be served is the client's mistake.
  EXPECT_EQ(scheduler_->Submit(MakeJob({5, 6}, 1, &results[3])).code(),
            StatusCode::kPayloadTooLarge);
  EXPECT_NEAR(value("penstock_queue_seconds"), two_rows + one_row, 1e-6);
  EXPECT_NEAR(value("penstock_demand_seconds_total"), two_rows + one_row + refused, 1e-6);
  scheduler_->CountRefused(Priority::kInteractive);
  EXPECT_NEAR(value("penstock_demand_seconds_total"), (two_rows + one_row + refused) * 4 / 3, 1e-6);
  EXPECT_EQ(value("penstock_jobs_total"), 4);
  while (scheduler_->Step()) {
  }
  EXPECT_TRUE(results[0].get().status.ok() && results[1].get().status.ok());
  EXPECT_EQ(value("penstock_queue_seconds"), 0);
}

TEST_F(EncoderSchedulerTest, AFailedBatchFailsOnlyTheJobAtFault) {
  Start();
  Block();
  std::vector<std::future<Result>> results(3);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({2, 1}, 1, &results[0])).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({3}, kPoison, &results[1])).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({4, 2}, 7, &results[2])).ok());
  log_.SetShut(false);
  EXPECT_EQ(results[0].get().values, ExpectedRows({2, 1}, 1));
  const Status failed = results[1].get().status;
  EXPECT_EQ(failed.code(), StatusCode::kInternal);
  EXPECT_EQ(failed.message(), "poisoned");
  EXPECT_EQ(results[2].get().values, ExpectedRows({4, 2}, 7));
  // All; the first job; the others, of which each alone.
  EXPECT_THAT(log_.BatchTokens(), ElementsAre(1, 12, 3, 9, 3, 6));
}

TEST_F(EncoderSchedulerTest, OneBadJobOf64CostsFewRuns) {
  for (const size_t bad : {0u, 37u, 63u}) {
    Start();
    Block();
    std::vector<std::future<Result>> results(64);
    for (size_t i = 0; i < results.size(); ++i) {
      const int32_t id = i == bad ? kPoison : 1 + static_cast<int32_t>(i);
      ASSERT_TRUE(scheduler_->Submit(MakeJob({1}, id, &results[i])).ok());
    }
    log_.SetShut(false);
    for (size_t i = 0; i < results.size(); ++i) {
      const Result result = results[i].get();
      ASSERT_EQ(result.status.ok(), i != bad);
      if (i != bad) {
        EXPECT_EQ(result.values, ExpectedRows({1}, 1 + static_cast<int32_t>(i)));
      }
    }
    scheduler_.reset();
    // That of Block, the whole one, and two halves six times.
    EXPECT_LE(log_.BatchTokens().size(), 1u + 1 + 12);
    log_.batches.clear();
  }
}

// Small jobs, which pass the ring: a client that comes last waits for the batches that were begun,
// not for all jobs of another.
TEST_F(EncoderSchedulerTest, AClientWithManyRequestsDelaysNoOther) {
  Start({.max_batch_tokens = 128, .max_batch_rows = 64, .manual = true});
  const auto submit = [&](uint64_t client, std::future<Result>* result) {
    auto job = MakeJob({16}, 1, result);
    job->context.client = client;
    ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  };
  std::vector<std::future<Result>> many(512), few(8);
  for (auto& result : many) submit(1, &result);
  for (size_t i = 0; i < few.size(); ++i) {
    submit(2 + i % 4, &few[i]);
    int batches = 0;
    while (few[i].wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      ASSERT_TRUE(scheduler_->Step());
      ++batches;
    }
    EXPECT_LE(batches, i == 0 ? 5 : 1);  // the ring's before it, once
  }
  while (scheduler_->Step()) {
  }
  for (auto& result : many) EXPECT_TRUE(result.get().status.ok());
  for (const size_t tokens : log_.BatchTokens()) EXPECT_LE(tokens, 128u);
  EXPECT_EQ(log_.BatchTokens().size(), (512u + 8) / 8);  // all were full
}

TEST_F(EncoderSchedulerTest, AFullQueueShutsNoOtherClientOut) {
  Start({.max_batch_tokens = 64, .max_queued_tokens = 1600, .manual = true});
  std::vector<std::future<Result>> results;
  const auto submit = [&](uint64_t client) {
    std::future<Result> result;
    auto job = MakeJob({20, 20}, 1, &result);
    job->context.client = client;
    const Status status = scheduler_->Submit(std::move(job));
    if (status.ok()) results.push_back(std::move(result));
    return status.code();
  };
  for (int i = 0; i < 40; ++i) EXPECT_EQ(submit(1), StatusCode::kOk);
  EXPECT_EQ(submit(1), StatusCode::kResourceExhausted);
  // 200 tokens over the limit, for those that have less waiting.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(submit(2), StatusCode::kOk) << i;
  EXPECT_EQ(submit(2), StatusCode::kResourceExhausted);
  EXPECT_EQ(submit(1), StatusCode::kResourceExhausted);
  while (scheduler_->Step()) {
  }
  for (auto& result : results) EXPECT_EQ(result.get().values, ExpectedRows({20, 20}, 1));
}

// A batch in steps of a token each: a sequence ends with the sum of its ids.
class StepsRunner final : public program::EncoderRunner {
 public:
  int32_t OutputWidth(program::EncoderOutput) const override { return 1; }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    for (size_t s = 0; s < batch.sequences(); ++s) {
      float sum = 0;
      int32_t at = batch.offsets[s];
      for (; at < batch.offsets[s + 1] && pause()->Wanted(s); ++at) {
        before_step(batch.ids[static_cast<size_t>(at)]);
        ++steps;
        sum += static_cast<float>(batch.ids[static_cast<size_t>(at)]);
      }
      if (at == batch.offsets[s + 1]) *sinks[s] = sum;
      (void)pause()->Pause();
    }
    return Status::Ok();
  }
  std::function<void(int32_t id)> before_step;
  int steps = 0;
};

TEST_F(EncoderSchedulerTest, WorkThatNobodyWaitsForEndsWithItsStep) {
  for (const bool expires : {false, true}) {
    Clock::time_point now{std::chrono::seconds(1)};
    auto owned = std::make_unique<StepsRunner>();
    StepsRunner* const runner = owned.get();
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(std::move(owned));
    EncoderSchedulerOptions options{.model = "m"};
    options.manual = true;
    options.now = [&] { return now; };
    EncoderScheduler scheduler(std::move(runners), options, &metrics_);
    std::vector<std::future<Result>> results(3);
    const auto token = std::make_shared<CancelToken>();
    for (int32_t i = 0; i < 3; ++i) {
      auto job = MakeJob({10, 10}, 10 * i + 1, &results[static_cast<size_t>(i)]);
      if (i == 1) {
        job->context.cancel = token;
        job->context.deadline = now + std::chrono::seconds(1);
      }
      ASSERT_TRUE(scheduler.Submit(std::move(job)).ok());
    }
    runner->before_step = [&](int32_t id) {
      if (id == 11 && expires) now += std::chrono::seconds(1);
      if (id == 11 && !expires) token->Cancel();
    };
    EXPECT_TRUE(scheduler.Step());
    EXPECT_EQ(results[1].get().status.code(),
              expires ? StatusCode::kDeadlineExceeded : StatusCode::kCancelled);
    EXPECT_EQ(runner->steps, 20 + 1 + 20);
    EXPECT_EQ(results[0].get().values, (std::vector<float>{10, 20}));
    EXPECT_EQ(results[2].get().values, (std::vector<float>{210, 220}));
    EXPECT_FALSE(scheduler.Step());
    EXPECT_EQ(scheduler.queued_rows(), 0);
  }
}

TEST_F(EncoderSchedulerTest, NanFailsItsOwnRequestOnly) {
  Start();
  Block();
  std::vector<std::future<Result>> results(2);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({1}, kNan, &results[0])).ok());
  ASSERT_TRUE(scheduler_->Submit(MakeJob({2}, 3, &results[1])).ok());
  log_.SetShut(false);
  const Status nan = results[0].get().status;
  EXPECT_EQ(nan.code(), StatusCode::kInternal);
  EXPECT_THAT(nan.message(), HasSubstr("not finite"));
  EXPECT_EQ(results[1].get().values, ExpectedRows({2}, 3));
  EXPECT_EQ(log_.batches.size(), 2u);
}

TEST_F(EncoderSchedulerTest, RefusesJobsThatDoNotAddUp) {
  Start();
  std::future<Result> result;
  EXPECT_EQ(scheduler_->Submit(MakeJob({}, 1, &result)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scheduler_->Submit(MakeJob({1, 0}, 1, &result)).code(), StatusCode::kInvalidArgument);
  auto job = MakeJob({2}, 1, &result);
  job->ids.pop_back();
  EXPECT_EQ(scheduler_->Submit(std::move(job)).code(), StatusCode::kInvalidArgument);
}

TEST_F(EncoderSchedulerTest, StopFinishesWhatWasAcceptedAndRefusesTheRest) {
  Start({.max_batch_tokens = 4});
  Block();
  std::vector<std::future<Result>> results(20);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(scheduler_->Submit(MakeJob({3}, i, &results[i])).ok());
  }
  std::thread stopper([&] { scheduler_->Stop(); });
  std::future<Result> late;
  while (scheduler_->Submit(MakeJob({1}, 1, &late)).ok()) std::this_thread::yield();
  EXPECT_EQ(scheduler_->Submit(MakeJob({1}, 1, &late)).code(), StatusCode::kUnavailable);
  log_.SetShut(false);
  stopper.join();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(results[i].get().values, ExpectedRows({3}, i));
  scheduler_->Stop();
}

TEST_F(EncoderSchedulerTest, AThreadThatMayLeadRunsALoneJobItself) {
  Start();
  std::future<Result> result;
  auto job = MakeJob({3, 1}, 10, &result);
  job->may_lead = true;
  std::thread::id ran_on;
  job->done = [&ran_on, done = job->done](std::unique_ptr<EncodeJob> back, Status status) {
    ran_on = std::this_thread::get_id();
    done(std::move(back), std::move(status));
  };
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  ASSERT_EQ(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(result.get().values, ExpectedRows({3, 1}, 10));
  EXPECT_THAT(Rendered(), HasSubstr("penstock_batches_led_total{model=\"m\"} 1\n"));
  // No leading while others work, nor of more than a batch.
  Block();
  job = MakeJob({2}, 1, &result);
  job->may_lead = true;
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  log_.SetShut(false);
  EXPECT_TRUE(result.get().status.ok());
  EXPECT_TRUE(blocker_.get().status.ok());
  job = MakeJob({2000}, 1, &result);
  job->may_lead = true;
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  EXPECT_TRUE(result.get().status.ok());
  EXPECT_THAT(Rendered(), HasSubstr("penstock_batches_led_total{model=\"m\"} 1\n"));
}

TEST_F(EncoderSchedulerTest, WhatComesWhileOneLeadsIsRunAfterIt) {
  Start();
  log_.SetShut(true);
  std::future<Result> led, followed;
  auto job = MakeJob({1}, 5, &led);
  job->may_lead = true;
  std::thread leader([&] { ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok()); });
  log_.WaitForBatches(1);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({2}, 6, &followed)).ok());
  log_.SetShut(false);
  leader.join();
  EXPECT_TRUE(led.get().status.ok());
  EXPECT_EQ(followed.get().values, ExpectedRows({2}, 6));
}

TEST_F(EncoderSchedulerTest, WithReplicasBulkNeverHasTheLastOne) {
  Start({.max_batch_tokens = 10}, 2);
  log_.SetShut(true);
  std::future<Result> bulk, interactive;
  auto job = MakeJob(std::vector<int32_t>(10, 5), 1, &bulk);
  job->context.priority = Priority::kBulk;
  ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  log_.WaitForBatches(1);
  ASSERT_TRUE(scheduler_->Submit(MakeJob({1}, 7, &interactive)).ok());
  log_.WaitForBatches(2);  // hangs, if bulk had both
  EXPECT_EQ(log_.BatchTokens(), (std::vector<size_t>{10, 1}));
  log_.SetShut(false);
  EXPECT_TRUE(interactive.get().status.ok());
  EXPECT_TRUE(bulk.get().status.ok());
}

// Gives memory back when it is idle, once.
TEST_F(EncoderSchedulerTest, ReleasesMemoryAfterIdleTime) {
  struct Holder : FakeRunner {
    Holder(FakeRunner::Log* log, std::atomic<int>* releases)
        : FakeRunner(log), releases_(releases) {}
    uint64_t ReleaseMemory() override { return ++*releases_, 1; }
    std::atomic<int>* releases_;
  };
  std::atomic<int> releases{0};
  std::vector<std::unique_ptr<program::EncoderRunner>> runners;
  runners.push_back(std::make_unique<Holder>(&log_, &releases));
  scheduler_ = std::make_unique<EncoderScheduler>(
      std::move(runners), EncoderSchedulerOptions{.idle_release_s = 0.05, .model = "m"}, &metrics_);
  const auto wait_for = [&](int n) {
    return Eventually([&] { return releases >= n; }) && releases == n;
  };
  EXPECT_TRUE(wait_for(1));
  for (int round = 0; round < 2; ++round) {
    std::future<Result> result;
    auto job = MakeJob({1}, 1, &result);
    job->may_lead = round == 1;  // the executor sleeps meanwhile
    ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
    EXPECT_TRUE(result.get().status.ok());
    EXPECT_TRUE(wait_for(2 + round));
  }
}

class EncoderSchedulerStress : public EncoderSchedulerTest,
                               public testing::WithParamInterface<size_t> {};

INSTANTIATE_TEST_SUITE_P(Replicas, EncoderSchedulerStress, testing::Values(1, 3));

TEST_P(EncoderSchedulerStress, ManyThreadsSubmitAndCancel) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 8, .max_queued_tokens = 400}, GetParam());
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  std::atomic<int> ok{0}, poisoned{0}, cancelled{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<std::future<Result>, std::vector<float>>> waiting;
      for (int i = 0; i < kRounds; ++i) {
        std::vector<int32_t> lengths(1 + random() % 6);
        for (auto& length : lengths) length = 1 + random() % 30;
        // A poisoned job fails, and no other.
        const int32_t first_id = random() % 30 == 0 ? kPoison : random() % 500;
        std::future<Result> result;
        auto job = MakeJob(lengths, first_id, &result);
        job->context.cancel = std::make_shared<CancelToken>();
        auto token = job->context.cancel;
        job->may_lead = random() % 2 == 0;
        if (random() % 3 == 0) job->context.priority = Priority::kBulk;
        job->context.client = random() % 4;
        job->context.client_weight = 1 + static_cast<uint32_t>(job->context.client);
        if (!scheduler_->Submit(std::move(job)).ok()) {
          ++refused;
          continue;
        }
        if (random() % 4 == 0) token->Cancel();
        // What is expected of a poisoned one is nothing.
        waiting.emplace_back(std::move(result), first_id == kPoison
                                                    ? std::vector<float>()
                                                    : ExpectedRows(lengths, first_id));
      }
      for (auto& [result, expected] : waiting) {
        const Result got = result.get();
        if (got.status.ok()) {
          ++ok;
          EXPECT_EQ(got.values, expected);
        } else if (got.status.code() == StatusCode::kInternal) {
          ++poisoned;
          EXPECT_TRUE(expected.empty());
        } else {
          ++cancelled;
          EXPECT_EQ(got.status.code(), StatusCode::kCancelled);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ok + poisoned + cancelled + refused, kThreads * kRounds);
  EXPECT_GT(ok, 0);
  EXPECT_THAT(log_.BatchTokens(), Each(Le(64u)));
  EXPECT_EQ(scheduler_->queued_tokens(), 0);
}

}  // namespace
}  // namespace penstock::sched
