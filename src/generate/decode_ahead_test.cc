// Steps that are started ahead: texts are as without them, whatever ends in between.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cpu/cpu_backend.h"
#include "generate/ahead_run_test_util.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

class DecodeAhead : public DecodeFixture {
 protected:
  explicit DecodeAhead(int32_t window = 0, families::RopeScaling scaling = {})
      : DecodeFixture(*cpu::NewCpuBackend({1, false, ""}), window, std::move(scaling)) {
    options_.manual = true;
    options_.speculation = false;
  }

  void MakeScheduler() {
    program::PrepareOptions step;
    step.cache_type = tiny_.model().cache_type;
    const auto groups = program::CacheGroups(tiny_.model().decoder->program());
    step.blocks =
        ChooseCacheBlocks(groups, kContext, options_.cache_blocks[0], options_.sequences_max);
    step.rows = kContext + options_.sequences_max;
    step.picks = options_.sequences_max + DecodeScheduler::kScoredRows;
    options_.cache_blocks = step.blocks;
    auto run = std::make_unique<AheadRun>(*tiny_.model().decoder->NewRun(step),
                                          static_cast<size_t>(kTinyVocabulary));
    run_ = run.get();
    auto made = DecodeScheduler::Make(&tiny_.model(), options_, &metrics_, std::move(run));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
  }
  // A text that a run can draw.
  static std::unique_ptr<DecodeJob> Drawn(std::vector<int32_t> prompt, int32_t tokens,
                                          uint64_t seed = 1) {
    auto job = Job(std::move(prompt), tokens, seed);
    job->sampling.top_k = 20;
    job->sampling.temperature = 1.3F;
    return job;
  }
  AheadRun* run_ = nullptr;
};

TEST_F(DecodeAhead, TextsAreThoseWithoutIt) {
  MakeScheduler();
  std::vector<std::shared_ptr<Recorder>> got;
  std::vector<std::unique_ptr<DecodeJob>> same;
  for (uint32_t i = 0; i < 8; ++i) {
    const auto job = [&] {
      auto one = Drawn(Prompt(5 + 23 * i, i / 2), 20 + 7 * static_cast<int32_t>(i), i);
      if (i % 3 == 1) one->sampling.temperature = 0;
      if (i == 4) one->sampling.ignore_eos = false;
      if (i == 5) one->sampling.stop = {"a", "e"};
      return one;
    };
    got.push_back(Submit(job()));
    same.push_back(job());
  }
  RunAll();
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectAlone(got[i].get(), *same[i]);
  }
  EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
  // Only steps with prompts, and the step after each, are not started ahead.
  EXPECT_GE(run_->ahead(), 60u);
  EXPECT_LE(run_->started() - run_->ahead(), 20u);
}

// A lone text: no step more than it has tokens, since its length is known.
TEST_F(DecodeAhead, NoStepFollowsTheLastToken) {
  MakeScheduler();
  const auto got = Submit(Drawn(Prompt(9, 1), 30));
  RunAll();
  ExpectAlone(got.get(), *Drawn(Prompt(9, 1), 30));
  EXPECT_EQ(run_->started(), 30u);
  EXPECT_EQ(run_->ahead(), 29u);
}

TEST_F(DecodeAhead, WhatNeedsTheHostIsFormedByIt) {
  MakeScheduler();
  const auto penalties = [] {
    auto job = Drawn(Prompt(9, 1), 30);
    job->sampling.repetition_penalty = 1.5F;
    return job;
  };
  const auto all = [] { return Job(Prompt(12, 2), 30); };  // no top-k
  for (const bool beside : {false, true}) {
    const auto first = Submit(penalties());
    const auto second = Submit(all());
    const auto third = beside ? Submit(Drawn(Prompt(20, 3), 25)) : nullptr;
    RunAll();
    ExpectAlone(first.get(), *penalties());
    ExpectAlone(second.get(), *all());
    if (beside) ExpectAlone(third.get(), *Drawn(Prompt(20, 3), 25));
    EXPECT_EQ(run_->ahead(), 0u);
  }
}

// Texts that arrive, are cancelled and end while steps are under way.
TEST_F(DecodeAhead, OthersComeAndGo) {
  MakeScheduler();
  const auto stays = Submit(Drawn(Prompt(40, 1), 120));
  auto cancelled_job = Drawn(Prompt(33, 2), 120);
  const auto cancel = cancelled_job->context.cancel = std::make_shared<CancelToken>();
  const auto cancelled = Submit(std::move(cancelled_job));
  std::vector<std::shared_ptr<Recorder>> later;
  for (int step = 0; step < 60; ++step) {
    ASSERT_TRUE(scheduler_->Step());
    if (step == 20) cancel->Cancel();
    if (step % 10 == 5) {
      later.push_back(Submit(Drawn(Prompt(64, 3), 7, static_cast<uint64_t>(step))));
    }
  }
  RunAll();
  EXPECT_EQ(cancelled->Wait().code(), StatusCode::kCancelled);
  ExpectAlone(stays.get(), *Drawn(Prompt(40, 1), 120));
  for (size_t i = 0; i < later.size(); ++i) {
    ExpectAlone(later[i].get(), *Drawn(Prompt(64, 3), 7, 5 + 10 * i));
  }
  EXPECT_GE(run_->ahead(), 80u);
  EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
}

// Too few cache blocks: texts are preempted and begin again.
TEST_F(DecodeAhead, PreemptedTextsAreTheSame) {
  options_.cache_blocks = {20};
  MakeScheduler();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 5; ++i) got.push_back(Submit(Drawn(Prompt(60, i), 200, i)));
  RunAll();
  for (uint32_t i = 0; i < 5; ++i) ExpectAlone(got[i].get(), *Drawn(Prompt(60, i), 200, i));
  EXPECT_GT(run_->ahead(), 100u);
}

TEST_F(DecodeAhead, AWrongDrawVoidsTheRowAhead) {
  MakeScheduler();
  const auto first = Submit(Drawn(Prompt(9, 1), 40));
  const auto second = Submit(Drawn(Prompt(30, 2), 40));
  for (int step = 0; step < 10; ++step) ASSERT_TRUE(scheduler_->Step());
  run_->DrawWrongly(3);
  RunAll();
  ExpectAlone(first.get(), *Drawn(Prompt(9, 1), 40));
  ExpectAlone(second.get(), *Drawn(Prompt(30, 2), 40));
}

TEST_F(DecodeAhead, AStepThatFailsEndsOneJobAtMost) {
  for (const bool start : {true, false}) {
    SCOPED_TRACE(start);
    MakeScheduler();
    start ? run_->FailStart(12) : run_->FailFinish(12);
    const auto first = Submit(Drawn(Prompt(9, 1), 40));
    const auto second = Submit(Drawn(Prompt(30, 2), 40));
    RunAll();
    // Where it does not start ahead, it is formed anew once the one before has finished.
    EXPECT_EQ(first->Wait().code(), start ? StatusCode::kOk : StatusCode::kInternal);
    ExpectAlone(second.get(), *Drawn(Prompt(30, 2), 40));
    EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
    scheduler_.reset();
  }
}

TEST_F(DecodeAhead, GuessesComeBeforeIt) {
  options_.speculation = true;
  MakeScheduler();
  // Greedy texts of a tiny model repeat themselves soon.
  const auto job = [](uint32_t seed) {
    auto one = Drawn(Prompt(30, seed), 100, seed);
    one->sampling.temperature = 0;
    return one;
  };
  const auto first = Submit(job(1)), second = Submit(job(2));
  RunAll();
  ExpectAlone(first.get(), *job(1));
  ExpectAlone(second.get(), *job(2));
}

// A device's gate has two turns: another model that has one does not wait for it.
TEST_F(DecodeAhead, AnotherModelOnTheDeviceEndsIt) {
  struct Idle final : gate::GateClient {
    gate::GateDemand Demand() const override { return {}; }
  } other;
  gate::ComputeGate gate(2);
  options_.gate = &gate;
  for (const bool beside : {false, true}) {
    MakeScheduler();
    gate::ComputeGate::Turn turn(&gate, &other);
    if (beside) ASSERT_TRUE(turn.TryTake(Priority::kInteractive));
    const auto got = Submit(Drawn(Prompt(9, 1), 30));
    RunAll();
    ExpectAlone(got.get(), *Drawn(Prompt(9, 1), 30));
    EXPECT_EQ(run_->ahead(), beside ? 0u : 29u);
    if (beside) turn.End(1, {});
    scheduler_.reset();
  }
}

class DecodeAheadWindow : public DecodeAhead {
 protected:
  DecodeAheadWindow() : DecodeAhead(40) {}
};
TEST_F(DecodeAheadWindow, BlocksThatAWindowHasPassedAreGivenBack) {
  MakeScheduler();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 4; ++i) got.push_back(Submit(Drawn(Prompt(30 + 9 * i, i), 150, i)));
  RunAll();
  for (uint32_t i = 0; i < 4; ++i) {
    ExpectAlone(got[i].get(), *Drawn(Prompt(30 + 9 * i, i), 150, i));
  }
  EXPECT_GT(run_->ahead(), 100u);
}

}  // namespace
}  // namespace penstock::generate
