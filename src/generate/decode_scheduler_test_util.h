// For tests of DecodeScheduler: a tiny model, jobs for it, and what they gave.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "generate/decode_scheduler.h"
#include "generate/generator.h"
#include "generate/tiny_model_test_util.h"

namespace penstock::generate {

inline constexpr int32_t kContext = 400;

struct Got {
  std::string text;
  std::vector<int32_t> ids;
  std::optional<FinishReason> finish;
};

// What a job gave, sample by sample.
class Recorder final : public DecodeSink {
 public:
  void OnPrompt(std::span<const GeneratedToken> tokens) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(got_.empty());
    prompt_.insert(prompt_.end(), tokens.begin(), tokens.end());
  }
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
  const std::vector<GeneratedToken>& prompt() const { return prompt_; }
  const DecodeUsage& usage() const { return usage_; }
  std::function<void()> on_token;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::map<int32_t, Got> got_;
  std::vector<GeneratedToken> prompt_;
  std::optional<Status> status_;
  DecodeUsage usage_;
};

inline std::vector<int32_t> Prompt(size_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids = {kTinyBegin};
  while (ids.size() < tokens) ids.push_back(2 + static_cast<int32_t>(random() % 27));
  return ids;
}

class DecodeFixture : public testing::Test {
 protected:
  explicit DecodeFixture(std::unique_ptr<program::Backend> backend, int32_t window = 0,
                         families::RopeScaling scaling = {})
      : tiny_(kContext, std::move(backend), window, std::move(scaling)) {
    options_.sequences_max = 16;
    options_.cache_blocks = {128};
    options_.cost = {1e-3, 1e-3, 1e-3, 1e-5, 1e-9};
  }

  void Start() {
    auto made = DecodeScheduler::Make(&tiny_.model(), options_, &metrics_);
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
    auto generator = Generator::Make(&tiny_.model());
    EXPECT_TRUE(generator.ok());
    GenerateRequest request;
    request.prompt = job.prompt;
    request.sampling = job.sampling;
    Generated out;
    EXPECT_TRUE((*generator)->Generate(request, &out).ok());
    return out;
  }
  // Samples share the prompt but its last token, which each has to compute.
  void ExpectSamplesOfWholeBlocks() {
    options_.manual = true;
    for (const bool prefixes : {true, false}) {
      options_.prefix_cache = prefixes;
      for (const int tokens : {32, 64, 160}) {
        Start();
        auto job = Job(Prompt(tokens, 5), 10, 7);
        job->samples = 3;
        const auto got = Submit(std::move(job));
        for (int i = 0; i < 1000 && scheduler_->Step(); ++i) continue;
        for (int32_t i = 0; i < 3; ++i) {
          const Generated alone = Alone(*Job(Prompt(tokens, 5), 10, 7 + static_cast<uint64_t>(i)));
          EXPECT_EQ(got->got(i).text, alone.text) << tokens << " " << i;
        }
        scheduler_.reset();
      }
    }
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
    EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
    EXPECT_EQ(scheduler_->stats().running, 0);
  }

  DecodeTotals Totals() { return DecodeMetrics::Of(&metrics_, options_.model).Read(); }

  metrics::Metrics metrics_;
  TinyModel tiny_;
  DecodeSchedulerOptions options_;
  std::unique_ptr<DecodeScheduler> scheduler_;
};

}  // namespace penstock::generate
