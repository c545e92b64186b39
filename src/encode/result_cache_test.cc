#include "encode/result_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "engine/fake_engine.h"

namespace penstock::encode {
namespace {

using testing::ElementsAre;

// Counts the sequences that reach it.
class CountingRunner : public engine::FakeEncoderRunner {
 public:
  CountingRunner(int32_t labels, std::atomic<int>* sequences, const std::function<void()>* before)
      : engine::FakeEncoderRunner(labels), sequences_(sequences), before_(before) {}
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override {
    if (*before_) (*before_)();
    *sequences_ += static_cast<int>(batch.sequences());
    return engine::FakeEncoderRunner::Run(batch, output, sinks);
  }

 private:
  std::atomic<int>* const sequences_;
  const std::function<void()>* const before_;
};

class ResultCacheTest : public testing::Test {
 protected:
  ResultCacheTest() : engine_(NewEngine("one")) {}
  std::unique_ptr<engine::EncoderEngine> NewEngine(const std::string& name) {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kClassification, 3);
    parts.runners[0] = std::make_unique<CountingRunner>(3, &worked_, &before_run_);
    engine::EncoderEngineOptions options;
    options.name = name;
    options.scheduler.max_queued_tokens = 100;
    return std::make_unique<engine::EncoderEngine>(std::move(parts), options, &metrics_);
  }
  static std::unique_ptr<sched::EncodeJob> Job(
      const std::vector<std::vector<int32_t>>& rows,
      program::EncoderOutput output = program::EncoderOutput::kPooled) {
    auto job = std::make_unique<sched::EncodeJob>();
    for (const auto& row : rows) {
      job->ids.insert(job->ids.end(), row.begin(), row.end());
      job->lengths.push_back(static_cast<int32_t>(row.size()));
    }
    job->output = output;
    return job;
  }
  struct Result {
    Status status;
    std::unique_ptr<sched::EncodeJob> job;
  };
  Result Run(std::unique_ptr<sched::EncodeJob> job, ResultCache* cache = nullptr,
             engine::EncoderEngine* engine = nullptr) {
    std::promise<Result> promise;
    job->done = [&](std::unique_ptr<sched::EncodeJob> back, Status status) {
      promise.set_value({std::move(status), std::move(back)});
    };
    const Status submitted =
        (cache ? cache : &cache_)
            ->Submit(registry::Lease<engine::EncoderEngine>(engine ? engine : engine_.get()),
                     std::move(job));
    if (!submitted.ok()) return {submitted, nullptr};
    return promise.get_future().get();
  }
  // The values, and how many sequences the model worked on for them.
  std::vector<float> Values(std::unique_ptr<sched::EncodeJob> job, int worked,
                            engine::EncoderEngine* engine = nullptr) {
    const int before = worked_;
    Result result = Run(std::move(job), nullptr, engine);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_EQ(worked_ - before, worked);
    return result.job->values;
  }

  // Submits a job and gives its result later.
  std::future<Result> Begin(std::unique_ptr<sched::EncodeJob> job) {
    auto promise = std::make_shared<std::promise<Result>>();
    job->done = [promise](std::unique_ptr<sched::EncodeJob> back, Status status) {
      promise->set_value({std::move(status), std::move(back)});
    };
    EXPECT_TRUE(
        cache_.Submit(registry::Lease<engine::EncoderEngine>(engine_.get()), std::move(job)).ok());
    return promise->get_future();
  }
  // The model waits in its next batch until the returned function is called.
  std::function<void()> HoldModel() {
    auto open = std::make_shared<std::promise<void>>();
    auto entered = std::make_shared<std::promise<void>>();
    before_run_ = [open_future = open->get_future().share(), entered,
                   first = std::make_shared<std::atomic<bool>>(true)] {
      if (!first->exchange(false)) return;
      entered->set_value();
      open_future.wait();
    };
    auto held = Begin(Job({{99}}));
    entered->get_future().wait();
    return [open, held = std::make_shared<std::future<Result>>(std::move(held))] {
      open->set_value();
      held->wait();
    };
  }

  metrics::Metrics metrics_;
  std::atomic<int> worked_{0};
  std::function<void()> before_run_;
  ResultCache cache_{1 << 20, std::chrono::seconds(0), nullptr, &metrics_};
  std::unique_ptr<engine::EncoderEngine> engine_;
};

TEST_F(ResultCacheTest, KnownRowsGoAroundTheModel) {
  // [sum of ids, length, 3, 4]
  EXPECT_THAT(Values(Job({{5, 6}}), 1), ElementsAre(11, 2, 3, 4));
  EXPECT_THAT(Values(Job({{5, 6}}), 0), ElementsAre(11, 2, 3, 4));
  const Result mixed = Run(Job({{7}, {5, 6}, {8, 9, 10}, {5, 6}}));
  EXPECT_THAT(mixed.job->values, ElementsAre(7, 1, 3, 4, 11, 2, 3, 4, 27, 3, 3, 4, 11, 2, 3, 4));
  EXPECT_EQ(mixed.job->width, 4);
  EXPECT_THAT(mixed.job->lengths, ElementsAre(1, 2, 3, 2));
  EXPECT_EQ(mixed.job->ids.size(), 8u);
  EXPECT_EQ(worked_, 3);
  Values(Job({{8, 9, 10}, {7}}), 0);
  EXPECT_EQ(metrics_.AddCounter("penstock_cache_hits_total", "", "cache=\"result\"").value(), 5u);
}

TEST_F(ResultCacheTest, WhateverChangesAResultIsInTheKey) {
  Values(Job({{5, 6}}), 1);
  Values(Job({{6, 5}}), 1);
  Values(Job({{5}, {6}}), 2);
  Values(Job({{5, 6, 0}}), 1);
  EXPECT_EQ(Values(Job({{5, 6}}, program::EncoderOutput::kLogits), 1).size(), 3u);
  auto job = Job({{5, 6}});
  job->type_ids = {0, 1};
  Values(std::move(job), 1);
  job = Job({{5, 6}});
  job->type_ids = {0, 0};
  Values(std::move(job), 1);
  job = Job({{5, 6}});
  job->pool_skip = {1};
  Values(std::move(job), 1);
  const auto other = NewEngine("two");
  Values(Job({{5, 6}}), 1, other.get());
  Values(Job({{5, 6}}), 0);
  // Ids that look like type ids.
  Values(Job({{5, 6, 0, 1}}), 1);
}

TEST_F(ResultCacheTest, ClientsOfAnotherSaltShareNothing) {
  const auto job = [](uint64_t salt) {
    auto made = Job({{1, 2, 3}});
    made->context.cache_salt = salt;
    return made;
  };
  const auto values = Values(job(0), 1);
  EXPECT_EQ(Values(job(2), 1), values);
  EXPECT_EQ(Values(job(4), 1), values);
  EXPECT_EQ(Values(job(2), 0), values);
  EXPECT_EQ(Values(job(0), 0), values);
}

TEST_F(ResultCacheTest, TokenEmbeddingsAreNotKept) {
  EXPECT_EQ(Values(Job({{5, 6}}, program::EncoderOutput::kTokens), 1).size(), 8u);
  EXPECT_EQ(Values(Job({{5, 6}}, program::EncoderOutput::kTokens), 1).size(), 8u);
}

TEST_F(ResultCacheTest, OffAndCleared) {
  ResultCache off(0, std::chrono::seconds(0), nullptr, &metrics_);
  Run(Job({{5}}), &off);
  Run(Job({{5}}), &off);
  EXPECT_EQ(worked_, 2);
  Values(Job({{5}}), 1);
  cache_.Clear();
  Values(Job({{5}}), 1);
}

TEST_F(ResultCacheTest, RefusalsAndFailures) {
  const std::vector<int32_t> too_many(200, 7);
  EXPECT_EQ(Run(Job({too_many})).status.code(), StatusCode::kPayloadTooLarge);
  auto job = Job({{9, 9}, {5}});
  job->context.cancel = std::make_shared<CancelToken>();
  job->context.cancel->Cancel();
  EXPECT_EQ(Run(std::move(job)).status.code(), StatusCode::kCancelled);
  Values(Job({{9, 9}}), 1);  // nothing was kept of it
  engine_->scheduler().Stop();
  EXPECT_EQ(Run(Job({{1}})).status.code(), StatusCode::kUnavailable);
  // Known rows are answered all the same.
  Values(Job({{9, 9}}), 0);
}

TEST_F(ResultCacheTest, EqualRowsThatMissAtOnceAreComputedOnce) {
  EXPECT_THAT(Values(Job({{5, 6}, {7}, {5, 6}}), 2),
              ElementsAre(11, 2, 3, 4, 7, 1, 3, 4, 11, 2, 3, 4));
  const auto release = HoldModel();
  auto first = Begin(Job({{1, 2}, {3}}));
  auto second = Begin(Job({{3}, {4}}));
  auto third = Begin(Job({{1, 2}}));
  const int before = worked_;
  release();
  EXPECT_THAT(first.get().job->values, ElementsAre(3, 2, 3, 4, 3, 1, 3, 4));
  EXPECT_THAT(second.get().job->values, ElementsAre(3, 1, 3, 4, 4, 1, 3, 4));
  EXPECT_THAT(third.get().job->values, ElementsAre(3, 2, 3, 4));
  EXPECT_EQ(worked_ - before, 1 + 3);  // the one that held the model, {1, 2}, {3} and {4}
}

TEST_F(ResultCacheTest, AFollowerIsComputedWhereItsLeaderFails) {
  const auto release = HoldModel();
  auto leader = Job({{1, 2}});
  leader->context.cancel = std::make_shared<CancelToken>();
  const auto cancel = leader->context.cancel;
  auto first = Begin(std::move(leader));
  auto second = Begin(Job({{1, 2}}));
  auto third = Begin(Job({{1, 2}}));
  cancel->Cancel();
  release();
  EXPECT_EQ(first.get().status.code(), StatusCode::kCancelled);
  EXPECT_THAT(second.get().job->values, ElementsAre(3, 2, 3, 4));
  EXPECT_THAT(third.get().job->values, ElementsAre(3, 2, 3, 4));
}

TEST_F(ResultCacheTest, InteractiveWorkNeverFollowsBulk) {
  const auto release = HoldModel();
  auto bulk_job = Job({{1, 2}});
  bulk_job->context.priority = Priority::kBulk;
  auto bulk = Begin(std::move(bulk_job));
  auto person = Begin(Job({{1, 2}}));
  const int before = worked_;
  release();
  EXPECT_THAT(person.get().job->values, ElementsAre(3, 2, 3, 4));
  EXPECT_THAT(bulk.get().job->values, ElementsAre(3, 2, 3, 4));
  EXPECT_EQ(worked_ - before, 1 + 2);
}

TEST_F(ResultCacheTest, ALoneRequestIsRunByItsOwnThread) {
  std::thread::id ran_on;
  before_run_ = [&] { ran_on = std::this_thread::get_id(); };
  auto job = Job({{5, 6}});
  job->may_lead = true;
  Values(std::move(job), 1);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(ResultCacheTest, EqualRowsFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto job = Job({{i / 4, 1}, {i / 4, t, 2}, {i / 4, 1}});
        if ((i + t) % 5 == 0) {
          job->context.cancel = std::make_shared<CancelToken>();
          job->context.cancel->Cancel();
        }
        const bool cancelled = job->context.cancel != nullptr;
        const Result result = Run(std::move(job));
        // A cancelled job that finds all it wants is answered all the same.
        if (!result.status.ok()) {
          wrong += !cancelled && result.status.code() != StatusCode::kResourceExhausted;
          continue;
        }
        wrong += result.job->values[0] != static_cast<float>(i / 4 + 1);
        wrong += result.job->values[4] != static_cast<float>(i / 4 + t + 2);
        wrong += result.job->values[8] != static_cast<float>(i / 4 + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace penstock::encode
