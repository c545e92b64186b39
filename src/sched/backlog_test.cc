// The turns that jobs of a backlog take.
#include "sched/backlog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace penstock::sched {
namespace {

class BacklogTest : public testing::Test {
 protected:
  EncodeJob* Push(const std::vector<int32_t>& lengths, uint64_t client = 0, uint32_t weight = 1) {
    auto& job = jobs_.emplace_back(std::make_unique<EncodeJob>());
    job->context.client = client;
    job->context.client_weight = weight;
    job->lengths = lengths;
    size_t tokens = 0;
    for (const int32_t length : lengths) tokens += static_cast<size_t>(length);
    job->ids.resize(tokens);
    job->width = 1;
    job->values.resize(lengths.size());
    job->progress.rows_open = static_cast<uint32_t>(lengths.size());
    backlog_.Push(job.get());
    return job.get();
  }
  // How many rows each job gave to the next batch.
  std::map<EncodeJob*, size_t> Fill(const BatchLimits& limits) {
    batch_.Reserve(limits.tokens, limits.rows);
    batch_.Clear();
    EXPECT_EQ(backlog_.Fill(&batch_, limits, Clock::time_point(), [](const EncodeJob&) {}),
              nullptr);
    std::map<EncodeJob*, size_t> rows;
    batch_.ForEachSegment(
        [&](EncodeJob* job, size_t begin, size_t end) { rows[job] += end - begin; });
    return rows;
  }

  Backlog backlog_;
  EncodeBatch batch_;
  std::vector<std::unique_ptr<EncodeJob>> jobs_;
};

TEST_F(BacklogTest, ManySmallJobsDoNotWaitForALargeOne) {
  const BatchLimits limits{.tokens = 1024, .rows = 512};
  EncodeJob* const large = Push(std::vector<int32_t>(2048, 128));
  std::vector<EncodeJob*> small;
  for (int i = 0; i < 60; ++i) small.push_back(Push({128}));
  size_t batches = 0;
  size_t last_small = 0;
  size_t last_large = 0;
  while (!backlog_.empty()) {
    ++batches;
    for (const auto& [job, rows] : Fill(limits)) (job == large ? last_large : last_small) = batches;
  }
  // Eight rows a batch: 61 jobs have all had a turn after eight batches.
  EXPECT_LE(last_small, 8u);
  EXPECT_EQ(batches, last_large);
  EXPECT_LE(batches, 265u);
}

TEST_F(BacklogTest, SharesAreEvenAndNothingIsLeftEmpty) {
  EncodeJob* const a = Push(std::vector<int32_t>(100, 1));
  EncodeJob* const b = Push(std::vector<int32_t>(100, 1));
  EncodeJob* const c = Push({1});
  // Rows are the limit: a and b share what c does not need.
  auto rows = Fill({.tokens = 1000, .rows = 12});
  EXPECT_EQ(rows[a], 6u);
  EXPECT_EQ(rows[b], 5u);
  EXPECT_EQ(rows[c], 1u);
  // Tokens are. It is b's turn.
  rows = Fill({.tokens = 9, .rows = 500});
  EXPECT_EQ(rows[a], 4u);
  EXPECT_EQ(rows[b], 5u);
}

TEST_F(BacklogTest, AClientWithManyJobsDelaysNoOther) {
  const BatchLimits limits{.tokens = 1024, .rows = 512};
  for (int i = 0; i < 512; ++i) Push({128}, 1);
  Push(std::vector<int32_t>(2048, 128), 1);
  Fill(limits);
  for (uint64_t client = 2; client < 5; ++client) {
    EncodeJob* const single = Push({128}, client);
    EXPECT_EQ(Fill(limits)[single], 1u) << client;
    EXPECT_EQ(batch_.tokens(), 1024u);  // the rest is the other client's
  }
}

TEST_F(BacklogTest, ClientsGetTimeByWeightAndBatchesStayFull) {
  // Client 1 has many short texts, client 2 a few long ones, client 3 some of weight 2.
  BatchLimits limits{.tokens = 1000, .rows = 500};
  limits.times = {.fixed_s = 0.001, .token_s = 1e-5, .work_s = 1e-7};
  const auto seconds = [&](size_t length) {
    return 1e-5 * static_cast<double>(length) + 1e-7 * static_cast<double>(length * length);
  };
  std::map<uint64_t, double> given_s;
  for (int i = 0; i < 3000; ++i) Push({10}, 1);
  for (int i = 0; i < 20; ++i) Push(std::vector<int32_t>(20, 200), 2);
  for (int i = 0; i < 20; ++i) Push(std::vector<int32_t>(60, 50), 3, 2);
  for (int batch = 0; batch < 20; ++batch) {
    Fill(limits);
    EXPECT_GT(batch_.tokens(), 990u);  // no text of 10 tokens was left out
    for (size_t row = 0; row < batch_.rows(); ++row) {
      given_s[batch_.owner(row)->context.client] += seconds(batch_.length(row));
    }
  }
  // They differ by a text of 200 tokens.
  EXPECT_NEAR(given_s[1], given_s[2], seconds(200));
  EXPECT_NEAR(given_s[3], 2 * given_s[1], 2 * seconds(200));
}

TEST_F(BacklogTest, ATextThatDoesNotFitIsFirstInTheNextBatch) {
  const BatchLimits limits{.tokens = 100, .rows = 50};
  EncodeJob* const first = Push({60}, 1);
  EncodeJob* const large = Push({70}, 1);
  EncodeJob* const next = Push({30}, 1);
  EncodeJob* const other = Push({90}, 2);
  auto rows = Fill(limits);
  EXPECT_EQ(rows, (std::map<EncodeJob*, size_t>{{first, 1}, {next, 1}}));
  rows = Fill(limits);
  EXPECT_EQ(rows, (std::map<EncodeJob*, size_t>{{other, 1}}));
  rows = Fill(limits);
  EXPECT_EQ(rows, (std::map<EncodeJob*, size_t>{{large, 1}}));
  EXPECT_TRUE(backlog_.empty());
}

TEST_F(BacklogTest, DeadJobsOfAllClientsAreFound) {
  std::vector<EncodeJob*> pushed;
  for (int i = 0; i < 300; ++i) pushed.push_back(Push({5}, static_cast<uint64_t>(i % 7)));
  const auto is_dead = [&](const EncodeJob& job) { return job.progress.failed.load(); };
  for (size_t i = 0; i < pushed.size(); i += 2) pushed[i]->progress.failed = true;
  size_t found = 0;
  for (EncodeJob* dead = backlog_.Sweep(is_dead, SIZE_MAX); dead != nullptr;
       dead = dead->progress.next) {
    EXPECT_TRUE(is_dead(*dead));
    ++found;
  }
  EXPECT_EQ(found, 150u);
  // Before a batch only the first jobs of each client are looked at.
  for (size_t i = 1; i < pushed.size(); i += 2) {
    if (i > 150) pushed[i]->progress.failed = true;
  }
  EXPECT_EQ(backlog_.Sweep(is_dead, 70), nullptr);
  // Those behind them give no rows to a batch either, and are found by the next sweep.
  size_t left = 0;
  while (const size_t filled = Fill({.tokens = 64, .rows = 64}).size()) left += filled;
  EXPECT_EQ(left, 75u);
  for (EncodeJob* dead = backlog_.Sweep(is_dead, 7); dead != nullptr; dead = dead->progress.next) {
    ++found;
  }
  EXPECT_EQ(found, 225u);
  EXPECT_TRUE(backlog_.empty());
}

// More clients than FairShare has lines for, jobs of all sizes, texts that do not fit: every row
// goes once and in order.
TEST_F(BacklogTest, EveryRowGoesOnceWhateverClientsCome) {
  std::mt19937 random(5);
  BatchLimits limits{.tokens = 300, .rows = 40};
  std::map<EncodeJob*, size_t> given;
  size_t pushed = 0, all = 0;
  for (int round = 0; round < 400 || !backlog_.empty(); ++round) {
    for (size_t n = round < 400 ? random() % 5 : 0; n > 0; --n) {
      std::vector<int32_t> lengths(1 + random() % (random() % 6 == 0 ? 60 : 4));
      for (int32_t& length : lengths) length = 1 + static_cast<int32_t>(random() % 400);
      pushed += lengths.size();
      Push(lengths, random() % 600, 1 + static_cast<uint32_t>(random() % 4));
    }
    for (const auto& [job, rows] : Fill(limits)) {
      given[job] += rows;
      all += rows;
      ASSERT_EQ(job->progress.next_row, given[job]);
    }
    ASSERT_TRUE(batch_.rows() == 1 || batch_.tokens() <= limits.tokens);
    ASSERT_LE(batch_.rows(), limits.rows);
  }
  EXPECT_EQ(all, pushed);
}

TEST_F(BacklogTest, SecondsLimitABatch) {
  Push(std::vector<int32_t>(100, 10));
  BatchLimits limits{.tokens = 1000, .rows = 100};
  limits.times = {.fixed_s = 0.001, .token_s = 0.0001, .work_s = 0};
  limits.seconds = 0.0251;
  Fill(limits);
  EXPECT_EQ(batch_.tokens(), 240u);
}

// For any jobs and any limit: where any k of the rows fit in a batch, two rows of a job are at most
// ceil(jobs / k) + 1 batches apart.
class Turns : public BacklogTest, public testing::WithParamInterface<int> {};

TEST_P(Turns, NoJobWaitsLongerThanItsTurn) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto roll = [&](size_t from, size_t to) { return from + random() % (to - from + 1); };
  BatchLimits limits;
  limits.rows = static_cast<uint32_t>(roll(1, 40));
  limits.tokens = static_cast<uint32_t>(roll(20, 400));
  const size_t longest = roll(1, 2 * limits.tokens / 3);
  if (GetParam() % 3 == 1) limits.work = longest * longest * roll(1, 10);
  if (GetParam() % 3 == 2) {
    limits.times = {.fixed_s = 1, .token_s = 1, .work_s = 0.01};
    limits.seconds = static_cast<double>(roll(10, 400));
  }
  // Rows that fit, of the longest.
  size_t k = 1;
  while (k < limits.rows && (k + 1) * longest <= limits.tokens &&
         (k + 1) * longest * longest <= limits.work &&
         limits.SecondsFit((k + 1) * longest, (k + 1) * longest * longest)) {
    ++k;
  }
  struct Waiting {
    size_t since = 0;  // batch
    size_t jobs = 0;   // that waited then
  };
  std::map<EncodeJob*, Waiting> waiting;
  const auto push = [&](size_t batch) {
    std::vector<int32_t> lengths(roll(0, 3) == 0 ? roll(100, 400) : roll(1, 8));
    for (int32_t& length : lengths) length = static_cast<int32_t>(roll(1, longest));
    EncodeJob* const job = Push(lengths);
    waiting[job] = {batch, waiting.size() + 1};
  };
  const size_t jobs_max = roll(1, 120);
  for (size_t i = 0; i < jobs_max; ++i) push(0);
  size_t rows = 0;
  for (size_t batch = 1; !waiting.empty(); ++batch) {
    for (const auto& [job, given] : Fill(limits)) {
      rows += given;
      ASSERT_TRUE(waiting.contains(job));
      Waiting& own = waiting[job];
      EXPECT_LE(batch - own.since, (own.jobs + k - 1) / k + 1) << "k = " << k;
      own = {batch, waiting.size()};
      if (job->progress.next_row == job->rows()) waiting.erase(job);
    }
    ASSERT_GT(batch_.rows(), 0u);
    for (size_t n = roll(0, 2); batch < 300 && n > 0 && waiting.size() < jobs_max; --n) push(batch);
  }
  size_t pushed = 0;
  for (const auto& job : jobs_) pushed += job->rows();
  EXPECT_EQ(rows, pushed);
  EXPECT_TRUE(backlog_.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Turns, testing::Range(0, 60));

}  // namespace
}  // namespace penstock::sched
