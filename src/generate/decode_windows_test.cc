// A model that has layers with a window: what its texts hold, keep and find, and that text does not
// depend on it.
#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

constexpr int32_t kWindow = 50;

class DecodeWindowsTest : public DecodeFixture {
 protected:
  DecodeWindowsTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""}), kWindow) {
    options_.manual = true;
  }

  std::vector<int32_t> WithReply(std::vector<int32_t> prompt, const Got& got) {
    prompt.insert(prompt.end(), got.ids.begin(), got.ids.end());
    prompt.push_back(TinyId('x'));
    return prompt;
  }
  bool Shows(const std::string& line) { return metrics_.Render().find(line) != std::string::npos; }
};

// Every combination of chunks, cache and preemption, by either kind of block.
TEST_F(DecodeWindowsTest, CompanyChangesNothing) {
  const StepCost costs[] = {{1e-3, 1e-3, 1e-3, 1e-5, 0},   // whole prompts
                            {1e-3, 3e-2, 1e-3, 5e-3, 0},   // a few rows
                            {1e-3, 2e-3, 1e-3, 1e-3, 0}};  // about a block
  for (const StepCost& cost : costs) {
    for (const bool prefixes : {true, false}) {
      for (const auto& [blocks, windows] : {std::pair(14, 13), {128, 13}, {14, 0}, {128, 0}}) {
        SCOPED_TRACE(testing::Message() << cost.few_s << prefixes << blocks << windows);
        options_.cost = cost;
        options_.prefix_cache = prefixes;
        options_.cache_blocks = {blocks, windows};
        Start();
        ExpectCompanyChangesNothing();
        EXPECT_EQ(scheduler_->stats().groups[1].used, 0);
      }
    }
  }
}

TEST_F(DecodeWindowsTest, ShortageOfTheirBlocksPreempts) {
  options_.cache_blocks = {128, 13};
  Start();
  ExpectCompanyChangesNothing();
  EXPECT_FALSE(Shows("penstock_generate_preemptions_total{model=\"\"} 0\n"));
  EXPECT_TRUE(Shows("penstock_kv_window_blocks{model=\"\"} 13\n"));
  EXPECT_TRUE(Shows("penstock_kv_window_blocks_used{model=\"\"} 0\n"));
}

TEST_F(DecodeWindowsTest, ATextHoldsTheBlocksOfItsWindow) {
  for (const bool prefixes : {true, false}) {
    options_.prefix_cache = prefixes;
    Start();
    const auto got = Submit(Job(Prompt(200, 3), 150));
    int64_t most = 0;
    scheduler_->Step();
    while (!got->ended()) {
      scheduler_->Step();
      if (!got->ended()) most = std::max(most, scheduler_->stats().groups[1].used);
    }
    EXPECT_EQ(most, 3);  // 49 tokens before the last whole block, and one that is written
    ExpectAlone(got.get(), *Job(Prompt(200, 3), 150));
    const DecodeStats stats = scheduler_->stats();
    EXPECT_EQ(stats.groups[0].cached, prefixes ? 11 : 0);
    EXPECT_EQ(stats.groups[1].block_bytes, stats.groups[0].block_bytes);  // a layer each
    EXPECT_EQ(stats.BytesOf(&CacheGroupStats::cached),
              static_cast<uint64_t>(stats.groups[0].cached + stats.groups[1].cached) *
                  stats.groups[0].block_bytes);
  }
}

TEST_F(DecodeWindowsTest, ASecondTurnFindsTheFirst) {
  options_.cache_blocks = {128, 13};
  Start();
  const auto first = Submit(Job(Prompt(200, 3), 20));
  RunAll();
  const auto ids = WithReply(Prompt(200, 3), first->got());
  // Another text takes the blocks that the first has left behind its window, but for a few.
  const auto other = Submit(Job(Prompt(150, 8), 120));
  RunAll();
  ASSERT_TRUE(other->Wait().ok());
  EXPECT_FALSE(Shows("penstock_kv_evictions_total{model=\"\"} 0\n"));
  const auto second = Submit(Job(ids, 5));
  RunAll();
  EXPECT_EQ(second->usage().cached_tokens, 219);  // the last one of the text was not run
  ExpectAlone(second.get(), *Job(ids, 5));
  // In the middle of the first nothing is left.
  const auto branch = Submit(Job(Prompt(130, 3), 5));
  RunAll();
  EXPECT_EQ(branch->usage().cached_tokens, 0);
  ExpectAlone(branch.get(), *Job(Prompt(130, 3), 5));
}

TEST_F(DecodeWindowsTest, SamplesShareThePromptAndItsWindow) {
  for (const bool prefixes : {true, false}) {
    options_.prefix_cache = prefixes;
    Start();
    auto job = Job(Prompt(150, 5), 40, 7);
    job->samples = 4;
    const auto got = Submit(std::move(job));
    int64_t most = 0;
    scheduler_->Step();
    while (scheduler_->Step()) most = std::max(most, scheduler_->stats().groups[1].used);
    // Three whole blocks of the prompt, and two more for each.
    EXPECT_LE(most, 3 + 4 * 2);
    for (int32_t i = 0; i < 4; ++i) {
      const Generated alone = Alone(*Job(Prompt(150, 5), 40, 7 + static_cast<uint64_t>(i)));
      EXPECT_EQ(got->got(i).text, alone.text) << i;
    }
  }
}

TEST_F(DecodeWindowsTest, SamplesOfAPromptOfWholeBlocks) { ExpectSamplesOfWholeBlocks(); }

TEST_F(DecodeWindowsTest, ReleasedMemoryIsThatOfBothKinds) {
  options_.manual = false;
  Start();
  const uint64_t least = scheduler_->HeldBytes();
  const auto got = Submit(Job(Prompt(300, 3), 20));
  ASSERT_TRUE(got->Wait().ok());
  scheduler_->ReleaseMemory();
  for (int i = 0; i < 1000 && scheduler_->stats().groups[1].cached > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // polls
  }
  scheduler_->Stop();
  EXPECT_EQ(scheduler_->stats().groups[1].cached, 0);
  EXPECT_EQ(scheduler_->stats().groups[0].cached, 0);
  EXPECT_LE(scheduler_->HeldBytes(), least);
}

// The blocks of layers with a window come again and again in a cache of one text.
TEST(GeneratorWindows, ALongTextIsTheSameWithAllKeysKept) {
  const TinyModel tiny(3000, *cpu::NewCpuBackend({2, false, ""}), kWindow);
  const auto generator = *Generator::Make(&tiny.model());
  ASSERT_EQ(generator->run().groups().size(), 2u);
  EXPECT_EQ(generator->run().groups()[1], (CacheGroup{CacheKind::kWindow, kWindow}));
  program::PrepareOptions all;
  all.rows = Generator::kPromptRows;
  all.blocks = {94};
  const auto run = *tiny.model().decoder->NewRun(all);
  EXPECT_EQ(run->groups().size(), 1u);
  std::vector<int32_t> blocks(94);
  std::iota(blocks.begin(), blocks.end(), 0);
  const std::vector<int32_t> ids = Prompt(2990, 1);
  for (int32_t past = 0; past < 2990;) {
    const int32_t rows = std::min(past % 3 == 0 ? 512 : 7, 2990 - past);
    const auto part = std::span(ids).subspan(static_cast<size_t>(past), static_cast<size_t>(rows));
    const int32_t last = rows - 1;
    const program::SingleSequence sequence(rows, past, blocks);
    ASSERT_TRUE(run->Run(sequence.Batch(part, {&last, 1})).ok());
    ASSERT_TRUE(generator->Step(part, past, {&last, 1}).ok());
    ASSERT_TRUE(std::ranges::equal(*run->Row(0), *generator->run().Row(0))) << past;
    past += rows;
  }
  // 19 blocks of 94, in whole groups.
  const uint64_t one = run->block_bytes(0) / 2;
  EXPECT_EQ(run->CommittedBytes(), 2 * 96 * one);
  EXPECT_EQ(generator->run().CommittedBytes(), (96 + 24) * one);
}

}  // namespace
}  // namespace penstock::generate
