// Guessed tokens: steps are saved where a text repeats itself, and nothing else changes.
#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

class DecodeSpeculationTest : public DecodeFixture {
 protected:
  explicit DecodeSpeculationTest(int32_t window = 0, families::RopeScaling scaling = {})
      : DecodeFixture(*cpu::NewCpuBackend({2, false, ""}), window, std::move(scaling)) {
    options_.manual = true;
  }

  // The most probable token each time: such a model runs into loops.
  static std::unique_ptr<DecodeJob> Greedy(std::vector<int32_t> prompt, int32_t tokens) {
    auto job = Job(std::move(prompt), tokens);
    job->sampling.temperature = 0;
    return job;
  }
};

TEST_F(DecodeSpeculationTest, LoopsTakeFewerSteps) {
  DecodeTotals totals[2];
  for (const bool speculation : {false, true}) {
    options_.speculation = speculation;
    metrics::Metrics metrics;
    auto made = DecodeScheduler::Make(&tiny_.model(), options_, &metrics);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
    const auto got = Submit(Greedy(Prompt(20, 3), 200));
    RunAll();
    ExpectAlone(got.get(), *Greedy(Prompt(20, 3), 200));
    totals[speculation ? 1 : 0] = DecodeMetrics::Of(&metrics, options_.model).Read();
    scheduler_.reset();
  }
  EXPECT_EQ(totals[0].steps, 200u);
  EXPECT_EQ(totals[0].drafted_tokens, 0u);
  EXPECT_EQ(totals[1].generated_tokens, 200u);
  // Each that came true is a step less.
  EXPECT_EQ(totals[1].steps + totals[1].accepted_tokens, 200u);
  EXPECT_LT(totals[1].steps, 150u);
  EXPECT_LE(totals[1].accepted_tokens, totals[1].drafted_tokens);
}

TEST_F(DecodeSpeculationTest, ChangesNoText) {
  // Sampled texts of few letters repeat themselves by chance, and guesses fail.
  for (const float temperature : {0.0f, 0.3f, 1.0f}) {
    Start();
    std::vector<std::shared_ptr<Recorder>> got;
    const auto job = [&](uint32_t i) {
      auto made = Job(Prompt(10 + 17 * i, i), 60, i);
      made->sampling.temperature = temperature;
      made->sampling.repetition_penalty = i % 2 == 0 ? 1.0f : 1.1f;
      if (i % 3 == 0) made->sampling.stop = {"ab"};
      return made;
    };
    for (uint32_t i = 0; i < 8; ++i) got.push_back(Submit(job(i)));
    RunAll();
    for (uint32_t i = 0; i < 8; ++i) ExpectAlone(got[i].get(), *job(i));
    EXPECT_GT(Totals().drafted_tokens, 0u);
    scheduler_.reset();
  }
}

TEST_F(DecodeSpeculationTest, NoneWhereRowsAreDear) {
  options_.cost = {1e-3, 8e-3, 0, 1e-3, 0};  // a row more costs a step
  Start();
  const auto got = Submit(Greedy(Prompt(20, 3), 100));
  RunAll();
  EXPECT_EQ(Totals().drafted_tokens, 0u);
  ExpectAlone(got.get(), *Greedy(Prompt(20, 3), 100));
}

TEST_F(DecodeSpeculationTest, TextsHaveTheLengthAskedFor) {
  for (int32_t tokens = 1; tokens < 40; ++tokens) {
    Start();
    const auto got = Submit(Greedy(Prompt(20, 3), tokens));
    RunAll();
    EXPECT_EQ(got->got().ids.size(), static_cast<size_t>(tokens));
    EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
    scheduler_.reset();
  }
}

class DecodeSpeculationWindowTest : public DecodeSpeculationTest {
 protected:
  DecodeSpeculationWindowTest() : DecodeSpeculationTest(50) {}
};

TEST_F(DecodeSpeculationWindowTest, LayersWithAWindow) {
  options_.cache_blocks = {14, 13};  // some give their blocks up
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  for (uint32_t i = 0; i < 6; ++i) got.push_back(Submit(Greedy(Prompt(30 + 20 * i, i), 120)));
  RunAll();
  for (uint32_t i = 0; i < 6; ++i) {
    ExpectAlone(got[i].get(), *Greedy(Prompt(30 + 20 * i, i), 120));
  }
  EXPECT_GT(Totals().accepted_tokens, 100u);
}

class DecodeSpeculationRopeTest : public DecodeSpeculationTest {
 protected:
  static constexpr int32_t kOriginal = 64;
  DecodeSpeculationRopeTest() : DecodeSpeculationTest(0, TinyModel::Longrope(kOriginal)) {}
};

TEST_F(DecodeSpeculationRopeTest, AcrossTheSwitchOfLongrope) {
  for (int32_t prompt = 20; prompt < 36; ++prompt) {
    Start();
    const auto got = Submit(Greedy(Prompt(static_cast<size_t>(prompt), 3), 100));
    RunAll();
    ExpectAlone(got.get(), *Greedy(Prompt(static_cast<size_t>(prompt), 3), 100));
    EXPECT_GT(Totals().accepted_tokens, 0u);
    scheduler_.reset();
  }
}

}  // namespace
}  // namespace penstock::generate
