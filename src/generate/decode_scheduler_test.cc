#include "generate/decode_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "cpu/cpu_backend.h"
#include "generate/generator.h"
#include "generate/tiny_model_test_util.h"

namespace penstock {
namespace {

constexpr int32_t kContext = 400;

struct Got {
  std::string text;
  std::vector<int32_t> ids;
  std::optional<FinishReason> finish;
};

// What a job gave, sample by sample.
class Recorder final : public DecodeSink {
 public:
  void OnToken(int32_t sample, const GeneratedToken& token,
               std::string_view text) noexcept override {
    const std::lock_guard lock(mutex_);
    got_[sample].ids.push_back(token.id);
    got_[sample].text += text;
    if (on_token) on_token();
  }
  void OnSampleEnd(int32_t sample, FinishReason reason, std::string_view text,
                   int) noexcept override {
    const std::lock_guard lock(mutex_);
    got_[sample].text += text;
    got_[sample].finish = reason;
  }
  void OnEnd(const Status& status, const DecodeUsage& usage) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(status_);
    status_ = status;
    usage_ = usage;
    ended_.notify_all();
  }

  Status Wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return status_.has_value();
  }
  const Got& got(int32_t sample = 0) { return got_[sample]; }
  const DecodeUsage& usage() const { return usage_; }
  std::function<void()> on_token;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::map<int32_t, Got> got_;
  std::optional<Status> status_;
  DecodeUsage usage_;
};

std::vector<int32_t> Prompt(size_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids = {kTinyBegin};
  while (ids.size() < tokens) ids.push_back(2 + static_cast<int32_t>(random() % 27));
  return ids;
}

class DecodeSchedulerTest : public testing::Test {
 protected:
  DecodeSchedulerTest() {
    auto backend = NewCpuBackend({2, false, ""});
    EXPECT_TRUE(backend.ok());
    tiny_.emplace(kContext, *std::move(backend));
    options_.sequences_max = 16;
    options_.cache_blocks = 128;
    options_.cost = {1e-3, 1e-3, 1e-3, 1e-5, 1e-9};
  }

  void Start() {
    auto made = DecodeScheduler::Make(&tiny_->model(), options_, &metrics_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
  }

  static std::unique_ptr<DecodeJob> Job(std::vector<int32_t> prompt, int32_t tokens,
                                        uint64_t seed = 1) {
    auto job = std::make_unique<DecodeJob>();
    job->prompt = std::move(prompt);
    job->sampling.max_tokens = tokens;
    job->sampling.seed = seed;
    job->sampling.ignore_eos = true;
    return job;
  }
  std::shared_ptr<Recorder> Submit(std::unique_ptr<DecodeJob> job) {
    auto sink = std::make_shared<Recorder>();
    job->sink = sink;
    const Status status = scheduler_->Submit(std::move(job));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return sink;
  }
  // By penstock generate's way.
  Generated Alone(const DecodeJob& job) {
    auto generator = Generator::Make(&tiny_->model());
    EXPECT_TRUE(generator.ok());
    GenerateRequest request;
    request.prompt = job.prompt;
    request.sampling = job.sampling;
    Generated out;
    EXPECT_TRUE((*generator)->Generate(request, &out).ok());
    return out;
  }
  void ExpectAlone(Recorder* got, const DecodeJob& job) {
    ASSERT_TRUE(got->Wait().ok());
    const Generated alone = Alone(job);
    EXPECT_EQ(got->got().text, alone.text);
    EXPECT_EQ(got->got().finish, alone.finish);
    EXPECT_EQ(got->got().ids.size(), alone.tokens.size());
  }
  void RunAll() {
    while (scheduler_->Step()) {
    }
  }
  // Twelve jobs of unlike lengths at once, each as alone.
  void ExpectCompanyChangesNothing() {
    std::vector<std::shared_ptr<Recorder>> got;
    std::vector<std::unique_ptr<DecodeJob>> same;
    for (uint32_t i = 0; i < 12; ++i) {
      // Pairs begin alike.
      const auto job = [&] {
        auto prompt = Prompt(5 + 23 * i, i / 2);
        return Job(std::move(prompt), 30 + static_cast<int32_t>(i), i);
      };
      got.push_back(Submit(job()));
      same.push_back(job());
    }
    if (options_.manual) RunAll();
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectAlone(got[i].get(), *same[i]);
    }
    EXPECT_EQ(scheduler_->stats().blocks_used, 0);
    EXPECT_EQ(scheduler_->stats().running, 0);
  }

  Metrics metrics_;
  std::optional<TinyModel> tiny_;
  DecodeSchedulerOptions options_;
  std::unique_ptr<DecodeScheduler> scheduler_;
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
  options_.cache_blocks = 14;  // of one context; all together want three times as many
  options_.manual = true;
  Start();
  ExpectCompanyChangesNothing();
  const std::string series = "penstock_generate_preemptions_total{model=\"\"} ";
  const std::string shown = metrics_.Render();
  ASSERT_NE(shown.find(series), std::string::npos);
  EXPECT_EQ(shown.find(series + "0\n"), std::string::npos);
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
      used = std::max<int32_t>(used, static_cast<int32_t>(scheduler_->stats().blocks_used));
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
  EXPECT_LE(scheduler_->stats().blocks_used, 2);
  EXPECT_EQ(left->Wait().code(), StatusCode::kCancelled);
  RunAll();
  ExpectAlone(stays.get(), *Job(Prompt(40, 2), 50));
}

TEST_F(DecodeSchedulerTest, ABulkTextThatDoesNotFitHoldsUpNoInteractiveOne) {
  options_.cache_blocks = 14;
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
  options_.cache_blocks = 20;
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
  EXPECT_EQ(scheduler_->stats().blocks_used, 0);
}

}  // namespace
}  // namespace penstock
