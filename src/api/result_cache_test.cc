#include "api/result_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/fake_engine.h"

namespace penstock {
namespace {

using testing::ElementsAre;

// Counts the sequences that reach it.
class CountingRunner : public FakeEncoderRunner {
 public:
  CountingRunner(int32_t labels, std::atomic<int>* sequences)
      : FakeEncoderRunner(labels), sequences_(sequences) {}
  Status Run(const PackedBatch& batch, EncoderOutput output,
             std::span<float* const> sinks) override {
    *sequences_ += static_cast<int>(batch.sequences());
    return FakeEncoderRunner::Run(batch, output, sinks);
  }

 private:
  std::atomic<int>* const sequences_;
};

class ResultCacheTest : public testing::Test {
 protected:
  ResultCacheTest() : engine_(NewEngine("one")) {}
  std::unique_ptr<Engine> NewEngine(const std::string& name) {
    EngineParts parts = FakeParts(ModelTask::kClassification, 3);
    parts.runners[0] = std::make_unique<CountingRunner>(3, &worked_);
    EngineOptions options;
    options.name = name;
    options.scheduler.max_queued_tokens = 100;
    return std::make_unique<Engine>(std::move(parts), options, &metrics_);
  }
  static std::unique_ptr<EncodeJob> Job(const std::vector<std::vector<int32_t>>& rows,
                                        EncoderOutput output = EncoderOutput::kPooled) {
    auto job = std::make_unique<EncodeJob>();
    for (const auto& row : rows) {
      job->ids.insert(job->ids.end(), row.begin(), row.end());
      job->lengths.push_back(static_cast<int32_t>(row.size()));
    }
    job->output = output;
    return job;
  }
  struct Result {
    Status status;
    std::unique_ptr<EncodeJob> job;
  };
  Result Run(std::unique_ptr<EncodeJob> job, ResultCache* cache = nullptr,
             Engine* engine = nullptr) {
    std::promise<Result> promise;
    job->done = [&](std::unique_ptr<EncodeJob> back, Status status) {
      promise.set_value({std::move(status), std::move(back)});
    };
    const Status submitted =
        (cache ? cache : &cache_)->Submit(engine ? engine : engine_.get(), std::move(job));
    if (!submitted.ok()) return {submitted, nullptr};
    return promise.get_future().get();
  }
  // The values, and how many sequences the model worked on for them.
  std::vector<float> Values(std::unique_ptr<EncodeJob> job, int worked, Engine* engine = nullptr) {
    const int before = worked_;
    Result result = Run(std::move(job), nullptr, engine);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_EQ(worked_ - before, worked);
    return result.job->values;
  }

  Metrics metrics_;
  std::atomic<int> worked_{0};
  ResultCache cache_{1 << 20, std::chrono::seconds(0), nullptr, &metrics_};
  std::unique_ptr<Engine> engine_;
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
  EXPECT_EQ(Values(Job({{5, 6}}, EncoderOutput::kLogits), 1).size(), 3u);
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

TEST_F(ResultCacheTest, TokenEmbeddingsAreNotKept) {
  EXPECT_EQ(Values(Job({{5, 6}}, EncoderOutput::kTokens), 1).size(), 8u);
  EXPECT_EQ(Values(Job({{5, 6}}, EncoderOutput::kTokens), 1).size(), 8u);
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
  // What is known is answered all the same.
  Values(Job({{9, 9}}), 0);
}

}  // namespace
}  // namespace penstock
