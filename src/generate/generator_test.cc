// What Generator refuses, and how a generation ends, on a decoder of random weights.
#include "generate/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cpu/cpu_backend.h"
#include "generate/tiny_model_test_util.h"

namespace penstock::generate {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kContext = 64;

std::unique_ptr<program::Backend> TwoThreads() { return *cpu::NewCpuBackend({2, false, ""}); }

class GeneratorTest : public ::testing::Test {
 protected:
  GeneratorTest() : tiny_(kContext, TwoThreads()), generator_(*Generator::Make(&tiny_.model())) {}

  static std::vector<int32_t> Ids(const std::string& text) {
    std::vector<int32_t> ids = {kTinyBegin};
    for (const char letter : text) ids.push_back(TinyId(letter));
    return ids;
  }
  // Varied text that does not end by itself.
  static GenerateRequest Request() {
    GenerateRequest request;
    request.prompt = Ids("once upon a time");
    request.sampling.seed = 5;
    request.sampling.logit_bias = {{kTinyBegin, -100}, {kTinyEnd, -100}};
    return request;
  }
  static GenerateRequest Always(int32_t id) {
    GenerateRequest request = Request();
    request.sampling.logit_bias = {{id, 100}};
    return request;
  }
  Status Generate(const GenerateRequest& request) { return generator_->Generate(request, &made_); }

  TinyModel tiny_;
  std::unique_ptr<Generator> generator_;
  Generated made_;
};

TEST_F(GeneratorTest, TheTokenizerKnowsTheLetters) {
  text::Encoding encoding;
  ASSERT_TRUE(tiny_.model().tokenizer->Encode("a bz", {}, &encoding).ok());
  EXPECT_EQ(encoding.ids,
            (std::vector<int32_t>{TinyId('a'), TinyId(' '), TinyId('b'), TinyId('z')}));
  EXPECT_EQ(tiny_.model().tokenizer->Decode(encoding.ids, true), "a bz");
}

TEST_F(GeneratorTest, RefusesAnEmptyPrompt) {
  GenerateRequest request = Request();
  request.prompt.clear();
  const Status status = Generate(request);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "prompt");
}

TEST_F(GeneratorTest, RefusesAPromptAsLongAsTheContextWithBothNumbers) {
  GenerateRequest request = Request();
  for (const size_t length : {size_t{kContext}, size_t{kContext} + 9}) {
    request.prompt.assign(length, TinyId('a'));
    const Status status = Generate(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), "prompt");
    EXPECT_THAT(status.message(), AllOf(HasSubstr(std::to_string(length)), HasSubstr("64")));
  }
  // One token less leaves room for one token.
  request.prompt.assign(size_t{kContext} - 1, TinyId('a'));
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.tokens.size(), 1u);
  EXPECT_EQ(made_.finish, FinishReason::kContext);
}

TEST_F(GeneratorTest, RefusesMoreTokensThanTheContextHoldsWithBothNumbers) {
  GenerateRequest request = Request();  // of 17 tokens
  ASSERT_EQ(request.prompt.size(), 17u);
  request.sampling.max_tokens = 48;
  const Status status = Generate(request);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "max_tokens");
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("48"), HasSubstr("17"), HasSubstr("65"), HasSubstr("64")));
  request.sampling.max_tokens = 47;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.tokens.size(), 47u);
  EXPECT_EQ(made_.finish, FinishReason::kLength);
  request.sampling.max_tokens = 0;
  EXPECT_EQ(Generate(request).field(), "max_tokens");
}

TEST_F(GeneratorTest, RefusesWhatIsOutOfRange) {
  GenerateRequest request = Request();
  request.sampling.temperature = 3;
  EXPECT_EQ(Generate(request).field(), "temperature");
  request = Request();
  request.sampling.logit_bias = {{kTinyVocabulary, 1}};
  EXPECT_EQ(Generate(request).code(), StatusCode::kInvalidArgument);
  request = Request();
  request.sampling.stop = {""};
  EXPECT_EQ(Generate(request).field(), "stop[0]");
  // An id outside the vocabulary, of which the run knows.
  request = Request();
  request.prompt.push_back(kTinyVocabulary);
  EXPECT_EQ(Generate(request).code(), StatusCode::kInvalidArgument);
  // And the generator goes on.
  EXPECT_TRUE(Generate(Request()).ok());
}

TEST_F(GeneratorTest, WithoutALengthTheTextEndsWithTheContext) {
  ASSERT_TRUE(Generate(Request()).ok());
  EXPECT_EQ(made_.finish, FinishReason::kContext);
  EXPECT_EQ(made_.tokens.size(), size_t{kContext} - 17);
  EXPECT_EQ(made_.text.size(), made_.tokens.size());
  EXPECT_EQ(made_.token_s.size(), made_.tokens.size() - 1);
  EXPECT_EQ(made_.seed, 5u);
}

TEST_F(GeneratorTest, TheSameSeedGivesTheSameTextAndThePiecesAddUp) {
  GenerateRequest request = Request();
  std::string streamed;
  request.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  ASSERT_TRUE(Generate(request).ok());
  const std::string first = made_.text;
  EXPECT_EQ(streamed, first);
  // Varied, or the tests below would say little.
  EXPECT_GT(std::set<char>(first.begin(), first.end()).size(), 5u);
  // After another text in the same cache.
  ASSERT_TRUE(Generate(Always(TinyId('q'))).ok());
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.text, first);
  request.sampling.seed = 6;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_NE(made_.text, first);
}

TEST_F(GeneratorTest, AnEndTokenEndsTheTextUnlessItIsIgnored) {
  GenerateRequest request = Always(kTinyEnd);
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kStop);
  ASSERT_EQ(made_.tokens.size(), 1u);
  EXPECT_EQ(made_.tokens[0].id, kTinyEnd);
  EXPECT_EQ(made_.text, "");
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = 4;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kLength);
  EXPECT_EQ(made_.tokens.size(), 4u);
}

TEST_F(GeneratorTest, NothingEndsTheFirstTokens) {
  GenerateRequest request = Always(kTinyEnd);
  request.sampling.min_tokens = 5;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kStop);
  EXPECT_EQ(made_.tokens.size(), 6u);
  EXPECT_EQ(made_.tokens.back().id, kTinyEnd);
  request = Always(TinyId('a'));
  request.sampling.stop = {"aa"};
  request.sampling.min_tokens = 5;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.text, "aaaa") << "the fifth and the sixth are the stop string";
  EXPECT_EQ(made_.tokens.size(), 6u);
  request.sampling.stop.clear();
  request.sampling.stop_token_ids = {TinyId('a')};
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.tokens.size(), 6u);
  EXPECT_EQ(made_.text.find('a'), std::string::npos);
  request.sampling.max_tokens = 4;
  EXPECT_EQ(Generate(request).field(), "min_tokens");
}

TEST_F(GeneratorTest, AStopStringIsFoundAcrossTokensAndLeftOut) {
  GenerateRequest request = Request();
  ASSERT_TRUE(Generate(request).ok());
  const std::string whole = made_.text;
  const std::string stop = whole.substr(9, 3);
  request.sampling.stop = {"never in it", stop};
  std::string streamed;
  request.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kStop);
  EXPECT_EQ(made_.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(streamed, made_.text);
  EXPECT_EQ(made_.tokens.size(), made_.text.size() + stop.size());
  request.sampling.include_stop = true;
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.text, whole.substr(0, whole.find(stop) + stop.size()));
}

TEST_F(GeneratorTest, TheBeginningOfAStopStringComesOutAtTheEnd) {
  GenerateRequest request = Always(TinyId('a'));
  request.sampling.max_tokens = 5;
  request.sampling.stop = {"aaab"};
  std::string streamed;
  request.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kLength);
  EXPECT_EQ(made_.text, "aaaaa");
  EXPECT_EQ(streamed, "aaaaa");
}

TEST_F(GeneratorTest, TheCallbackEndsTheGeneration) {
  GenerateRequest request = Request();
  int calls = 0;
  request.on_text = [&](std::string_view) { return ++calls < 3; };
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_EQ(made_.finish, FinishReason::kCaller);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(made_.tokens.size(), 3u);
  EXPECT_EQ(made_.text.size(), 3u);
}

TEST_F(GeneratorTest, CancellingStopsItWithWhatWasMade) {
  CancelToken cancel;
  GenerateRequest request = Request();
  request.stop.cancel = &cancel;
  int calls = 0;
  request.on_text = [&](std::string_view) {
    if (++calls == 5) cancel.Cancel();
    return true;
  };
  EXPECT_EQ(Generate(request).code(), StatusCode::kCancelled);
  EXPECT_EQ(made_.tokens.size(), 5u);
  EXPECT_EQ(made_.text.size(), 5u);
  // And before the first token.
  EXPECT_EQ(Generate(request).code(), StatusCode::kCancelled);
  EXPECT_TRUE(made_.tokens.empty());
  EXPECT_EQ(calls, 5);
}

TEST_F(GeneratorTest, ADeadlineStopsItWithWhatWasMade) {
  GenerateRequest request = Request();
  request.stop.deadline = Clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(Generate(request).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(made_.tokens.empty());
  request.stop.deadline = Clock::now() + std::chrono::milliseconds(1000);
  request.on_text = [&](std::string_view) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // ten tokens take a second
    return true;
  };
  EXPECT_EQ(Generate(request).code(), StatusCode::kDeadlineExceeded);
  EXPECT_GE(made_.tokens.size(), 1u);
  EXPECT_LE(made_.tokens.size(), 11u);
  EXPECT_EQ(made_.text.size(), made_.tokens.size());
}

// Longer than what goes through in one step.
TEST(Generator, APromptInSeveralStepsIsOnePrompt) {
  const TinyModel tiny(1024, TwoThreads());
  const auto generator = *Generator::Make(&tiny.model());
  GenerateRequest request;
  for (int i = 0; i < 2 * Generator::kPromptRows - 100; ++i) {
    request.prompt.push_back(2 + i * i % 26);
  }
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 3;
  Generated made;
  ASSERT_TRUE(generator->Generate(request, &made).ok());
  ASSERT_EQ(made.tokens.size(), 3u);
  std::vector<int32_t> ids = request.prompt;
  for (const GeneratedToken& token : made.tokens) {
    for (size_t past = 0; past < ids.size(); past += 33) {
      const size_t rows = std::min<size_t>(33, ids.size() - past);
      const auto row = static_cast<int32_t>(rows - 1);
      ASSERT_TRUE(
          generator->Step(std::span(ids).subspan(past, rows), static_cast<int32_t>(past), {&row, 1})
              .ok());
    }
    const std::span<const float> logits = *generator->run().Row(0);
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), token.id);
    ids.push_back(token.id);
  }
}

TEST(Generator, StepGivesTheLogitsOfTheRowsAskedFor) {
  const TinyModel tiny(kContext, TwoThreads());
  const auto generator = *Generator::Make(&tiny.model(), 3);
  const std::vector<int32_t> ids = {0, 5, 9, 12, 3, 7};
  const std::vector<int32_t> rows = {1, 2, 5};
  ASSERT_TRUE(generator->Step(ids, 0, rows).ok());
  std::vector<std::vector<float>> together;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> logits = *generator->run().Row(i);
    EXPECT_EQ(logits.size(), size_t{kTinyVocabulary});
    together.emplace_back(logits.begin(), logits.end());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const int32_t> part(ids.data(), static_cast<size_t>(rows[i]) + 1);
    ASSERT_TRUE(generator->Step(part, 0, {&rows[i], 1}).ok());
    const std::span<const float> logits = *generator->run().Row(0);
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), together[i].begin())) << i;
  }
  EXPECT_NE(together[0], together[1]);
  const std::vector<int32_t> more = {0, 1, 2, 3};
  EXPECT_EQ(generator->Step(ids, 0, more).field(), "picks");
}

TEST(Generator, NamesOfEnds) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kContext), "context");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCaller), "caller");
}

}  // namespace
}  // namespace penstock::generate
