#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

class DecodeSchedulerTest : public DecodeFixture {
 protected:
  DecodeSchedulerTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""})) {}
};

TEST_F(DecodeSchedulerTest, OneTextIsThatOfGenerate) {
  Start();
  const auto job = [] { return Job(Prompt(20, 1), 50); };
  ExpectAlone(Submit(job()).get(), *job());
}

TEST_F(DecodeSchedulerTest, CompanyChangesNothing) {
  Start();
  ExpectCompanyChangesNothing();
}

TEST_F(DecodeSchedulerTest, NorDoSmallChunks) {
  options_.cost = {1e-3, 3e-2, 1e-3, 5e-3, 0};  // a few rows a step
  Start();
  ExpectCompanyChangesNothing();
}

TEST_F(DecodeSchedulerTest, NorDoesThePrefixCache) {
  options_.prefix_cache = false;
  Start();
  ExpectCompanyChangesNothing();
}

TEST_F(DecodeSchedulerTest, NorDoesPreemption) {
  options_.cache_blocks = {14};  // of one context; all together want three times as many
  options_.manual = true;
  Start();
  ExpectCompanyChangesNothing();
  const std::string series = "penstock_generate_preemptions_total{model=\"\"} ";
  const std::string shown = metrics_.Render();
  ASSERT_NE(shown.find(series), std::string::npos);
  EXPECT_EQ(shown.find(series + "0\n"), std::string::npos);
}

// Every combination of chunks, cache and preemption, each text among sixteen others.
TEST_F(DecodeSchedulerTest, SixteenOthersChangeNothingUnderAnyConditions) {
  options_.sequences_max = 17;
  options_.manual = true;
  const auto job = [](uint32_t i) {
    // Threes begin alike, and two of them end alike too.
    return Job(Prompt(3 + 19 * (i % 16), i / 3), 25 + static_cast<int32_t>(i), i);
  };
  std::vector<Generated> alone;
  for (uint32_t i = 0; i < 17; ++i) alone.push_back(Alone(*job(i)));
  const StepCost costs[] = {{1e-3, 1e-3, 1e-3, 1e-5, 0},   // whole prompts
                            {1e-3, 3e-2, 1e-3, 5e-3, 0},   // a few rows
                            {1e-3, 2e-3, 1e-3, 1e-3, 0}};  // about a block
  int run = 0;
  for (const StepCost& cost : costs) {
    for (const bool prefixes : {true, false}) {
      for (const int32_t blocks : {14, 128}) {
        SCOPED_TRACE(++run);
        options_.cost = cost;
        options_.prefix_cache = prefixes;
        options_.cache_blocks = {blocks};
        options_.model = std::to_string(run);
        Start();
        std::vector<std::shared_ptr<Recorder>> got;
        for (uint32_t i = 0; i < 17; ++i) got.push_back(Submit(job(i)));
        EXPECT_TRUE(scheduler_->Step());
        if (blocks == 128) {
          EXPECT_EQ(scheduler_->stats().running, 17);
        }
        RunAll();
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(got[i]->Wait().ok());
          EXPECT_EQ(got[i]->got().text, alone[i].text) << i;
          EXPECT_EQ(got[i]->got().finish, alone[i].finish) << i;
        }
        EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
        const bool kept = metrics_.Render().find("preemptions_total{model=\"" + options_.model +
                                                 "\"} 0\n") != std::string::npos;
        EXPECT_EQ(kept, blocks == 128);
      }
    }
  }
}

TEST_F(DecodeSchedulerTest, ASecondTurnFindsTheFirst) {
  options_.manual = true;
  Start();
  const auto first = Submit(Job(Prompt(200, 3), 20));
  RunAll();
  EXPECT_EQ(first->usage().cached_tokens, 0);
  std::vector<int32_t> ids = Prompt(200, 3);
  ids.insert(ids.end(), first->got().ids.begin(), first->got().ids.end());
  ids.push_back(TinyId('x'));
  const auto second = Submit(Job(ids, 5));
  RunAll();
  EXPECT_GE(second->usage().cached_tokens, 192);
  ExpectAlone(second.get(), *Job(ids, 5));
}

TEST_F(DecodeSchedulerTest, PromptsOfAnotherSaltShareNothing) {
  options_.manual = true;
  Start();
  const auto cached = [this](uint64_t salt) {
    auto job = Job(Prompt(200, 3), 3);
    job->context.cache_salt = salt;
    const auto done = Submit(std::move(job));
    RunAll();
    ExpectAlone(done.get(), *Job(Prompt(200, 3), 3));
    return done->usage().cached_tokens;
  };
  EXPECT_EQ(cached(0), 0);
  EXPECT_EQ(cached(0x1234), 0);
  EXPECT_EQ(cached(0x5678), 0);
  EXPECT_GE(cached(0), 192);
  EXPECT_GE(cached(0x1234), 192);
  EXPECT_GE(cached(0x5678), 192);
  // Side by side, too.
  auto one = Job(Prompt(200, 4), 3), two = Job(Prompt(200, 4), 3);
  two->context.cache_salt = 0x1234;
  const auto first = Submit(std::move(one)), second = Submit(std::move(two));
  RunAll();
  EXPECT_EQ(first->usage().cached_tokens + second->usage().cached_tokens, 0);
}

// A prompt that is cached and does not fit for a long time, and one that is computed again.
TEST_F(DecodeSchedulerTest, CachedTokensAreThoseThatWereNeverComputed) {
  options_.manual = true;
  options_.cache_blocks = {24};
  Start();
  Submit(Job(Prompt(200, 3), 2));
  RunAll();
  // Texts that come and go, so that there is another number of blocks at each look.
  std::vector<std::shared_ptr<Recorder>> others;
  for (uint32_t i = 0; i < 7; ++i) others.push_back(Submit(Job(Prompt(60, 10 + i), 10 + 9 * i)));
  EXPECT_TRUE(scheduler_->Step());
  std::vector<int32_t> ids = Prompt(200, 3);
  for (int i = 0; i < 120; ++i) ids.push_back(TinyId('y'));
  const auto waits = Submit(Job(ids, 20));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(scheduler_->Step());
  EXPECT_GT(scheduler_->stats().waiting, 0);
  RunAll();
  ASSERT_TRUE(waits->Wait().ok());
  EXPECT_EQ(waits->usage().prompt_tokens, 320);
  EXPECT_LE(waits->usage().cached_tokens, 192);
  // Bulk that gives its blocks back in the midst of its prompt, and finds a part of them again.
  options_.cache_blocks = {14};
  options_.cost = {1e-3, 2e-3, 1e-3, 1e-3, 0};  // about a block a step
  Start();
  auto job = Job(Prompt(320, 5), 3);
  job->context.priority = Priority::kBulk;
  const auto bulk = Submit(std::move(job));
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(scheduler_->Step());
  const auto arrives = Submit(Job(Prompt(330, 2), 20));
  RunAll();
  ASSERT_TRUE(bulk->Wait().ok());
  EXPECT_NE(metrics_.Render().find("penstock_generate_preemptions_total"), std::string::npos);
  EXPECT_EQ(bulk->usage().cached_tokens, 0);
}

TEST_F(DecodeSchedulerTest, SamplesShareThePromptAndDifferBySeed) {
  for (const bool prefixes : {true, false}) {
    options_.prefix_cache = prefixes;
    options_.manual = true;
    Start();
    auto job = Job(Prompt(150, 5), 40, 7);
    job->samples = 4;
    const auto got = Submit(std::move(job));
    int32_t used = 0;
    while (scheduler_->Step())
      used = std::max<int32_t>(used, static_cast<int32_t>(scheduler_->stats().groups[0].used));
    // Four whole blocks of the prompt are there once, and two more for each.
    EXPECT_LE(used, 4 + 4 * 2);
    for (int32_t i = 0; i < 4; ++i) {
      const Generated alone = Alone(*Job(Prompt(150, 5), 40, 7 + static_cast<uint64_t>(i)));
      EXPECT_EQ(got->got(i).text, alone.text) << i;
    }
    EXPECT_NE(got->got(0).text, got->got(1).text);
    EXPECT_EQ(got->usage().completion_tokens, 160);
    scheduler_.reset();
  }
}

TEST_F(DecodeSchedulerTest, SamplesOfAPromptOfWholeBlocks) { ExpectSamplesOfWholeBlocks(); }

TEST_F(DecodeSchedulerTest, ShownSpecialTokensAreText) {
  Start();
  for (const bool shown : {false, true}) {
    auto job = Job(Prompt(5, 1), 3);
    job->sampling.logit_bias = {{kTinyBegin, 100}};
    if (shown) job->shown = {kTinyBegin};
    const auto got = Submit(std::move(job));
    ASSERT_TRUE(got->Wait().ok());
    EXPECT_EQ(got->got().text, shown ? "<s><s><s>" : "");
  }
}

TEST_F(DecodeSchedulerTest, WhoLeavesFreesItsBlocksWithinAStep) {
  options_.manual = true;
  Start();
  auto job = Job(Prompt(100, 1), 200);
  const auto cancel = std::make_shared<CancelToken>();
  job->context.cancel = cancel;
  const auto left = Submit(std::move(job));
  const auto stays = Submit(Job(Prompt(40, 2), 50));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 2);
  cancel->Cancel();
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 1);
  EXPECT_LE(scheduler_->stats().groups[0].used, 2);
  EXPECT_EQ(left->Wait().code(), StatusCode::kCancelled);
  RunAll();
  ExpectAlone(stays.get(), *Job(Prompt(40, 2), 50));
}

TEST_F(DecodeSchedulerTest, ADeadlineEndsAText) {
  Clock::time_point now{};
  options_.manual = true;
  options_.now = [&] { return now; };
  now += std::chrono::seconds(100);
  Start();
  auto job = Job(Prompt(10, 1), 200);
  job->context.deadline = now + std::chrono::seconds(1);
  const auto got = Submit(std::move(job));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_FALSE(got->ended());
  now += std::chrono::seconds(2);
  scheduler_->Step();
  EXPECT_EQ(got->Wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(got->got().ids.size(), 1u);
}

TEST_F(DecodeSchedulerTest, RefusesWithBothNumbers) {
  options_.max_queued_rows = 2;
  options_.manual = true;
  Start();
  const auto refused = [&](std::unique_ptr<DecodeJob> job) {
    job->sink = std::make_shared<Recorder>();
    return scheduler_->Submit(std::move(job));
  };
  EXPECT_THAT(refused(Job(Prompt(400, 1), 1)).message(),
              testing::HasSubstr("400 tokens; the context holds 400"));
  EXPECT_EQ(refused(Job(Prompt(100, 1), 301)).field(), "max_tokens");
  EXPECT_EQ(refused(Job({}, 1)).field(), "prompt");
  EXPECT_EQ(refused(Job({29}, 1)).field(), "prompt");
  EXPECT_EQ(refused(Job({-1}, 1)).field(), "prompt");
  auto many = Job(Prompt(3, 1), 1);
  many->samples = 17;
  EXPECT_EQ(refused(std::move(many)).field(), "n");
  auto hot = Job(Prompt(3, 1), 1);
  hot->sampling.temperature = 3;
  EXPECT_EQ(refused(std::move(hot)).field(), "temperature");
  Submit(Job(Prompt(3, 1), 5));
  Submit(Job(Prompt(3, 1), 5));
  EXPECT_EQ(refused(Job(Prompt(3, 1), 5)).code(), StatusCode::kResourceExhausted);
  RunAll();
  EXPECT_EQ(Submit(Job(Prompt(3, 1), 5))->ended(), false);
  RunAll();
  scheduler_->Stop();
  EXPECT_EQ(refused(Job(Prompt(3, 1), 5)).code(), StatusCode::kUnavailable);
}

TEST_F(DecodeSchedulerTest, AStopFinishesWhatWasTaken) {
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 8; ++i) got.push_back(Submit(Job(Prompt(50, i), 40)));
  scheduler_->Stop();
  for (const auto& one : got) {
    EXPECT_TRUE(one->ended());
    EXPECT_TRUE(one->Wait().ok());
    EXPECT_EQ(one->got().ids.size(), 40u);
  }
}

TEST_F(DecodeSchedulerTest, ManyThreadsSubmitAndLeave) {
  options_.cache_blocks = {20};
  Start();
  std::vector<std::thread> threads;
  std::atomic<int> whole{0}, left{0};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 15; ++i) {
        auto job = Job(Prompt(10 + 17 * ((t + i) % 9), t * 100 + i), 20, i);
        const auto cancel = std::make_shared<CancelToken>();
        job->context.cancel = cancel;
        job->context.priority = i % 3 == 0 ? Priority::kBulk : Priority::kInteractive;
        const auto got = Submit(std::move(job));
        if (i % 4 == 1) cancel->Cancel();
        const Status status = got->Wait();
        if (status.ok()) {
          ++whole;
          EXPECT_EQ(got->got().ids.size(), 20u);
        } else {
          ++left;
          EXPECT_EQ(status.code(), StatusCode::kCancelled);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(whole + left, 60);
  EXPECT_GE(whole, 44);
  EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
}

}  // namespace
}  // namespace penstock::generate
