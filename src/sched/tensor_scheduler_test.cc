#include "sched/tensor_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "sched/tensor_fakes.h"
#include "threads/byte_budget.h"

namespace penstock::sched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A scheduler in manual mode over DoublingRunners of rows of `kWidth`.
class TensorSchedulerTest : public testing::Test {
 protected:
  static constexpr uint32_t kWidth = 4;

  void MakeDoubling(int32_t max_batch_size, size_t runners = 1) {
    std::vector<std::unique_ptr<signature::TensorRunner>> made;
    for (size_t i = 0; i < runners; ++i) {
      auto runner = std::make_unique<DoublingRunner>(kWidth);
      doubling_ = runner.get();
      made.push_back(std::move(runner));
    }
    Make(DoublingRunner::Signature(kWidth, max_batch_size), std::move(made));
  }
  // Any shapes: one input of `type` and an output like it.
  void MakeEcho(signature::ElementType type, std::vector<signature::DimensionRange> shape,
                int32_t max_batch_size) {
    signature::TensorSignature signature;
    signature.inputs = {{"in", type, shape}};
    signature.outputs = {{"out", type, shape}};
    signature.max_batch_size = max_batch_size;
    std::vector<std::unique_ptr<signature::TensorRunner>> made;
    made.push_back(std::make_unique<EchoRunner>());
    echo_ = static_cast<EchoRunner*>(made[0].get());
    Make(std::move(signature), std::move(made));
  }
  void Make(signature::TensorSignature signature,
            std::vector<std::unique_ptr<signature::TensorRunner>> runners) {
    options_.model = "m";
    auto scheduler =
        TensorScheduler::Make(std::move(signature), std::move(runners), options_, &metrics_);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status().ToString();
    scheduler_ = *std::move(scheduler);
  }
  std::unique_ptr<TestTensorJob> Submit(uint32_t rows, float first,
                                        Priority priority = Priority::kInteractive) {
    auto job = RowsJob(rows, kWidth, first);
    job->context.priority = priority;
    EXPECT_TRUE(scheduler_->Submit(job.get()).ok());
    return job;
  }
  void RunAll() {
    while (scheduler_->Step()) {
    }
  }

  metrics::Metrics metrics_;
  TensorSchedulerOptions options_{.manual = true};
  DoublingRunner* doubling_ = nullptr;
  EchoRunner* echo_ = nullptr;
  std::unique_ptr<TensorScheduler> scheduler_;
};

TEST_F(TensorSchedulerTest, SmallJobsShareABatch) {
  MakeDoubling(64);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back(Submit(1 + i, 10.0f * i));
  EXPECT_EQ(scheduler_->queued_rows(), 15);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_FALSE(scheduler_->Step());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(IsDoubled(*jobs[i], kWidth, 10.0f * i)) << i;
    EXPECT_EQ(jobs[i]->ends, 1);
  }
  EXPECT_EQ(doubling_->runs, 1);
  EXPECT_EQ(scheduler_->queued_rows(), 0);
}

TEST_F(TensorSchedulerTest, LargeJobsAreSplitAndJoinedInOrder) {
  MakeDoubling(16);
  const auto large = Submit(100, 1000);
  const auto other = Submit(37, 5000);
  const auto small = Submit(1, 7);
  // Turns: the small one does not wait for the large ones.
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(small->ends, 1);
  EXPECT_EQ(large->ends, 0);
  RunAll();
  EXPECT_TRUE(IsDoubled(*large, kWidth, 1000));
  EXPECT_TRUE(IsDoubled(*other, kWidth, 5000));
  EXPECT_TRUE(IsDoubled(*small, kWidth, 7));
  EXPECT_EQ(doubling_->runs, 9);  // 138 rows of 16
}

TEST_F(TensorSchedulerTest, ABatchOfTheRingIsFilledUpFromTheBacklog) {
  MakeDoubling(16);
  const auto first = Submit(2, 100);
  const auto large = Submit(30, 1000);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(doubling_->rows_run, 16u);
  EXPECT_TRUE(IsDoubled(*first, kWidth, 100));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_TRUE(IsDoubled(*large, kWidth, 1000));
}

TEST_F(TensorSchedulerTest, AClientWithManyRequestsDelaysNoOther) {
  MakeDoubling(16);
  const auto submit = [&](uint64_t client, uint32_t rows, uint32_t weight = 1) {
    auto job = RowsJob(rows, kWidth, 10);
    job->context.client = client;
    job->context.client_weight = weight;
    EXPECT_TRUE(scheduler_->Submit(job.get()).ok());
    return job;
  };
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 0; i < 512; ++i) jobs.push_back(submit(1, 1 + i % 2));
  jobs.push_back(submit(1, 3000));
  for (int i = 0; i < 5; ++i) {
    const auto single = submit(2, 1);
    int batches = 0;
    for (; single->ends == 0; ++batches) ASSERT_TRUE(scheduler_->Step());
    EXPECT_LE(batches, i == 0 ? 9 : 1);  // the ring's eight before it, once
    EXPECT_TRUE(IsDoubled(*single, kWidth, 10));
  }
  // Two that always wait have shares by weight.
  const auto heavy = submit(3, 900, 3);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(scheduler_->Step());
  EXPECT_NEAR(900.0 - heavy->progress.rows_open, 40 * 16 * 3 / 4, 16);
  RunAll();
  for (const auto& job : jobs) EXPECT_TRUE(IsDoubled(*job, kWidth, 10));
  EXPECT_TRUE(IsDoubled(*heavy, kWidth, 10));
  EXPECT_LE(doubling_->runs, (768 + 3000 + 5 + 900) / 16 + 2);  // batches are full
}

TEST_F(TensorSchedulerTest, SmallBatchesHaveNoRing) {
  MakeDoubling(1);
  const auto one = Submit(1, 3);
  const auto three = Submit(3, 30);
  RunAll();
  EXPECT_TRUE(IsDoubled(*one, kWidth, 3));
  EXPECT_TRUE(IsDoubled(*three, kWidth, 30));
  EXPECT_EQ(doubling_->runs, 4);
}

TEST_F(TensorSchedulerTest, ResultsGoToSinks) {
  MakeDoubling(16);
  for (const uint32_t rows : {2u, 40u}) {
    auto job = RowsJob(rows, kWidth, 5);
    std::vector<std::byte> y(rows * kWidth * 4), sum(rows * 4);
    job->results[0].sink = y;
    job->results[1].sink = sum;
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    RunAll();
    EXPECT_TRUE(IsDoubled(*job, kWidth, 5));
    EXPECT_EQ(job->results[0].bytes.data(), y.data());
    EXPECT_EQ(job->results[1].bytes.data(), sum.data());
  }
}

TEST_F(TensorSchedulerTest, OnlyTheJobAtFaultFails) {
  MakeDoubling(64);
  const auto good = Submit(2, 1);
  const auto bad = Submit(1, -5);
  const auto large = Submit(20, 100);
  RunAll();
  EXPECT_TRUE(IsDoubled(*good, kWidth, 1));
  EXPECT_TRUE(IsDoubled(*large, kWidth, 100));
  EXPECT_EQ(bad->status.code(), StatusCode::kInternal);
  EXPECT_THAT(bad->status.message(), HasSubstr("negative"));
  const TensorStatistics statistics = scheduler_->Statistics();
  EXPECT_EQ(statistics.success.count, 2u);
  EXPECT_EQ(statistics.fail.count, 1u);
}

TEST_F(TensorSchedulerTest, OneBadJobOf64CostsFewRuns) {
  MakeDoubling(64);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 0; i < 64; ++i) jobs.push_back(Submit(1, i == 37 ? -5.0f : 1.0f + i));
  RunAll();
  for (int i = 0; i < 64; ++i) {
    if (i == 37) {
      EXPECT_EQ(jobs[i]->status.code(), StatusCode::kInternal);
    } else {
      EXPECT_TRUE(IsDoubled(*jobs[i], kWidth, 1.0f + i)) << i;
    }
  }
  EXPECT_LE(doubling_->runs, 1 + 12);  // two halves six times
}

TEST_F(TensorSchedulerTest, OneBadJobOfVaryingShapesCostsFewRuns) {
  MakeEcho(signature::ElementType::kBytes, {{1, -1}, {1, 1}}, 64);
  const std::byte bad{'!'};
  echo_->fails = [&](std::span<const signature::TensorData> inputs) {
    return std::ranges::find(inputs[0].bytes, bad) != inputs[0].bytes.end();
  };
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 0; i < 32; ++i) {
    auto job = std::make_unique<TestTensorJob>(1);
    job->AddInput({2, 1}, BytesOf({std::string(i % 5, 'x'), i == 11 ? "!" : std::to_string(i)}));
    job->rows = 2;
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    jobs.push_back(std::move(job));
  }
  RunAll();
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(jobs[i]->status.ok(), i != 11) << i;
    if (i != 11) {
      EXPECT_EQ(jobs[i]->values[0], jobs[i]->memory[0]) << i;
    }
  }
  EXPECT_LE(echo_->runs, 1 + 10);
}

TEST_F(TensorSchedulerTest, ValuesThatNoRunTakesAreRefusedBeforeTheyWait) {
  MakeDoubling(64);
  const auto good = Submit(2, 1);
  const auto bad = RowsJob(1, kWidth, 2e6f);
  const Status refused = scheduler_->Submit(bad.get());
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.field(), "x");
  EXPECT_EQ(scheduler_->queued_rows(), 2);
  RunAll();
  EXPECT_TRUE(IsDoubled(*good, kWidth, 1));
  EXPECT_EQ(doubling_->runs, 1);
  EXPECT_EQ(bad->ends, 0);
}

TEST_F(TensorSchedulerTest, ALargeJobFailsOnce) {
  MakeDoubling(8);
  const auto bad = Submit(30, -29.5f);  // all but the last rows
  const auto good = Submit(30, 1);
  RunAll();
  EXPECT_FALSE(bad->status.ok());
  EXPECT_EQ(bad->ends, 1);
  EXPECT_TRUE(IsDoubled(*good, kWidth, 1));
}

TEST_F(TensorSchedulerTest, ExceptionsAreFailures) {
  MakeDoubling(8);
  doubling_->before_run = [] { throw std::bad_alloc(); };
  const auto job = Submit(1, 1);
  RunAll();
  EXPECT_EQ(job->status.code(), StatusCode::kResourceExhausted);
  doubling_->before_run = nullptr;
  const auto next = Submit(1, 1);
  RunAll();
  EXPECT_TRUE(IsDoubled(*next, kWidth, 1));
}

TEST_F(TensorSchedulerTest, DeadRowsOfTheRingAreClosedUp) {
  MakeDoubling(64);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 0; i < 20; ++i) {
    auto job = RowsJob(1 + i % 3, kWidth, 10.0f * i);
    job->context.cancel = std::make_shared<CancelToken>();
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    if (i % 2 == 0) job->context.cancel->Cancel();
    jobs.push_back(std::move(job));
  }
  uint64_t live = 0;
  for (int i = 1; i < 20; i += 2) live += jobs[i]->rows;
  RunAll();
  EXPECT_EQ(doubling_->rows_run, live);
  for (int i = 0; i < 20; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(jobs[i]->status.code(), StatusCode::kCancelled);
    } else {
      EXPECT_TRUE(IsDoubled(*jobs[i], kWidth, 10.0f * i)) << i;
    }
  }
}

TEST_F(TensorSchedulerTest, ExpiredJobsAreAnsweredWithoutARun) {
  Clock::time_point now{std::chrono::hours(1)};
  options_.now = [&now] { return now; };
  MakeDoubling(16);
  auto small = RowsJob(1, kWidth, 1), large = RowsJob(50, kWidth, 1);
  for (TestTensorJob* job : {small.get(), large.get()}) {
    job->context.deadline = now + std::chrono::milliseconds(5);
    ASSERT_TRUE(scheduler_->Submit(job).ok());
  }
  now += std::chrono::milliseconds(6);
  RunAll();
  EXPECT_EQ(small->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(large->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(doubling_->runs, 0);
  EXPECT_EQ(scheduler_->queued_rows(), 0);
}

TEST_F(TensorSchedulerTest, InteractiveGoesBeforeBulk) {
  MakeDoubling(8);
  const auto bulk = Submit(40, 100, Priority::kBulk);
  const auto interactive = Submit(1, 1);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(interactive->ends, 1);
  RunAll();
  EXPECT_TRUE(IsDoubled(*bulk, kWidth, 100));
}

TEST_F(TensorSchedulerTest, TheQueueIsBounded) {
  options_.max_queued_rows = 40;
  MakeDoubling(8);
  auto over = RowsJob(41, kWidth, 1);
  const Status too_large = scheduler_->Submit(over.get());
  EXPECT_EQ(too_large.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(too_large.message(), HasSubstr("41 rows"));
  EXPECT_THAT(too_large.message(), HasSubstr("--max-queued-tensor-rows"));
  const auto first = Submit(30, 1);
  auto second = RowsJob(11, kWidth, 1);
  const Status full = scheduler_->Submit(second.get());
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(full.retry_after_s(), 1);
  EXPECT_EQ(second->ends, 0);
  RunAll();
  EXPECT_TRUE(scheduler_->Submit(second.get()).ok());
  RunAll();
  EXPECT_TRUE(IsDoubled(*second, kWidth, 1));
}

TEST_F(TensorSchedulerTest, AFullQueueShutsNoOtherClientOut) {
  options_.max_queued_rows = 160;
  MakeDoubling(8);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  const auto submit = [&](uint64_t client) {
    auto job = RowsJob(4, kWidth, 1);
    job->context.client = client;
    const bool taken = scheduler_->Submit(job.get()).ok();
    if (taken) jobs.push_back(std::move(job));
    return taken;
  };
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(submit(1));
  EXPECT_FALSE(submit(1));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(submit(2)) << i;  // 20 rows
  EXPECT_FALSE(submit(2));
  EXPECT_FALSE(submit(1));
  RunAll();
  for (const auto& job : jobs) EXPECT_TRUE(IsDoubled(*job, kWidth, 1));
}

TEST_F(TensorSchedulerTest, ResultsInPiecesAreAdmitted) {
  MakeDoubling(8);
  const auto budget = std::make_shared<ByteBudget>(1000);
  auto job = RowsJob(40, kWidth, 1);  // 640 bytes of y, 160 of sums
  job->context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
  EXPECT_EQ(budget->used(), 800);
  auto refused = RowsJob(40, kWidth, 1);
  refused->context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  EXPECT_EQ(scheduler_->Submit(refused.get()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget->used(), 800);
  EXPECT_EQ(scheduler_->queued_rows(), 40);
  RunAll();
  EXPECT_TRUE(IsDoubled(*job, kWidth, 1));
  EXPECT_EQ(budget->used(), 0);
}

TEST_F(TensorSchedulerTest, JobsCanBeUsedAgain) {
  MakeDoubling(16);
  auto job = RowsJob(30, kWidth, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    RunAll();
    EXPECT_TRUE(IsDoubled(*job, kWidth, 1));
    EXPECT_EQ(job->ends, i + 1);
  }
}

TEST_F(TensorSchedulerTest, CheckFiniteFailsTheRowsJob) {
  options_.check_finite = true;
  MakeDoubling(16);
  const auto good = Submit(1, 1);
  const auto bad = RowsJob(1, kWidth, 1);
  const float large = 3e38f;  // doubled: infinity
  std::memcpy(bad->memory[0].data() + sizeof(float), &large, sizeof(large));
  ASSERT_TRUE(scheduler_->Submit(bad.get()).ok());
  RunAll();
  EXPECT_TRUE(IsDoubled(*good, kWidth, 1));
  EXPECT_THAT(bad->status.message(), HasSubstr("finite"));
}

TEST_F(TensorSchedulerTest, RowsOfOneShapeShareABatch) {
  MakeEcho(signature::ElementType::kInt32, {{1, -1}, {0, -1}}, 8);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (const int64_t width : {2, 3, 2, 0, 2}) {
    auto job = std::make_unique<TestTensorJob>(1);
    std::vector<int32_t> x(2 * width, static_cast<int32_t>(10 * jobs.size()));
    job->AddInput({2, width}, x);
    job->rows = 2;
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    jobs.push_back(std::move(job));
  }
  EXPECT_TRUE(scheduler_->Step());  // the three of width 2
  EXPECT_EQ(jobs[0]->ends + jobs[2]->ends + jobs[4]->ends, 3);
  EXPECT_EQ(jobs[1]->ends + jobs[3]->ends, 0);
  RunAll();
  EXPECT_EQ(echo_->runs, 3);
  for (size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_TRUE(jobs[i]->status.ok()) << jobs[i]->status.ToString();
    EXPECT_EQ(jobs[i]->shapes[0], jobs[i]->inputs[0].shape);
    EXPECT_EQ(jobs[i]->values[0], jobs[i]->memory[0]);
  }
}

TEST_F(TensorSchedulerTest, JobsOfVaryingShapesAreSplitToo) {
  MakeEcho(signature::ElementType::kInt32, {{1, -1}, {1, -1}}, 8);
  auto job = std::make_unique<TestTensorJob>(1);
  std::vector<int32_t> x(20 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i);
  job->AddInput({20, 3}, x);
  job->rows = 20;
  ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
  RunAll();
  EXPECT_EQ(echo_->runs, 3);
  ASSERT_TRUE(job->status.ok());
  EXPECT_EQ(job->Values<int32_t>(0), x);
  EXPECT_THAT(job->shapes[0], ElementsAre(20, 3));
}

TEST_F(TensorSchedulerTest, Strings) {
  MakeEcho(signature::ElementType::kBytes, {{1, -1}, {2, 2}}, 4);
  const auto job_of = [&](int64_t rows, const std::vector<std::string>& strings) {
    auto job = std::make_unique<TestTensorJob>(1);
    job->AddInput({rows, 2}, BytesOf(strings));
    job->rows = static_cast<uint32_t>(rows);
    return job;
  };
  const auto one = job_of(1, {"", "a longer one"});
  const auto two = job_of(2, {"x", "yy", std::string(1000, 'z'), ""});
  ASSERT_TRUE(scheduler_->Submit(one.get()).ok());
  ASSERT_TRUE(scheduler_->Submit(two.get()).ok());
  RunAll();
  EXPECT_EQ(echo_->runs, 1);
  EXPECT_EQ(one->values[0], one->memory[0]);
  EXPECT_EQ(two->values[0], two->memory[0]);
  EXPECT_THAT(two->shapes[0], ElementsAre(2, 2));
  const auto large = job_of(5, std::vector<std::string>(10, "s"));
  const Status refused = scheduler_->Submit(large.get());
  EXPECT_EQ(refused.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(refused.message(), HasSubstr("takes 4 at once"));
}

// Whatever jobs wait together, each is given back its own strings: jobs of more rows than their
// share of a batch, up to a whole batch, strings of unlike lengths, both classes, runs so slow that
// bulk batches are held short.
TEST_F(TensorSchedulerTest, EveryJobGetsItsOwnStrings) {
  constexpr uint32_t kRows = 16;
  Clock::time_point now{std::chrono::seconds(1)};
  options_.now = [&] { return now; };
  MakeEcho(signature::ElementType::kBytes, {{1, -1}, {2, 2}}, kRows);
  echo_->before_run = [&](int64_t rows) {
    EXPECT_LE(rows, kRows);
    now += rows * std::chrono::milliseconds(10);
  };
  std::mt19937 random(3);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int round = 0; round < 60; ++round) {
    for (size_t n = 1 + random() % 12; n > 0; --n) {
      auto job = std::make_unique<TestTensorJob>(1);
      job->rows = 1 + static_cast<uint32_t>(random() % kRows);
      if (random() % 2 == 0) job->context.priority = Priority::kBulk;
      std::vector<std::string> strings;
      for (uint32_t i = 0; i < 2 * job->rows; ++i) {
        const size_t size = random() % 4 == 0 ? random() % 3000 : random() % 4;
        strings.emplace_back(size, static_cast<char>('a' + random() % 26));
      }
      job->AddInput({job->rows, 2}, BytesOf(strings));
      ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
      jobs.push_back(std::move(job));
    }
    scheduler_->Step();
  }
  RunAll();
  for (const auto& job : jobs) {
    ASSERT_EQ(job->ends, 1);
    ASSERT_TRUE(job->status.ok()) << job->status.ToString();
    ASSERT_EQ(job->values[0], job->memory[0]);
    ASSERT_EQ(job->shapes[0], job->inputs[0].shape);
  }
  EXPECT_LT(echo_->runs, static_cast<int>(jobs.size()));
}

TEST_F(TensorSchedulerTest, WithoutBatchesARequestIsARun) {
  MakeEcho(signature::ElementType::kFp32, {{1, -1}, {1, -1}}, 0);
  std::vector<std::unique_ptr<TestTensorJob>> jobs;
  for (int i = 1; i < 4; ++i) {
    auto job = std::make_unique<TestTensorJob>(1);
    job->AddInput({i, 2}, std::vector<float>(2 * i, 0.5f));
    ASSERT_TRUE(scheduler_->Submit(job.get()).ok());
    jobs.push_back(std::move(job));
  }
  RunAll();
  EXPECT_EQ(echo_->runs, 3);
  for (const auto& job : jobs) {
    EXPECT_EQ(job->shapes[0], job->inputs[0].shape);
    EXPECT_EQ(job->values[0], job->memory[0]);
  }
}

TEST_F(TensorSchedulerTest, StatisticsCountRequestsRowsAndRuns) {
  MakeDoubling(16);
  const auto a = Submit(2, 1), b = Submit(1, 1);
  RunAll();
  const auto c = Submit(20, 1);
  RunAll();
  const TensorStatistics statistics = scheduler_->Statistics();
  EXPECT_EQ(statistics.success.count, 3u);
  EXPECT_EQ(statistics.queue.count, 3u);
  EXPECT_EQ(statistics.rows, 23u);
  EXPECT_EQ(statistics.runs, 3u);
  EXPECT_EQ(statistics.infer.count, 3u);
  EXPECT_GT(statistics.infer.ns, 0u);
  ASSERT_EQ(statistics.batches.size(), 3u);
  EXPECT_EQ(statistics.batches.at(3).infer.count, 1u);
  EXPECT_EQ(statistics.batches.at(16).infer.count, 1u);
  EXPECT_EQ(statistics.batches.at(4).infer.count, 1u);
}

TEST_F(TensorSchedulerTest, StopFinishesWhatWasTaken) {
  MakeDoubling(8);
  const auto job = Submit(30, 1);
  scheduler_->Stop();
  EXPECT_TRUE(IsDoubled(*job, kWidth, 1));
  auto late = RowsJob(1, kWidth, 1);
  EXPECT_EQ(scheduler_->Submit(late.get()).code(), StatusCode::kUnavailable);
}

TEST_F(TensorSchedulerTest, BatchBytesAreTold) {
  options_.ring_bytes_max = 1 << 20;
  const signature::TensorSignature signature = DoublingRunner::Signature(kWidth, 64);
  // Eight of the ring and one of the runner: x and y of 1024 bytes, sums of 256.
  EXPECT_EQ(TensorScheduler::BatchBytes(signature, 1, options_), 9u * 2304);
  options_.ring_bytes_max = 5 * 2304;
  EXPECT_EQ(TensorScheduler::BatchBytes(signature, 1, options_), 5u * 2304);
  options_.ring_bytes_max = 2304;
  EXPECT_EQ(TensorScheduler::BatchBytes(signature, 1, options_), 1u * 2304);
}

// With threads: every row carries its own value; some leave, some fail, some lead.
TEST(TensorSchedulerThreads, NothingIsLostOrMixedUp) {
  constexpr uint32_t kWidth = 5;
  constexpr int kThreads = 4, kJobs = 2000;
  metrics::Metrics metrics;
  std::vector<std::unique_ptr<signature::TensorRunner>> runners;
  for (int i = 0; i < 2; ++i) runners.push_back(std::make_unique<DoublingRunner>(kWidth));
  auto scheduler = TensorScheduler::Make(DoublingRunner::Signature(kWidth, 32), std::move(runners),
                                         {.lead_s_max = 1, .model = "m"}, &metrics);
  ASSERT_TRUE(scheduler.ok());
  std::atomic<int> wrong{0};
  const auto produce = [&](int thread) {
    std::mt19937 random(thread);
    std::vector<std::unique_ptr<TestTensorJob>> window(16);
    std::vector<float> firsts(window.size());
    const auto check = [&](size_t at) {
      if (window[at] == nullptr) return;
      TestTensorJob& job = *window[at];
      job.Await();
      const bool fails = firsts[at] < 0;
      const bool left = job.context.cancelled() && job.status.code() == StatusCode::kCancelled;
      if (fails ? job.status.ok() : !left && !IsDoubled(job, kWidth, firsts[at])) ++wrong;
      if (job.ends != 1) ++wrong;
    };
    for (int i = 0; i < kJobs; ++i) {
      const size_t at = i % window.size();
      check(at);
      const uint32_t rows = random() % 10 == 0 ? 1 + random() % 100 : 1 + random() % 5;
      firsts[at] = random() % 50 == 0 ? -1000000 : static_cast<float>(random() % 100000);
      window[at] = RowsJob(rows, kWidth, firsts[at]);
      TestTensorJob& job = *window[at];
      job.may_lead = random() % 2 == 0;
      job.context.priority = random() % 4 == 0 ? Priority::kBulk : Priority::kInteractive;
      job.context.cancel = std::make_shared<CancelToken>();
      job.context.client = random() % 4;
      job.context.client_weight = 1 + static_cast<uint32_t>(job.context.client);
      if (!(*scheduler)->Submit(&job).ok()) ++wrong;
      if (random() % 20 == 0) job.context.cancel->Cancel();
    }
    for (size_t at = 0; at < window.size(); ++at) check(at);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(produce, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ((*scheduler)->queued_rows(), 0);
  (*scheduler)->Stop();
}

}  // namespace
}  // namespace penstock::sched
