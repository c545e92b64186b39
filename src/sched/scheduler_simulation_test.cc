// The scheduler in manual mode, on a clock and a model of the test: random work by seed, and the
// bounds it promises (encoder_scheduler.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "sched/encoder_scheduler.h"

namespace penstock::sched {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;

// A job as the test knows it. All its ids are its index.
struct Known {
  std::vector<int32_t> lengths;
  Priority priority = Priority::kInteractive;
  program::EncoderOutput output = program::EncoderOutput::kPooled;
  std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
  Clock::time_point deadline = Clock::time_point::max();
  bool poison = false;  // a batch with it fails
  bool nan = false;     // its rows give NaN
  int answers = 0;
  Status status;
  size_t rows_run = 0;
  Clock::time_point submitted, answered;
};

struct Ran {
  Priority priority;
  std::vector<int32_t> owners;   // by row
  std::vector<int32_t> lengths;  // by row
};

class SchedulerSimulation : public testing::Test {
 protected:
  class Runner final : public program::EncoderRunner {
   public:
    explicit Runner(SchedulerSimulation* test) : test_(test) {}
    int32_t OutputWidth(program::EncoderOutput) const override { return 2; }
    Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
               std::span<float* const> sinks) override {
      return test_->RunModel(batch, output, sinks);
    }

   private:
    SchedulerSimulation* const test_;
  };

  void Start(EncoderSchedulerOptions options) {
    options.manual = true;
    options.now = [this] { return now_; };
    options.model = "m";
    options_ = options;
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(std::make_unique<Runner>(this));
    scheduler_ = std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  }

  // [index of the job, length] a sequence, [index, position in it] a token.
  Status RunModel(const program::PackedBatch& batch, program::EncoderOutput output,
                  std::span<float* const> sinks) {
    Ran ran;
    for (size_t s = 0; s < batch.sequences(); ++s) {
      const auto first = static_cast<size_t>(batch.offsets[s]);
      ran.owners.push_back(batch.ids[first]);
      ran.lengths.push_back(batch.length(s));
      Known& job = jobs_[static_cast<size_t>(batch.ids[first])];
      ran.priority = job.priority;
      EXPECT_EQ(job.output, output);
      EXPECT_FALSE(job.cancel->cancelled()) << "a cancelled row reached the model";
      EXPECT_GT(job.deadline, now_) << "an expired row reached the model";
    }
    for (const int32_t owner : ran.owners) {
      EXPECT_EQ(jobs_[static_cast<size_t>(owner)].priority, ran.priority);
    }
    ran_.push_back(ran);
    now_ += microseconds(100 + 10 * batch.tokens());
    if (during_run_) during_run_();
    for (const int32_t owner : ran.owners) {
      if (jobs_[static_cast<size_t>(owner)].poison) return Status::Internal("poisoned");
    }
    for (size_t s = 0; s < batch.sequences(); ++s) {
      Known& job = jobs_[static_cast<size_t>(ran.owners[s])];
      ++job.rows_run;
      const size_t values = output == program::EncoderOutput::kTokens ? batch.length(s) : 1;
      for (size_t i = 0; i < values; ++i) {
        sinks[s][2 * i] =
            job.nan ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(ran.owners[s]);
        sinks[s][2 * i + 1] =
            static_cast<float>(output == program::EncoderOutput::kTokens ? i : batch.length(s));
      }
    }
    return Status::Ok();
  }

  size_t Submit(Known known) {
    const size_t index = jobs_.size();
    known.submitted = now_;
    jobs_.push_back(std::move(known));
    auto job = std::make_unique<EncodeJob>();
    job->lengths = jobs_[index].lengths;
    size_t tokens = 0;
    for (const int32_t length : job->lengths) tokens += static_cast<size_t>(length);
    job->ids.assign(tokens, static_cast<int32_t>(index));
    job->output = jobs_[index].output;
    job->context.priority = jobs_[index].priority;
    job->context.cancel = jobs_[index].cancel;
    job->context.deadline = jobs_[index].deadline;
    job->context.client = index % clients_;
    job->context.client_weight = 1 + static_cast<uint32_t>(job->context.client);
    job->done = [this, index](std::unique_ptr<EncodeJob> back, Status status) {
      Answer(index, *back, std::move(status));
    };
    refusal_ = scheduler_->Submit(std::move(job));
    if (!refusal_.ok()) jobs_[index].submitted = {};
    return index;
  }

  void Answer(size_t index, const EncodeJob& back, Status status) {
    Known& job = jobs_[index];
    ++job.answers;
    job.status = std::move(status);
    job.answered = now_;
    if (!job.status.ok()) return;
    EXPECT_EQ(job.rows_run, job.lengths.size());
    size_t value = 0;
    for (const int32_t length : job.lengths) {
      const int32_t values = job.output == program::EncoderOutput::kTokens ? length : 1;
      for (int32_t i = 0; i < values; ++i, value += 2) {
        ASSERT_EQ(back.values[value], static_cast<float>(index));
        ASSERT_EQ(back.values[value + 1],
                  static_cast<float>(job.output == program::EncoderOutput::kTokens ? i : length));
      }
    }
    EXPECT_EQ(value, back.values.size());
  }

  void RunAll() {
    while (scheduler_->Step()) {
    }
  }
  Known& job(size_t index) { return jobs_[index]; }

  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
  metrics::Metrics metrics_;
  EncoderSchedulerOptions options_;
  std::deque<Known> jobs_;
  std::vector<Ran> ran_;
  std::function<void()> during_run_;
  size_t clients_ = 1;
  Status refusal_;
  std::unique_ptr<EncoderScheduler> scheduler_;
};

// Everything at once, by seed.
class RandomSchedule : public SchedulerSimulation, public testing::WithParamInterface<int> {
 protected:
  Known Draw() {
    Known known;
    const int kind = Roll(10);
    const size_t rows = kind < 6 ? 1 + Roll(2) : kind < 9 ? 1 + Roll(20) : 100 + Roll(200);
    for (size_t row = 0; row < rows; ++row) {
      known.lengths.push_back(Roll(40) == 0 ? 65 + Roll(100) : 1 + Roll(20));
    }
    if (Roll(3) == 0) known.priority = Priority::kBulk;
    known.output = Roll(8) == 0   ? program::EncoderOutput::kTokens
                   : Roll(4) == 0 ? program::EncoderOutput::kLogits
                                  : program::EncoderOutput::kPooled;
    if (Roll(6) == 0) known.deadline = now_ + microseconds(Roll(20'000));
    known.poison = Roll(25) == 0;
    known.nan = !known.poison && Roll(25) == 0;
    return known;
  }
  int Roll(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }
  void Cancel() {
    if (jobs_.empty() || Roll(4) != 0) return;
    const size_t recent = std::min<size_t>(jobs_.size(), 8);
    jobs_[jobs_.size() - 1 - static_cast<size_t>(Roll(static_cast<int>(recent)))].cancel->Cancel();
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomSchedule, EveryJobOnceEveryRowRightEveryBatchWithinItsLimits) {
  Start({.max_batch_tokens = 64,
         .max_batch_rows = 16,
         .times = {.fixed_s = 1e-4, .token_s = 1e-5, .work_s = 1e-6},
         .length_max = 64,
         .max_queued_tokens = 6000,
         .max_queued_rows = 700});
  clients_ = 1 + static_cast<size_t>(GetParam() % 5);
  // Work that comes, and leaves, while the model is at it.
  during_run_ = [this] {
    if (Roll(3) == 0) Submit(Draw());
    Cancel();
  };
  size_t refused = 0;
  for (int i = 0; i < 600; ++i) {
    for (int n = Roll(4); n > 0; --n) {
      Submit(Draw());
      refused += !refusal_.ok();
      if (refusal_.ok()) continue;
      EXPECT_TRUE(refusal_.code() == StatusCode::kResourceExhausted ||
                  refusal_.code() == StatusCode::kPayloadTooLarge);
    }
    Cancel();
    if (Roll(5) == 0) now_ += milliseconds(Roll(30));
    if (Roll(5) > 0) scheduler_->Step();
    // If there are several clients, those with less than others may go over it by an eighth.
    EXPECT_LE(scheduler_->queued_tokens(), clients_ == 1 ? 6000 : 6750);
    EXPECT_LE(scheduler_->queued_rows(), clients_ == 1 ? 700 : 787);
  }
  during_run_ = nullptr;
  scheduler_->Stop();
  Submit(Draw());
  EXPECT_EQ(refusal_.code(), StatusCode::kUnavailable);
  EXPECT_EQ(scheduler_->queued_tokens(), 0);
  EXPECT_EQ(scheduler_->queued_rows(), 0);

  std::array<size_t, 5> seen{};
  for (const Known& known : jobs_) {
    const bool taken = known.submitted != Clock::time_point();
    EXPECT_EQ(known.answers, taken ? 1 : 0);
    if (!taken) continue;
    if (known.status.ok()) {
      ++seen[0];
      EXPECT_FALSE(known.poison || known.nan);
    } else if (known.status.code() == StatusCode::kCancelled) {
      ++seen[1];
      EXPECT_TRUE(known.cancel->cancelled());
    } else if (known.status.code() == StatusCode::kDeadlineExceeded) {
      ++seen[2];
      EXPECT_LE(known.deadline, known.answered);
    } else {
      EXPECT_TRUE(known.poison || known.nan) << known.status.ToString();
      ++seen[known.poison ? 3 : 4];
    }
  }
  for (const size_t count : seen) EXPECT_GT(count, 0u);
  const BatchLimits& limits = scheduler_->limits();
  for (const Ran& ran : ran_) {
    uint64_t tokens = 0, work = 0;
    for (const int32_t length : ran.lengths) {
      tokens += static_cast<uint64_t>(length);
      work += static_cast<uint64_t>(length) * static_cast<uint64_t>(length);
    }
    if (ran.lengths.size() == 1) continue;  // may be over the limits, alone
    EXPECT_LE(tokens, limits.tokens);
    EXPECT_LE(ran.lengths.size(), limits.rows);
    // Rounded down for each job in a ring: at most one 2047th of the limit each.
    EXPECT_LE(static_cast<double>(work), static_cast<double>(limits.work) * (1 + 16.0 / 2047));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, testing::Range(0, 40));

TEST_F(SchedulerSimulation, InteractiveGoesFirstAndBulkAgesIn) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 16, .bulk_every = 4});
  const size_t bulk =
      Submit({.lengths = std::vector<int32_t>(400, 16), .priority = Priority::kBulk});
  // There is always interactive work: more of it comes with each batch.
  during_run_ = [this] {
    if (jobs_.size() < 500) {
      for (int i = 0; i < 5; ++i) Submit({.lengths = {16}});
    }
  };
  for (int i = 0; i < 5; ++i) Submit({.lengths = {16}});
  RunAll();
  EXPECT_TRUE(job(bulk).status.ok());
  // While interactive work waits: exactly one batch in five is bulk's.
  int streak = 0;
  size_t aged = 0;
  for (size_t i = 0; i < 90; ++i) {
    if (ran_[i].priority == Priority::kInteractive) {
      EXPECT_LE(++streak, 4);
    } else {
      EXPECT_EQ(streak, 4);
      streak = 0;
      ++aged;
    }
  }
  EXPECT_EQ(aged, 18u);
}

TEST_F(SchedulerSimulation, AnInteractiveJobWaitsForTheBatchUnderWayOnly) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 16});
  Submit({.lengths = std::vector<int32_t>(500, 16), .priority = Priority::kBulk});
  std::vector<size_t> interactive;
  during_run_ = [&] {
    if (ran_.size() % 7 == 0 && ran_.back().priority == Priority::kBulk) {
      interactive.push_back(Submit({.lengths = {8}}));
    }
  };
  RunAll();
  ASSERT_GT(interactive.size(), 10u);
  // Submitted at the end of a batch; its own takes 100 + 80 us.
  for (const size_t i : interactive) {
    EXPECT_EQ(job(i).answered - job(i).submitted, microseconds(180));
  }
}

TEST_F(SchedulerSimulation, WaitingJobsGetEvenSharesAndNobodyStarves) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 16});
  const size_t large = Submit({.lengths = std::vector<int32_t>(1000, 4)});
  std::vector<size_t> small;
  for (int i = 0; i < 3; ++i) small.push_back(Submit({.lengths = {4, 4, 4, 4}}));
  ASSERT_TRUE(scheduler_->Step());
  for (const size_t i : small) EXPECT_EQ(job(i).answers, 1);
  EXPECT_EQ(ran_[0].owners.size(), 16u);  // and the rest of the batch was not left empty
  EXPECT_EQ(job(large).rows_run, 4u);
  // A row over the limits is run alone although small jobs keep coming.
  const size_t outlier = Submit({.lengths = {200}});
  during_run_ = [this] {
    if (ran_.size() < 500) Submit({.lengths = {4}});
  };
  RunAll();
  EXPECT_TRUE(job(outlier).status.ok());
  EXPECT_TRUE(job(large).status.ok());
  const auto alone = std::find_if(ran_.begin(), ran_.end(), [&](const Ran& ran) {
    return ran.owners[0] == static_cast<int32_t>(outlier);
  });
  ASSERT_NE(alone, ran_.end());
  EXPECT_EQ(alone->owners.size(), 1u);
}

TEST_F(SchedulerSimulation, AFullQueueSaysWhenToComeBack) {
  Start({.max_batch_tokens = 100, .max_queued_tokens = 3000, .max_queued_rows = 100});
  Submit({.lengths = {100}});
  Submit({.lengths = {100}});
  RunAll();  // 1100 us a batch of 100 tokens: 90909 tokens and 909 rows a second
  Submit({.lengths = {3000}});
  Submit({.lengths = {2000}});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal_.retry_after_s(), 1);
  EXPECT_THAT(refusal_.message(), HasSubstr("--max-queued-tokens"));
  Submit({.lengths = {3001}});
  EXPECT_EQ(refusal_.code(), StatusCode::kPayloadTooLarge);
  Submit({.lengths = std::vector<int32_t>(101, 1)});
  EXPECT_EQ(refusal_.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(refusal_.message(), HasSubstr("--max-queued-rows"));
  RunAll();
  Submit({.lengths = std::vector<int32_t>(90, 1)});
  ASSERT_TRUE(refusal_.ok());
  Submit({.lengths = std::vector<int32_t>(11, 1)});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  RunAll();
  EXPECT_THAT(metrics_.Render(),
              HasSubstr(R"(penstock_dropped_total{model="m",reason="queue_full"} 114)"));
}

TEST_F(SchedulerSimulation, RetryAfterComesFromTheDrainRate) {
  Start({.max_batch_tokens = 100, .max_queued_tokens = 1'000'000});
  during_run_ = [this] { now_ += milliseconds(10'000); };  // 10 tokens a second
  Submit({.lengths = {100}});
  RunAll();
  during_run_ = nullptr;
  Submit({.lengths = {999'900}});
  Submit({.lengths = {350}});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal_.retry_after_s(), 26);  // 250 over the limit, at 9.99 a second
  Submit({.lengths = {10'000}});
  EXPECT_EQ(refusal_.retry_after_s(), 60);  // more is not promised
  scheduler_->Stop();
}

TEST_F(SchedulerSimulation, ExpiredWorkInABacklogIsToldWhenSomebodySubmits) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 16});
  Submit({.lengths = std::vector<int32_t>(100, 4)});
  size_t expiring = 0;
  bool submitted = false;
  during_run_ = [&] {
    if (submitted) return;
    submitted = true;
    expiring = Submit({.lengths = {4}, .deadline = now_ + milliseconds(1)});
    now_ += milliseconds(25);
    Submit({.lengths = {4}});  // within the same batch
    EXPECT_EQ(job(expiring).answers, 1);
    EXPECT_EQ(job(expiring).status.code(), StatusCode::kDeadlineExceeded);
  };
  RunAll();
  EXPECT_TRUE(submitted);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr(R"(penstock_dropped_total{model="m",reason="expired"} 1)"));
}

TEST_F(SchedulerSimulation, LingersForMoreOnlyIfAskedTo) {
  Start({.max_batch_tokens = 64, .linger_us = 500});
  const size_t first = Submit({.lengths = {4}});
  EXPECT_FALSE(scheduler_->Step());
  now_ += microseconds(400);
  Submit({.lengths = {4}});
  EXPECT_FALSE(scheduler_->Step());
  now_ += microseconds(100);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(job(first).answers, 1);
  EXPECT_EQ(ran_[0].owners.size(), 2u);
  for (int i = 0; i < 16; ++i) Submit({.lengths = {4}});
  EXPECT_TRUE(scheduler_->Step());  // a full batch goes at once
}

TEST_F(SchedulerSimulation, LongRowsAreBoundedByTheirAttention) {
  // 32 rows of 32 tokens are 32768 of work; rows of 512 tokens cost 16 times as much each token.
  Start({.max_batch_tokens = 1024,
         .times = {.fixed_s = 1e-4, .token_s = 1e-5, .work_s = 1e-7},
         .length_max = 256});
  EXPECT_EQ(scheduler_->limits().work, 256u * 1024u);
  Submit({.lengths = std::vector<int32_t>(8, 512)});
  RunAll();
  for (const Ran& ran : ran_) EXPECT_EQ(ran.owners.size(), 1u);
  ran_.clear();
  Submit({.lengths = std::vector<int32_t>(64, 32)});
  RunAll();
  EXPECT_EQ(ran_.size(), 2u);
}

TEST_F(SchedulerSimulation, BulkMayFillThreeQuartersOfTheQueue) {
  Start({.max_batch_tokens = 64, .max_queued_tokens = 1000, .max_queued_rows = 100});
  // By rows.
  Submit({.lengths = std::vector<int32_t>(75, 1), .priority = Priority::kBulk});
  ASSERT_TRUE(refusal_.ok());
  Submit({.lengths = {1}, .priority = Priority::kBulk});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal_.message(),
            "the queue is full: 75 tokens in 75 sequences wait, the request has 1 tokens in 1 "
            "sequences, the limit of bulk requests is 750 tokens in 75 sequences (3/4 of "
            "--max-queued-tokens, --max-queued-rows)");
  const size_t interactive = Submit({.lengths = std::vector<int32_t>(25, 1)});
  EXPECT_TRUE(refusal_.ok());
  Submit({.lengths = {1}});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal_.message(), HasSubstr("the limit of interactive requests is 1000 tokens in "
                                            "100 sequences (--max-queued-tokens"));
  RunAll();
  EXPECT_TRUE(job(interactive).status.ok());
  // By tokens.
  Submit({.lengths = {700}, .priority = Priority::kBulk});
  ASSERT_TRUE(refusal_.ok());
  Submit({.lengths = {30, 21}, .priority = Priority::kBulk});
  EXPECT_THAT(
      refusal_.message(),
      HasSubstr("700 tokens in 1 sequences wait, the request has 51 tokens in 2 sequences"));
  Submit({.lengths = {50}, .priority = Priority::kBulk});
  EXPECT_TRUE(refusal_.ok());
  Submit({.lengths = {250}});
  EXPECT_TRUE(refusal_.ok());
  RunAll();
  // A job that alone is over its class's limit need not be sent again.
  Submit({.lengths = {751}, .priority = Priority::kBulk});
  EXPECT_EQ(refusal_.code(), StatusCode::kPayloadTooLarge);
  Submit({.lengths = {751}});
  EXPECT_TRUE(refusal_.ok());
  RunAll();
}

TEST_F(SchedulerSimulation, DeadRowsKeepNobodyOut) {
  Start({.max_batch_tokens = 64, .max_batch_rows = 16, .max_queued_rows = 8});
  std::vector<size_t> dead;
  for (int i = 0; i < 8; ++i) {
    dead.push_back(Submit({.lengths = {4}, .output = program::EncoderOutput::kPooled}));
    ASSERT_TRUE(refusal_.ok());
  }
  const size_t refused = Submit({.lengths = {4}});
  EXPECT_EQ(refusal_.code(), StatusCode::kResourceExhausted);
  for (const size_t i : dead) job(i).cancel->Cancel();
  now_ += milliseconds(25);
  const size_t live = Submit({.lengths = {4}});
  EXPECT_TRUE(refusal_.ok()) << refusal_.ToString();
  EXPECT_EQ(scheduler_->queued_rows(), 1);
  EXPECT_EQ(scheduler_->queued_tokens(), 4);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_queue_rows{model=\"m\",lane=\"interactive\"} 1\n"));
  scheduler_->Stop();  // answers them all the same
  for (const size_t i : dead) {
    EXPECT_EQ(job(i).answers, 1);
    EXPECT_EQ(job(i).status.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(job(refused).answers, 0);
  EXPECT_TRUE(job(live).status.ok());
  EXPECT_EQ(scheduler_->queued_rows(), 0);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_queue_rows{model=\"m\",lane=\"interactive\"} 0\n"));
}

// A model that takes 82 ms for a full batch, and what its batches took by class.
class BulkAndInteractive : public SchedulerSimulation {
 protected:
  static constexpr double kFixedS = 100e-6;
  static constexpr double kTokenS = 10e-6;
  void StartSlow(int32_t bulk_every) {
    Start({.max_batch_tokens = 8192,
           .max_batch_rows = 512,
           .times = {.fixed_s = kFixedS, .token_s = kTokenS, .work_s = 0},
           .bulk_every = bulk_every});
  }
  static double SecondsOf(const Ran& ran) {
    double tokens = 0;
    for (const int32_t length : ran.lengths) tokens += length;
    return kFixedS + kTokenS * tokens;
  }
  double SecondsOfClass(Priority priority) const {
    double seconds = 0;
    for (const Ran& ran : ran_) seconds += ran.priority == priority ? SecondsOf(ran) : 0;
    return seconds;
  }
  void SubmitBulk(size_t rows, int32_t length) {
    Submit({.lengths = std::vector<int32_t>(rows, length), .priority = Priority::kBulk});
    ASSERT_TRUE(refusal_.ok()) << refusal_.ToString();
  }
};

TEST_F(BulkAndInteractive, InteractiveWaitsForItsOwnBatchAndOneOfBulk) {
  StartSlow(8);
  std::mt19937 random(7);
  std::exponential_distribution<double> gap_s(100);   // a second
  for (int i = 0; i < 10; ++i) SubmitBulk(1000, 64);  // 6.4 s of work
  Clock::time_point next = now_;
  std::vector<size_t> interactive;
  const auto arrive = [&] {
    for (; next <= now_; next += microseconds(static_cast<int64_t>(gap_s(random) * 1e6))) {
      interactive.push_back(Submit({.lengths = {64}}));
      jobs_.back().submitted = next;
    }
  };
  during_run_ = arrive;
  while (SecondsOfClass(Priority::kBulk) < 6) {
    arrive();
    ASSERT_TRUE(scheduler_->Step());
  }
  during_run_ = nullptr;
  RunAll();
  double own_s = 0;
  for (const Ran& ran : ran_) {
    const double seconds = SecondsOf(ran);
    EXPECT_LE(seconds, 0.0251);
    if (ran.priority == Priority::kInteractive) own_s = std::max(own_s, seconds);
  }
  std::vector<double> latency_s;
  for (const size_t i : interactive) {
    latency_s.push_back(std::chrono::duration<double>(job(i).answered - job(i).submitted).count());
  }
  ASSERT_GT(latency_s.size(), 300u);
  std::sort(latency_s.begin(), latency_s.end());
  EXPECT_LE(latency_s[latency_s.size() * 95 / 100], own_s + 0.025);
  EXPECT_LE(latency_s.back(), own_s + 2 * 0.0251);
}

// Small bulk requests too, which would share batches of a ring.
TEST_F(BulkAndInteractive, SmallBulkJobsAreNotMadeALongBatch) {
  StartSlow(8);
  Submit({.lengths = {8}});
  for (int i = 0; i < 60; ++i) SubmitBulk(1, 128);  // 77 ms
  RunAll();
  ASSERT_GE(ran_.size(), 4u);
  for (const Ran& ran : ran_) EXPECT_LE(SecondsOf(ran), 0.0251);
  // Without interactive work a batch may be as long as it is efficient.
  now_ += std::chrono::seconds(2);
  ran_.clear();
  for (int i = 0; i < 60; ++i) SubmitBulk(1, 128);
  RunAll();
  EXPECT_EQ(ran_.size(), 1u);
}

class BulkShareOfTime : public BulkAndInteractive, public testing::WithParamInterface<int> {};

TEST_P(BulkShareOfTime, IsThatOfSecondsNotOfBatches) {
  StartSlow(GetParam());
  for (int i = 0; i < 10; ++i) SubmitBulk(1000, 64);
  // There is always interactive work, in short batches.
  during_run_ = [this] {
    for (int i = 0; i < 5; ++i) Submit({.lengths = {16}});
    now_ += microseconds(200);  // time outside the model counts as well
  };
  during_run_();
  ran_.clear();
  const Clock::time_point begin = now_;
  while (now_ - begin < std::chrono::seconds(20)) ASSERT_TRUE(scheduler_->Step());
  during_run_ = nullptr;
  const double bulk_s = SecondsOfClass(Priority::kBulk);
  const double share = bulk_s / (bulk_s + SecondsOfClass(Priority::kInteractive));
  const double wanted = 1.0 / (GetParam() + 1);
  EXPECT_GE(share, 0.85 * wanted);
  EXPECT_LE(share, 1.2 * wanted);
  scheduler_->Stop();
}

INSTANTIATE_TEST_SUITE_P(BulkEvery, BulkShareOfTime, testing::Values(4, 8, 20));

}  // namespace
}  // namespace penstock::sched
