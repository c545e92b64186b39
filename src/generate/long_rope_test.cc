// Rotary scaling longrope: short factors while a text is no longer than the original context, long
// ones for all its tokens once it is longer, as transformers computes it without a cache.
#include <span>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"
#include "generate/golden_test_util.h"

namespace penstock::generate {
namespace {

constexpr int32_t kOriginal = 100;

std::unique_ptr<program::Backend> TwoThreads() { return *cpu::NewCpuBackend({2, false, ""}); }

class LongRopeTest : public DecodeFixture {
 protected:
  LongRopeTest() : DecodeFixture(TwoThreads(), 0, TinyModel::Longrope(kOriginal)) {
    options_.manual = true;
  }
  // Of the last token, all computed anew.
  std::vector<double> Fresh(std::span<const int32_t> text) {
    const std::vector<int32_t> ids(text.begin(), text.end());
    return LogitsOf(*tiny_.model().decoder, ids, tiny_.model().cache_type).back();
  }
};

TEST_F(LongRopeTest, ALongContextDoesNotChangeShortTexts) {
  const TinyModel small(kOriginal, TwoThreads(), 0, TinyModel::Longrope(kOriginal));
  const auto text = Prompt(kOriginal, 3);
  EXPECT_EQ(small.model().decoder->program().rope_switch, 0);
  EXPECT_EQ(Fresh(text), LogitsOf(*small.model().decoder, text, small.model().cache_type).back());
  // The factors count.
  families::RopeScaling other = TinyModel::Longrope(kOriginal);
  other.short_factors = other.long_factors;
  const TinyModel always_long(kContext, TwoThreads(), 0, other);
  EXPECT_GT(
      WorstError(
          {Fresh(text)},
          {LogitsOf(*always_long.model().decoder, text, always_long.model().cache_type).back()}),
      1e-3);
  const auto longer = Prompt(kOriginal + 1, 3);
  EXPECT_EQ(Fresh(longer),
            LogitsOf(*always_long.model().decoder, longer, always_long.model().cache_type).back());
}

TEST_F(LongRopeTest, ATextThatGrowsIsComputedAgain) {
  const auto generator = *Generator::Make(&tiny_.model());
  const auto text = Prompt(kOriginal + 6, 4);
  for (size_t length = kOriginal - 6; length <= text.size(); ++length) {
    const auto first = std::span(text).first(length);
    const int32_t past = length == kOriginal - 6 ? 0 : static_cast<int32_t>(length) - 1;
    ASSERT_TRUE(generator->Extend(first, past, {}).ok());
    const auto logits = *generator->run().Row(0);
    EXPECT_EQ(std::vector<double>(logits.begin(), logits.end()), Fresh(first)) << length;
  }
}

TEST_F(LongRopeTest, GenerateCrossesTheOriginalContext) {
  auto job = Job(Prompt(kOriginal - 10, 5), 30);
  job->sampling.temperature = 0;
  const Generated made = Alone(*job);
  ASSERT_EQ(made.tokens.size(), 30u);
  std::vector<int32_t> text = job->prompt;
  for (const GeneratedToken& token : made.tokens) {
    const auto logits = Fresh(text);
    EXPECT_EQ(token.id, std::max_element(logits.begin(), logits.end()) - logits.begin());
    text.push_back(token.id);
  }
}

// Prompts on both sides of the original context, some of which cross it.
TEST_F(LongRopeTest, CompanyChangesNothing) {
  const StepCost costs[] = {{1e-3, 1e-3, 1e-3, 1e-5, 0},   // whole prompts
                            {1e-3, 3e-2, 1e-3, 5e-3, 0}};  // a few rows
  for (const StepCost& cost : costs) {
    for (const bool prefixes : {true, false}) {
      for (const int32_t blocks : {14, 128}) {
        SCOPED_TRACE(testing::Message() << cost.few_s << prefixes << blocks);
        options_.cost = cost;
        options_.prefix_cache = prefixes;
        options_.cache_blocks = {blocks};
        Start();
        ExpectCompanyChangesNothing();
      }
    }
  }
}

TEST_F(LongRopeTest, SamplesThatCrossAreThoseOfGenerate) {
  for (const size_t tokens : {size_t{kOriginal} - 4, size_t{kOriginal}, size_t{kOriginal} + 1}) {
    Start();
    auto job = Job(Prompt(tokens, 5), 10, 7);
    job->samples = 3;
    const auto got = Submit(std::move(job));
    RunAll();
    for (int32_t i = 0; i < 3; ++i) {
      const Generated alone = Alone(*Job(Prompt(tokens, 5), 10, 7 + static_cast<uint64_t>(i)));
      EXPECT_EQ(got->got(i).text, alone.text) << tokens << " " << i;
    }
  }
}

TEST_F(LongRopeTest, TextsOnEitherSideShareNoKeys) {
  Start();
  const auto prompt = Prompt(200, 6);
  const auto cached = [&](size_t tokens) {
    const auto got =
        Submit(Job({prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(tokens)}, 1));
    RunAll();
    return got->usage().cached_tokens;
  };
  EXPECT_EQ(cached(90), 0);
  EXPECT_EQ(cached(95), 90);
  EXPECT_EQ(cached(180), 0);
  EXPECT_EQ(cached(200), 180);
  EXPECT_EQ(cached(98), 95);
}

TEST_F(LongRopeTest, AStepBeyondTheSwitchMustSaySo) {
  const auto run = *tiny_.model().decoder->NewRun({numbers::DType::kF32, {8}, 128, 1});
  EXPECT_EQ(run->rope_switch(), kOriginal);
  const auto ids = Prompt(kOriginal + 1, 1);
  const auto blocks = BlocksFor(ids.size());
  const Status status = run->Run(program::SingleSequence(ids.size(), 0, blocks).Batch(ids, {}));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "sequences");
  EXPECT_TRUE(run->Run(program::SingleSequence(ids.size(), 0, blocks, true).Batch(ids, {})).ok());
}

// From the short factors to the long ones, against what transformers computes for the whole text.
TEST(LongRopeGolden, ATextThatGrowsAgreesWithTheReference) {
  const std::string path = PENSTOCK_GOLDEN_DIR "/decoders/phi3_longrope_long";
  simdjson::dom::parser parser;
  const simdjson::dom::element text = parser.load(path + "/expected.json")["texts"].at(0);
  const auto ids = ReadIds(text["ids"]);
  const auto rows = ReadIds(text["rows"]);
  const LogitRows want = ReadRows(text["logits"]);
  const auto backend = TwoThreads();
  TextModel model;
  model.decoder = LoadDecoder(path, backend.get(), numbers::DType::kF32);
  model.tokenizer = *text::Tokenizer::FromJson(TinyModel::TokenizerJson());
  model.cache_type = numbers::DType::kF32;
  const auto generator = *Generator::Make(&model);
  size_t compared = 0;
  for (size_t length = 4; length <= ids.size(); ++length) {
    const int32_t past = length == 4 ? 0 : static_cast<int32_t>(length) - 1;
    ASSERT_TRUE(generator->Extend(std::span(ids).first(length), past, {}).ok());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (static_cast<size_t>(rows[i]) + 1 != length) continue;
      const auto logits = *generator->run().Row(0);
      EXPECT_LE(WorstError({{logits.begin(), logits.end()}}, {want[i]}), 5e-5);
      ++compared;
    }
  }
  EXPECT_EQ(compared, rows.size());
}

}  // namespace
}  // namespace penstock::generate
