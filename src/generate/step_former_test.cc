// What a step holds, on costs of round numbers.
#include "generate/step_former.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "cpu/cpu_backend.h"
#include "generate/tiny_model_test_util.h"

namespace penstock::generate {
namespace {

using testing::ElementsAre;

class StepFormerTest : public testing::Test {
 protected:
  StepFormerTest() : tiny_(1024, *cpu::NewCpuBackend({1, false, ""})), pools_(64) {
    // 1 ms a row beyond 10 ms.
    limits_.cost = {0.010, 0.010, 0.010, 0.001, 0};
    limits_.rows_max = 600;
    limits_.shared_s = 0.030;
    limits_.alone_s = 0.250;
  }

  // A sequence of `cached` tokens in the cache and `left` to run, which came `waited` seconds ago.
  DecodeSequence* Add(int32_t cached, int32_t left, double waited = 0,
                      Priority priority = Priority::kInteractive) {
    auto owner = std::make_shared<TakenJob>();
    owner->job = std::make_unique<DecodeJob>();
    owner->job->prompt.assign(static_cast<size_t>(cached + left), 3);
    owner->job->context.priority = priority;
    owner->submitted =
        now_ - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waited));
    auto stream = TextStream::Make(tiny_.model(), {}, owner->job->prompt, 1);
    all_.push_back(
        std::make_unique<DecodeSequence>(owner, 0, *std::move(stream), &pools_, nullptr, 1024));
    DecodeSequence* const sequence = all_.back().get();
    EXPECT_TRUE(sequence->cache.Reserve(cached).ok());
    sequence->cache.Append(owner->prompt().first(static_cast<size_t>(cached)));
    running_.push_back(sequence);
    return sequence;
  }
  std::vector<int32_t> Form(bool others_wait = false, Priority first = Priority::kInteractive) {
    StepFormer former(limits_);
    former.Form(&running_, {first, others_wait, now_}, [&](DecodeSequence* sequence) {
      preempted_.push_back(sequence);
      sequence->cache.Release();
      std::erase(running_, sequence);
    });
    std::vector<int32_t> rows;
    for (const auto& sequence : all_) rows.push_back(sequence->rows);
    return rows;
  }

  StepLimits limits_;
  TinyModel tiny_;
  kv::CachePools pools_;
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
  std::vector<std::unique_ptr<DecodeSequence>> all_;
  std::vector<DecodeSequence*> running_, preempted_;
};

TEST_F(StepFormerTest, EachSequenceThatDecodesHasARow) {
  for (int i = 0; i < 5; ++i) Add(40, 1);
  EXPECT_THAT(Form(), ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(StepFormerTest, APromptBesideThemTakesTheRestOfTheTime) {
  Add(40, 1);
  Add(0, 500);
  // 30 ms: 20 rows in all.
  EXPECT_THAT(Form(), ElementsAre(1, 19));
}

// Many prompts of one client, one of another that came last.
TEST_F(StepFormerTest, ThePromptsOfOneClientDoNotHoldUpAnotherOnes) {
  for (int i = 0; i < 4; ++i) Add(0, 12, 5)->owner->job->context.client = 1;
  DecodeSequence* const other = Add(0, 17);
  other->owner->job->context.client = 2;
  // 20 rows.
  EXPECT_THAT(Form(true), ElementsAre(3, 0, 0, 0, 17));
  // Its client has had more of the processor.
  other->turn_s = 1;
  for (const auto& one : all_) {
    if (one.get() != other) one->turn_s = 0;
  }
  EXPECT_THAT(Form(true), ElementsAre(12, 8, 0, 0, 0));
}

TEST_F(StepFormerTest, OrTwiceAStepWithoutIt) {
  limits_.cost = {0.040, 0.040, 0.040, 0.001, 0};
  Add(40, 1);
  Add(0, 500);
  EXPECT_THAT(Form(), ElementsAre(1, 39));
}

TEST_F(StepFormerTest, AloneItHasMore) {
  Add(0, 500);
  EXPECT_THAT(Form(), ElementsAre(240));
  EXPECT_THAT(Form(/*others_wait=*/true), ElementsAre(20));
}

TEST_F(StepFormerTest, TheShortestPromptGoesFirst) {
  Add(0, 500);
  Add(0, 12);
  Add(40, 1);
  EXPECT_THAT(Form(), ElementsAre(7, 12, 1));
}

TEST_F(StepFormerTest, AndOneThatWaitedLongEnough) {
  Add(0, 500, /*waited=*/1);  // half a second of rows
  Add(0, 12);
  Add(40, 1);
  EXPECT_THAT(Form(), ElementsAre(19, 0, 1));
}

TEST_F(StepFormerTest, PromptsGoOnWhereStepsAreLong) {
  limits_.cost = {0.030, 0.060, 0.5, 0.1, 0};
  Add(40, 1);
  Add(0, 500);
  EXPECT_GE(Form()[1], 4);
}

TEST_F(StepFormerTest, ClassesGoApart) {
  Add(0, 5, 0, Priority::kBulk);
  Add(0, 100);
  EXPECT_THAT(Form(), ElementsAre(0, 100));
  EXPECT_THAT(Form(false, Priority::kBulk), ElementsAre(5, 0));
}

TEST_F(StepFormerTest, TheNewestGivesItsBlocksUp) {
  Add(32 * 30, 1);
  Add(32 * 20, 1);
  Add(32 * 14, 1);
  EXPECT_THAT(Form(), ElementsAre(1, 1, 0));
  EXPECT_THAT(preempted_, ElementsAre(all_[2].get()));
}

TEST_F(StepFormerTest, ScoredRowsAreBounded) {
  limits_.scored_rows_max = 30;
  for (DecodeSequence* sequence : {Add(0, 40), Add(0, 20), Add(0, 21), Add(0, 500)}) {
    if (sequence != all_[3].get()) sequence->owner->job->scores_prompt = true;
    sequence->owner->usage.prompt_tokens = sequence->remaining();
  }
  // The last row of a prompt scores nothing.
  EXPECT_THAT(Form(), ElementsAre(0, 20, 11, 209));
}

TEST_F(StepFormerTest, BulkGivesItsBlocksUpFirst) {
  Add(32 * 30, 1);
  Add(32 * 10, 1, 0, Priority::kBulk);
  Add(32 * 10, 1, 0, Priority::kBulk);
  Add(32 * 14, 1);
  EXPECT_THAT(Form(), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(preempted_, ElementsAre(all_[2].get()));
}

TEST_F(StepFormerTest, BulkTakesNoBlocksOfOthers) {
  Add(32 * 9 + 5, 1, 0, Priority::kBulk);
  Add(32 * 26 + 5, 1);
  Add(32 * 26 + 5, 1);
  Add(0, 50);
  EXPECT_THAT(Form(), ElementsAre(0, 1, 1, 17));
  EXPECT_THAT(preempted_, ElementsAre(all_[0].get()));
}

TEST_F(StepFormerTest, BulkWaitsWhereOthersHoldAllBlocks) {
  Add(32 * 31, 1);
  Add(0, 1, 0, Priority::kBulk);
  Add(32 * 31, 1);
  Add(0, 50, 0, Priority::kBulk);
  EXPECT_THAT(Form(), ElementsAre(1, 0, 1, 0));
}

}  // namespace
}  // namespace penstock::generate
