// The turns that jobs of a backlog take.
#include "sched/backlog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace penstock {
namespace {

class BacklogTest : public testing::Test {
 protected:
  EncodeJob* Push(const std::vector<int32_t>& lengths) {
    auto& job = jobs_.emplace_back(std::make_unique<EncodeJob>());
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
    EXPECT_EQ(backlog_.Fill(&batch_, limits, [](const EncodeJob&) {}), nullptr);
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
  // Rows are the limit: 4 each, and a gets the rows that c does not need.
  auto rows = Fill({.tokens = 1000, .rows = 12});
  EXPECT_EQ(rows[a], 7u);
  EXPECT_EQ(rows[b], 4u);
  EXPECT_EQ(rows[c], 1u);
  // Tokens are.
  rows = Fill({.tokens = 9, .rows = 500});
  EXPECT_EQ(rows[a], 5u);
  EXPECT_EQ(rows[b], 4u);
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
}  // namespace penstock
