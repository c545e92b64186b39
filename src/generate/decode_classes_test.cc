// Interactive and bulk texts of one model: which begin, and which wait.
#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

class DecodeClassesTest : public DecodeFixture {
 protected:
  DecodeClassesTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""})) {}

  int64_t now_ms_ = 0;
};

TEST_F(DecodeClassesTest, ABulkTextThatDoesNotFitHoldsUpNoInteractiveOne) {
  options_.cache_blocks = {14};
  options_.manual = true;
  Start();
  const auto bulk = [](std::vector<int32_t> prompt) {
    auto job = Job(std::move(prompt), 40);
    job->context.priority = Priority::kBulk;
    return job;
  };
  const auto runs = Submit(bulk(Prompt(250, 1)));
  EXPECT_TRUE(scheduler_->Step());
  const auto waits = Submit(bulk(Prompt(300, 2)));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 1);
  const auto small = Submit(Job(Prompt(5, 3), 2));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 2);
  EXPECT_EQ(scheduler_->stats().waiting, 1);
  RunAll();
  for (const auto& one : {runs, waits, small}) EXPECT_TRUE(one->Wait().ok());
}

// Bulk and interactive texts that wait for a place all the time, several of each or one.
TEST_F(DecodeClassesTest, BulkGetsOnePlaceInNine) {
  options_.sequences_max = 2;
  options_.manual = true;
  for (const size_t kept : {2, 5}) {
    SCOPED_TRACE(kept);
    Start();
    int ended[2] = {0, 0};
    std::vector<std::shared_ptr<Recorder>> open[2];
    for (int step = 0; step < 1200; ++step) {
      for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
        const auto of = static_cast<size_t>(priority);
        ended[of] +=
            static_cast<int>(std::erase_if(open[of], [](const auto& one) { return one->ended(); }));
        while (open[of].size() < kept) {
          auto job = Job(Prompt(4, static_cast<uint32_t>(step)), 3);
          job->context.priority = priority;
          open[of].push_back(Submit(std::move(job)));
        }
      }
      EXPECT_TRUE(scheduler_->Step());
    }
    EXPECT_GT(ended[0], 500);
    EXPECT_NEAR(ended[1], ended[0] / 8.0, ended[0] / 80.0 + 2);
    RunAll();
  }
}

TEST_F(DecodeClassesTest, BulkLeavesAQuarterOfThePlaces) {
  options_.sequences_max = 8;
  options_.manual = true;
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 10; ++i) {
    auto job = Job(Prompt(5, i), 30);
    job->context.priority = Priority::kBulk;
    got.push_back(Submit(std::move(job)));
  }
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 6);
  const auto small = Submit(Job(Prompt(5, 20), 2));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 7);
  RunAll();
  for (const auto& one : got) EXPECT_TRUE(one->Wait().ok());
}

// When it is a bulk text's turn, others wait until it fits.
TEST_F(DecodeClassesTest, ALargeBulkTextFitsInTheEnd) {
  options_.cache_blocks = {14};
  options_.manual = true;
  // Whose turn it is depends on how long steps took: here a millisecond each.
  options_.now = [this] { return Clock::time_point(std::chrono::milliseconds(now_ms_)); };
  Start();
  std::vector<std::shared_ptr<Recorder>> small;
  const auto more = [&] {
    std::erase_if(small, [](const auto& one) { return one->ended(); });
    while (small.size() < 8) small.push_back(Submit(Job(Prompt(60, 1), 4)));
  };
  more();
  EXPECT_TRUE(scheduler_->Step());
  auto job = Job(Prompt(330, 2), 3);
  job->context.priority = Priority::kBulk;
  const auto large = Submit(std::move(job));
  for (int step = 0; step < 300 && !large->ended(); ++step) {
    more();
    ++now_ms_;
    EXPECT_TRUE(scheduler_->Step());
  }
  EXPECT_TRUE(large->ended());
  RunAll();
}

// An interactive text that does not fit takes the blocks of bulk texts, which go on later.
TEST_F(DecodeClassesTest, BulkGivesWayToAnInteractiveTextThatDoesNotFit) {
  options_.cache_blocks = {14};
  options_.manual = true;
  Start();
  const auto bulk_job = [] {
    auto job = Job(Prompt(300, 1), 60, 4);
    job->context.priority = Priority::kBulk;
    return job;
  };
  const auto bulk = Submit(bulk_job());
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(scheduler_->Step());
  EXPECT_FALSE(bulk->got().ids.empty());
  const auto job = [] { return Job(Prompt(200, 2), 20, 5); };
  const auto arrives = Submit(job());
  int steps = 0;
  for (; !arrives->ended(); ++steps) EXPECT_TRUE(scheduler_->Step());
  EXPECT_LE(steps, 24);
  EXPECT_FALSE(bulk->ended());
  RunAll();
  ExpectAlone(arrives.get(), *job());
  ExpectAlone(bulk.get(), *bulk_job());
}

// Blocks are left for interactive texts, so that they need not be taken.
TEST_F(DecodeClassesTest, BulkLeavesAQuarterOfTheBlocks) {
  options_.cache_blocks = {32};
  options_.manual = true;
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 10; ++i) {
    auto job = Job(Prompt(120, i), 8);
    job->context.priority = Priority::kBulk;
    got.push_back(Submit(std::move(job)));
  }
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(scheduler_->Step());
    EXPECT_GT(scheduler_->stats().running, 2);
    EXPECT_LE(scheduler_->stats().groups[0].used, 24);
  }
  RunAll();
  for (const auto& one : got) EXPECT_TRUE(one->Wait().ok());
}

// A bulk text that is older holds blocks while an interactive one grows over what is left.
TEST_F(DecodeClassesTest, AnInteractiveTextHasATokenInEachStep) {
  options_.cache_blocks = {16};
  options_.manual = true;
  Start();
  std::vector<std::shared_ptr<Recorder>> bulk;
  for (uint32_t i = 0; i < 4; ++i) {
    auto job = Job(Prompt(60, i), 200, i);
    job->context.priority = Priority::kBulk;
    bulk.push_back(Submit(std::move(job)));
  }
  for (int step = 0; step < 8; ++step) EXPECT_TRUE(scheduler_->Step());
  const auto grows = Submit(Job(Prompt(20, 9), 300));
  while (grows->got().ids.empty()) EXPECT_TRUE(scheduler_->Step());
  for (size_t tokens = 1; !grows->ended(); ++tokens) {
    ASSERT_EQ(grows->got().ids.size(), tokens);
    EXPECT_TRUE(scheduler_->Step());
  }
  RunAll();
  for (uint32_t i = 0; i < 4; ++i) ExpectAlone(bulk[i].get(), *Job(Prompt(60, i), 200, i));
}

}  // namespace
}  // namespace penstock::generate
