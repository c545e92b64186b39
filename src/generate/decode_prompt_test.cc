// Log-probabilities of a prompt's own tokens.
#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"
#include "generate/golden_test_util.h"

namespace penstock::generate {
namespace {

// Of the logits of the row before a token, in double.
double LogProbability(const std::vector<double>& logits, int32_t id) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  return logits[static_cast<size_t>(id)] - std::log(sum);
}

bool Same(const GeneratedToken& a, const GeneratedToken& b) {
  return a.id == b.id && a.logprob == b.logprob &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const sample::TokenLogprob& x, const sample::TokenLogprob& y) {
                      return x.id == y.id && x.logprob == y.logprob;
                    });
}

class DecodePromptTest : public DecodeFixture {
 protected:
  DecodePromptTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""})) {
    options_.manual = true;
  }

  static std::unique_ptr<DecodeJob> Scored(std::vector<int32_t> prompt, int32_t tokens) {
    auto job = Job(std::move(prompt), std::max(tokens, 1), 3);
    job->scores_prompt = true;
    job->prompt_only = tokens == 0;
    job->sampling.logprobs = true;
    job->sampling.top_logprobs = 3;
    return job;
  }
  // Alone, from a model that has run nothing.
  std::vector<GeneratedToken> AloneScores(const std::vector<int32_t>& prompt) {
    Start();
    const auto got = Submit(Scored(prompt, 0));
    RunAll();
    EXPECT_TRUE(got->Wait().ok());
    return got->prompt();
  }
  static void ExpectSame(const std::vector<GeneratedToken>& got,
                         const std::vector<GeneratedToken>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(Same(got[i], want[i])) << i;
  }
};

TEST_F(DecodePromptTest, TheyAreThoseOfTheLogitsRowByRow) {
  const auto prompt = Prompt(150, 4);
  const auto got = AloneScores(prompt);
  const LogitRows rows = LogitsOf(*tiny_.model().decoder, prompt, tiny_.model().cache_type, 1);
  ASSERT_EQ(got.size(), prompt.size());
  EXPECT_TRUE(got[0].top.empty());
  for (size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(got[i].id, prompt[i]);
    if (i == 0) continue;
    const std::vector<double>& row = rows[i - 1];
    EXPECT_NEAR(got[i].logprob, LogProbability(row, prompt[i]), 1e-5) << i;
    ASSERT_EQ(got[i].top.size(), 3u);
    const auto most = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    EXPECT_EQ(got[i].top[0].id, most) << i;
    for (const sample::TokenLogprob& top : got[i].top) {
      EXPECT_NEAR(top.logprob, LogProbability(row, top.id), 1e-5) << i;
    }
    EXPECT_GE(got[i].top[0].logprob, got[i].logprob);
    EXPECT_GE(got[i].top[1].logprob, got[i].top[2].logprob);
  }
}

// The reference implementation's logits, computed in float64 (tests/golden/README.md).
TEST_F(DecodePromptTest, TheyAgreeWithTheReference) {
  for (const char* name : {"llama", "qwen3", "gemma3"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string(PENSTOCK_GOLDEN_DIR "/decoders/") + name;
    simdjson::dom::parser parser;
    const simdjson::dom::element file = parser.load(path + "/expected.json");
    auto backend = *cpu::NewCpuBackend({2, false, ""});
    TextModel model;
    model.decoder = LoadDecoder(path, backend.get(), numbers::DType::kF32,
                                static_cast<int32_t>(file["context"].get_int64()));
    model.tokenizer = *text::Tokenizer::FromJson(TinyModel::TokenizerJson());
    model.cache_type = numbers::DType::kF32;
    auto scheduler = *DecodeScheduler::Make(&model, options_, &metrics_);
    for (const auto text : file["texts"].get_array()) {
      const auto ids = ReadIds(text["ids"]);
      const auto rows = ReadIds(text["rows"]);
      const LogitRows logits = ReadRows(text["logits"]);
      auto job = Scored(ids, 0);
      const auto got = std::make_shared<Recorder>();
      job->sink = got;
      ASSERT_TRUE(scheduler->Submit(std::move(job)).ok());
      while (scheduler->Step()) {
      }
      ASSERT_EQ(got->prompt().size(), ids.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto next = static_cast<size_t>(rows[i]) + 1;
        if (next >= ids.size()) continue;
        EXPECT_NEAR(got->prompt()[next].logprob, LogProbability(logits[i], ids[next]), 1e-3);
      }
    }
  }
}

// Chunks of any size, with others, after the same prompt was cached, and preempted.
TEST_F(DecodePromptTest, NothingChangesThem) {
  const auto prompt = Prompt(200, 4);
  const auto alone = AloneScores(prompt);
  const StepCost costs[] = {
      {1e-3, 1e-3, 1e-3, 1e-5, 0}, {1e-3, 3e-2, 1e-3, 5e-3, 0}, {1e-3, 2e-3, 1e-3, 1e-3, 0}};
  int run = 0;
  for (const StepCost& cost : costs) {
    for (const int32_t blocks : {14, 128}) {
      SCOPED_TRACE(++run);
      options_.cost = cost;
      options_.cache_blocks = {blocks};
      Start();
      Submit(Job(prompt, 3));
      RunAll();
      std::vector<std::shared_ptr<Recorder>> got, others;
      for (uint32_t i = 0; i < 4; ++i) others.push_back(Submit(Job(Prompt(20 + i, i), 40, i)));
      for (int32_t i = 0; i < 3; ++i) got.push_back(Submit(Scored(prompt, i)));
      for (uint32_t i = 4; i < 8; ++i) others.push_back(Submit(Job(Prompt(50 + i, i), 40, i)));
      RunAll();
      for (int32_t i = 0; i < 3; ++i) {
        Recorder* const one = got[static_cast<size_t>(i)].get();
        ASSERT_TRUE(one->Wait().ok());
        ExpectSame(one->prompt(), alone);
        EXPECT_EQ(one->got().ids.size(), static_cast<size_t>(i));
        EXPECT_EQ(one->got().finish, FinishReason::kLength);
        EXPECT_EQ(one->usage().completion_tokens, i);
        EXPECT_EQ(one->usage().prompt_tokens, 200);
      }
      for (uint32_t i = 0; i < 8; ++i) {
        ExpectAlone(others[i].get(), *Job(Prompt((i < 4 ? 20 : 50) + i, i), 40, i));
      }
      EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
    }
  }
}

// A bulk prompt gives its blocks up in the midst and goes on where it was.
TEST_F(DecodePromptTest, PreemptionInTheMidstChangesNothing) {
  const auto prompt = Prompt(300, 4);
  const auto alone = AloneScores(prompt);
  for (const bool prefixes : {true, false}) {
    options_.cache_blocks = {14};
    options_.prefix_cache = prefixes;
    Start();
    auto job = Scored(prompt, 2);
    job->context.priority = Priority::kBulk;
    const auto bulk = Submit(std::move(job));
    for (int step = 0; step < 7; ++step) EXPECT_TRUE(scheduler_->Step());
    const size_t before = bulk->prompt().size();
    EXPECT_EQ(before, 7 * DecodeScheduler::kScoredRows + 1);
    const auto arrives = Submit(Job(Prompt(330, 2), 20));
    while (!arrives->ended()) EXPECT_TRUE(scheduler_->Step());
    EXPECT_EQ(bulk->prompt().size(), before);
    RunAll();
    ASSERT_TRUE(bulk->Wait().ok());
    ExpectSame(bulk->prompt(), alone);
    ExpectAlone(bulk.get(), *Job(prompt, 2, 3));
  }
}

TEST_F(DecodePromptTest, ThePromptIsComputedNotTaken) {
  const auto prompt = Prompt(200, 4);
  Start();
  Submit(Job(prompt, 1));
  RunAll();
  const auto got = Submit(Scored(prompt, 1));
  RunAll();
  EXPECT_EQ(got->usage().cached_tokens, 0);
  const auto after = Submit(Job(prompt, 1));
  RunAll();
  EXPECT_EQ(after->usage().cached_tokens, 192);
}

TEST_F(DecodePromptTest, OneTokenAndAContext) {
  Start();
  for (const size_t tokens : {size_t{1}, size_t{2}, size_t{33}, size_t{kContext}}) {
    SCOPED_TRACE(tokens);
    const auto got = Submit(Scored(Prompt(tokens, 1), 0));
    RunAll();
    ASSERT_TRUE(got->Wait().ok());
    EXPECT_EQ(got->prompt().size(), tokens);
    EXPECT_TRUE(got->got().ids.empty());
    EXPECT_EQ(got->got().finish, FinishReason::kLength);
  }
  for (const bool only : {true, false}) {
    auto job = Scored(Prompt(size_t{kContext} + (only ? 1 : 0), 1), only ? 0 : 1);
    job->sink = std::make_shared<Recorder>();
    EXPECT_EQ(scheduler_->Submit(std::move(job)).field(), "prompt");
  }
}

TEST_F(DecodePromptTest, SamplesShareTheScores) {
  const auto prompt = Prompt(100, 4);
  const auto alone = AloneScores(prompt);
  for (const int32_t tokens : {0, 5}) {
    auto job = Scored(prompt, tokens);
    job->samples = 3;
    const auto got = Submit(std::move(job));
    RunAll();
    ASSERT_TRUE(got->Wait().ok());
    ExpectSame(got->prompt(), alone);
    for (int32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got->got(i).finish, FinishReason::kLength);
      EXPECT_EQ(got->got(i).ids.size(), static_cast<size_t>(tokens));
    }
  }
}

// However long the prompt, a step has kScoredRows of its logits at most, and the others their
// token.
TEST_F(DecodePromptTest, OthersHaveTheirTokenInEachStep) {
  Start();
  const auto other = Submit(Job(Prompt(5, 1), 60));
  EXPECT_TRUE(scheduler_->Step());
  const auto first = Submit(Scored(Prompt(300, 2), 0));
  const auto second = Submit(Scored(Prompt(300, 3), 0));
  size_t scored = 0;
  for (size_t steps = 1; !first->ended() || !second->ended(); ++steps) {
    EXPECT_TRUE(scheduler_->Step());
    EXPECT_EQ(other->got().ids.size(), std::min<size_t>(60, steps + 1));
    const size_t now = first->prompt().size() + second->prompt().size();
    EXPECT_LE(now - scored, size_t{DecodeScheduler::kScoredRows} + 2);
    scored = now;
  }
  EXPECT_EQ(scored, 600u);
}

TEST_F(DecodePromptTest, ItIsCancelledBetweenChunks) {
  Start();
  auto job = Scored(Prompt(300, 2), 0);
  job->context.cancel = std::make_shared<CancelToken>();
  const auto cancel = job->context.cancel;
  const auto got = Submit(std::move(job));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(got->prompt().size(), size_t{DecodeScheduler::kScoredRows} + 1);
  cancel->Cancel();
  RunAll();
  EXPECT_EQ(got->Wait().code(), StatusCode::kCancelled);
  EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
}

}  // namespace
}  // namespace penstock::generate
