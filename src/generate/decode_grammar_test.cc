// Texts that a grammar holds, through the scheduler.
#include <optional>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"
#include "generate/text_constraint.h"

namespace penstock::generate {
namespace {

// Texts like "??abc?": a question mark is any letter, a star any number of letters up to an 'x'.
class PatternGrammar final : public grammar::Grammar {
 public:
  explicit PatternGrammar(std::string pattern) : pattern_(std::move(pattern)) {
    vocabulary_.tokens.resize(kTinyVocabulary);
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      vocabulary_.tokens[static_cast<size_t>(TinyId(letter))] = std::string(1, letter);
    }
    vocabulary_.ends = {kTinyEnd};
  }

  class State final : public grammar::Constraint {
   public:
    explicit State(const PatternGrammar& grammar) : grammar_(grammar) {}
    Status Mask(std::span<uint32_t> allowed) override {
      std::fill(allowed.begin(), allowed.end(), 0);
      const auto allow = [&](int32_t id) { allowed[0] |= uint32_t{1} << id; };
      if (at_ == grammar_.pattern_.size()) {
        allow(kTinyEnd);
      } else if (grammar_.pattern_[at_] == '?' || grammar_.pattern_[at_] == '*') {
        for (char letter = 'a'; letter <= 'z'; ++letter) allow(TinyId(letter));
      } else {
        allow(TinyId(grammar_.pattern_[at_]));
      }
      return Status::Ok();
    }
    Status AcceptText(std::string_view text) override {
      const size_t before = history_.size();
      for (const char letter : text) {
        if (Accept(TinyId(letter)).ok()) continue;
        RollBack(static_cast<int32_t>(history_.size() - before));
        return Status::Internal("not allowed");
      }
      return Status::Ok();
    }
    Status Accept(int32_t id) override {
      uint32_t mask = 0;
      (void)Mask({&mask, 1});
      if ((mask >> id & 1) == 0) return Status::Internal("not allowed");
      history_.push_back(at_);
      if (grammar_.pattern_[at_] != '*' || id == TinyId('x')) ++at_;
      return Status::Ok();
    }
    void RollBack(int32_t tokens) override {
      for (; tokens > 0; --tokens) {
        at_ = history_.back();
        history_.pop_back();
      }
    }
    std::string Forced() override {
      const size_t end =
          std::min(grammar_.pattern_.find_first_of("?*", at_), grammar_.pattern_.size());
      return grammar_.pattern_.substr(at_, end - at_);
    }

   private:
    const PatternGrammar& grammar_;
    size_t at_ = 0;
    std::vector<size_t> history_;
  };

  Expected<std::unique_ptr<grammar::Constraint>> Begin() const override {
    return std::unique_ptr<grammar::Constraint>(std::make_unique<State>(*this));
  }
  const grammar::GrammarVocabulary& vocabulary() const override { return vocabulary_; }
  size_t bytes() const override { return 100; }

 private:
  const std::string pattern_;
  grammar::GrammarVocabulary vocabulary_;
};

bool Follows(const std::string& text, const std::string& pattern) {
  if (text.size() != pattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (pattern[i] == '?' ? text[i] < 'a' || text[i] > 'z' : text[i] != pattern[i]) return false;
  }
  return true;
}

class DecodeGrammarTest : public DecodeFixture {
 protected:
  DecodeGrammarTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""})) {}

  static std::unique_ptr<DecodeJob> Held(const std::string& pattern, uint32_t seed,
                                         int32_t tokens = 60) {
    auto job = Job(Prompt(5 + 13 * (seed % 7), seed / 2), tokens, seed);
    job->sampling.ignore_eos = seed % 2 == 0;
    job->sampling.top_k = std::vector<int32_t>{0, 1, 5}[seed % 3];
    job->grammar.grammar = std::make_shared<PatternGrammar>(pattern);
    return job;
  }
};

constexpr const char* kPatterns[] = {"?", "hello", "??hello??world", "abc?", "?????????"};

TEST_F(DecodeGrammarTest, TextsFollowAndEnd) {
  Start();
  std::vector<std::pair<std::string, std::shared_ptr<Recorder>>> got;
  for (uint32_t i = 0; i < 20; ++i) {
    const std::string pattern = kPatterns[i % std::size(kPatterns)];
    got.emplace_back(pattern, Submit(Held(pattern, i)));
  }
  for (const auto& [pattern, one] : got) {
    ASSERT_TRUE(one->Wait().ok());
    EXPECT_TRUE(Follows(one->got().text, pattern)) << one->got().text << " of " << pattern;
    EXPECT_EQ(one->got().finish, FinishReason::kStop);
    EXPECT_EQ(one->got().ids.size(), pattern.size());
    EXPECT_EQ(one->usage().completion_tokens, static_cast<int32_t>(pattern.size()));
  }
}

// Chunks, the prefix cache and preemption change no text; nor does what is forced take its step's
// neighbours along.
TEST_F(DecodeGrammarTest, NothingElseChangesATextThatIsHeld) {
  options_.manual = true;
  std::map<uint32_t, std::string> alone;
  for (uint32_t i = 0; i < 10; ++i) {
    Start();
    const auto got = Submit(Held("??hello??world????", i));
    RunAll();
    alone[i] = got->got().text;
    scheduler_.reset();
  }
  for (const bool prefixes : {true, false}) {
    for (const int32_t blocks : {14, 128}) {
      options_.prefix_cache = prefixes;
      options_.cache_blocks = {blocks};
      Start();
      std::vector<std::shared_ptr<Recorder>> got;
      for (uint32_t i = 0; i < 10; ++i) {
        got.push_back(Submit(Held("??hello??world????", i)));
        (void)Submit(Job(Prompt(50, 100 + i), 40, i));
      }
      RunAll();
      for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(got[i]->got().text, alone[i]) << i;
      scheduler_.reset();
    }
  }
}

TEST_F(DecodeGrammarTest, ForcedTokensTakeNoStepsOfTheirOwn) {
  options_.speculation = false;
  options_.manual = true;
  for (const bool logprobs : {false, true}) {
    Start();
    auto job = Held("?hellohellohello?", 2);
    job->sampling.logprobs = logprobs;
    const auto got = Submit(std::move(job));
    int steps = 0;
    while (scheduler_->Step()) ++steps;
    EXPECT_TRUE(Follows(got->got().text, "?hellohellohello?"));
    // The last forced letter is left to the next step, as a longer token could begin with it.
    if (logprobs) {
      EXPECT_EQ(steps, 17);
    } else {
      EXPECT_LE(steps, 5);
    }
    scheduler_.reset();
  }
}

TEST_F(DecodeGrammarTest, TheNumberOfTokensEndsForcedOnesToo) {
  Start();
  for (const int32_t most : {1, 3, 7}) {
    const auto got = Submit(Held("?hellohellohello?", 3, most));
    ASSERT_TRUE(got->Wait().ok());
    EXPECT_EQ(got->got().finish, FinishReason::kLength);
    EXPECT_EQ(got->got().ids.size(), static_cast<size_t>(most));
  }
}

TEST_F(DecodeGrammarTest, StopStringsEndForcedText) {
  Start();
  auto job = Held("?hello?", 3);
  job->sampling.stop = {"ell"};
  const auto got = Submit(std::move(job));
  ASSERT_TRUE(got->Wait().ok());
  EXPECT_EQ(got->got().finish, FinishReason::kStop);
  EXPECT_EQ(got->got().text.substr(1), "h");
}

TEST_F(DecodeGrammarTest, SamplesAreHeldEach) {
  Start();
  auto job = Held("??hello????", 4);
  job->samples = 5;
  const auto got = Submit(std::move(job));
  ASSERT_TRUE(got->Wait().ok());
  for (int32_t i = 0; i < 5; ++i) EXPECT_TRUE(Follows(got->got(i).text, "??hello????"));
}

TEST_F(DecodeGrammarTest, ThinkingIsFree) {
  Start();
  auto job = Held("hello", 5, 300);
  job->grammar.think_begin = "<s>";
  job->grammar.think_end = "q";
  job->grammar.begins_thinking = true;
  const auto got = Submit(std::move(job));
  ASSERT_TRUE(got->Wait().ok());
  const std::string& text = got->got().text;
  const size_t end = text.find('q');
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(text.substr(end + 1), "hello");
}

TEST_F(DecodeGrammarTest, AModelMayBeginToThink) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("ab");
  use.think_begin = "<s>";
  use.think_end = "qz";
  for (const bool thinks : {false, true}) {
    auto made = TextConstraint::Make(tiny_.model(), use);
    ASSERT_TRUE(made.ok());
    EXPECT_TRUE(grammar::Allows(made->allowed(), kTinyBegin));
    EXPECT_TRUE(grammar::Allows(made->allowed(), TinyId('a')));
    EXPECT_FALSE(grammar::Allows(made->allowed(), TinyId('b')));
    if (thinks) {
      ASSERT_TRUE(made->Accept(kTinyBegin, "<s>").ok());
      for (const char letter : std::string("bqqz")) {
        EXPECT_TRUE(made->allowed().empty());
        ASSERT_TRUE(made->Accept(TinyId(letter), std::string(1, letter)).ok());
      }
    }
    ASSERT_TRUE(made->Accept(TinyId('a'), "a").ok());
    EXPECT_FALSE(grammar::Allows(made->allowed(), kTinyBegin));
    EXPECT_FALSE(made->complete());
    ASSERT_TRUE(made->Accept(TinyId('b'), "b").ok());
    EXPECT_TRUE(made->complete());
  }
}

TEST_F(DecodeGrammarTest, ATokenThatIsNotAllowedIsAnError) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("ab");
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->Accept(TinyId('z'), "z").code(), StatusCode::kInternal);
}

// --- Calls inside of free text ----------------------------------------------------------------

std::shared_ptr<const CallTriggers> Calls(std::vector<std::string> anywhere,
                                          std::vector<std::string> line_begin = {}) {
  return std::make_shared<const CallTriggers>(
      CallTriggers{std::move(anywhere), std::move(line_begin)});
}

// What `text` leaves allowed, letter by letter: '.' any token, '!' none but ends, else the letters.
std::vector<std::string> AllowedAlong(TextConstraint* made, const std::string& text) {
  std::vector<std::string> all;
  for (const char letter : text) {
    EXPECT_TRUE(made->Accept(TinyId(letter), std::string(1, letter)).ok());
    EXPECT_FALSE(made->complete());
    std::string allowed = made->allowed().empty() ? "." : "";
    if (allowed.empty()) {
      for (char c = 'a'; c <= 'z'; ++c) {
        if (grammar::Allows(made->allowed(), TinyId(c))) allowed += c;
      }
    }
    all.push_back(allowed);
  }
  return all;
}

using Alls = std::vector<std::string>;

TEST_F(DecodeGrammarTest, ACallInATextIsHeldUntilItEnds) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("cabz");
  use.calls = Calls({"ca"});
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->allowed().empty());
  // Once more behind it, and what only begins as a trigger.
  EXPECT_EQ(AllowedAlong(&*made, "xccabzaccabzc"),
            (Alls{".", ".", ".", "b", "z", ".", ".", ".", ".", "b", "z", ".", "."}));
}

TEST_F(DecodeGrammarTest, ATriggerMayStandBeforeACall) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("xyz");
  use.calls = Calls({"ca"});
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(AllowedAlong(&*made, "caxyzq"), (Alls{".", "x", "y", "z", ".", "."}));
}

TEST_F(DecodeGrammarTest, TriggersOfLinesAreNoneInTheMidst) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("cabz");
  use.calls = Calls({}, {"ca"});
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(AllowedAlong(&*made, "cabzcabz"), (Alls{".", "b", "z", ".", ".", "b", "z", "."}));
  made = TextConstraint::Make(tiny_.model(), use);
  EXPECT_EQ(AllowedAlong(&*made, "xcab"), (Alls{".", ".", ".", "."}));
}

TEST_F(DecodeGrammarTest, WhatThinkingHasIsNoCall) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("cabz");
  use.calls = Calls({"ca"});
  use.think_begin = "<s>";
  use.think_end = "qz";
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made->Accept(kTinyBegin, "<s>").ok());
  EXPECT_EQ(AllowedAlong(&*made, "caqzca"), (Alls{".", ".", ".", ".", ".", "b"}));
}

TEST_F(DecodeGrammarTest, CallsInTextsOfTheScheduler) {
  Start();
  for (uint32_t seed = 1; seed < 8; ++seed) {
    auto job = Held("ehello", 2 * seed, 200);
    job->grammar.calls = Calls({"e"});
    const auto got = Submit(std::move(job));
    ASSERT_TRUE(got->Wait().ok());
    const std::string& text = got->got().text;
    EXPECT_EQ(got->got().ids.size(), 200u);
    size_t calls = 0;
    for (size_t at = 0; (at = text.find('e', at)) != std::string::npos; at += 6) {
      const std::string call = text.substr(at, 6);
      EXPECT_EQ(call, std::string("ehello").substr(0, call.size()));
      ++calls;
    }
    EXPECT_GT(calls, 0u);
  }
}

TEST_F(DecodeGrammarTest, ThinkingThatBeginsWithSeveralTokensHasNoCall) {
  GrammarUse use;
  use.grammar = std::make_shared<PatternGrammar>("cabz");
  use.calls = Calls({"ca"});
  use.think_begin = "tcax";
  use.think_end = "qz";
  auto made = TextConstraint::Make(tiny_.model(), use);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(AllowedAlong(&*made, "xtca"), (Alls{".", ".", ".", "b"})) << "not at the begin";
  use.calls = Calls({"cab"});
  made = TextConstraint::Make(tiny_.model(), use);
  EXPECT_EQ(AllowedAlong(&*made, "tcaxcabqzcab"),
            (Alls{".", ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "z"}));
}

// --- Grammars that come later -----------------------------------------------------------------

TEST_F(DecodeGrammarTest, ThePromptIsComputedBeforeTheGrammarIsThere) {
  options_.manual = true;
  Start();
  auto job = Held("??hello??world????", 5);
  const auto alone = Submit(std::move(job));
  RunAll();
  scheduler_.reset();
  Start();
  job = Held("??hello??world????", 5);
  const size_t prompt = job->prompt.size();
  auto pending = std::make_shared<PendingGrammar>();
  auto grammar = std::exchange(job->grammar.grammar, nullptr);
  job->grammar.pending = pending;
  const auto got = Submit(std::move(job));
  const auto other = Submit(Job(Prompt(50, 100), 40, 9));
  RunAll();
  // All but the prompt's last token is computed, and the other text is whole.
  EXPECT_TRUE(got->got().ids.empty());
  EXPECT_EQ(other->got().ids.size(), 40u);
  EXPECT_FALSE(scheduler_->Step());
  pending->Set(std::move(grammar));
  RunAll();
  EXPECT_EQ(got->got().text, alone->got().text);
  EXPECT_EQ(got->usage().prompt_tokens, static_cast<int32_t>(prompt));
}

TEST_F(DecodeGrammarTest, ThoseThatWaitForAGrammarKeepNoOtherFromItsBlocks) {
  options_.manual = true;
  options_.cache_blocks = {14};
  Start();
  std::vector<std::shared_ptr<PendingGrammar>> pending;
  std::vector<std::shared_ptr<Recorder>> held, others;
  for (uint32_t i = 0; i < 6; ++i) {
    auto job = Held("??hello??world????", i);
    pending.push_back(std::make_shared<PendingGrammar>());
    job->grammar.grammar = nullptr;
    job->grammar.pending = pending.back();
    held.push_back(Submit(std::move(job)));
    others.push_back(Submit(Job(Prompt(50, 100 + i), 40, i)));
  }
  for (int i = 0; i < 2000; ++i) (void)scheduler_->Step();
  for (const auto& one : others) EXPECT_EQ(one->got().ids.size(), 40u);
  for (const auto& one : pending) one->Set(std::make_shared<PatternGrammar>("??hello??world????"));
  RunAll();
  for (const auto& one : held) EXPECT_TRUE(Follows(one->got().text, "??hello??world????"));
}

TEST_F(DecodeGrammarTest, AGrammarThatComesLateWakesItsText) {
  Start();
  for (const bool cancelled : {false, true}) {
    auto job = Held("hello", 6);
    auto pending = std::make_shared<PendingGrammar>();
    auto grammar = std::exchange(job->grammar.grammar, nullptr);
    job->grammar.pending = pending;
    job->context.cancel = std::make_shared<CancelToken>();
    const auto cancel = job->context.cancel;
    const auto got = Submit(std::move(job));
    // The prompt takes less; that nothing happens is not to be waited for.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (cancelled) {
      cancel->Cancel();
      EXPECT_EQ(got->Wait().code(), StatusCode::kCancelled);
    } else {
      pending->Set(std::move(grammar));
      EXPECT_TRUE(got->Wait().ok());
      EXPECT_EQ(got->got().text, "hello");
    }
  }
}

TEST_F(DecodeGrammarTest, WithoutAGrammarAfterAllTheTextIsFree) {
  Start();
  auto job = Held("hello", 6, 12);
  auto pending = std::make_shared<PendingGrammar>();
  job->grammar.grammar = nullptr;
  job->grammar.pending = pending;
  job->sampling.ignore_eos = true;
  const auto got = Submit(std::move(job));
  pending->Set(nullptr);
  ASSERT_TRUE(got->Wait().ok());
  EXPECT_EQ(got->got().ids.size(), 12u);
}

// Calls are worth a second; an answer's form is waited for.
TEST_F(DecodeGrammarTest, ATextWithCallsGivesALateGrammarUp) {
  options_.manual = true;
  auto now = Clock::now();
  options_.now = [&now] { return now; };
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  std::shared_ptr<PendingGrammar> last;
  for (const bool calls : {true, false}) {
    auto job = Held("hello", 6, 12);
    job->sampling.ignore_eos = true;
    job->grammar.grammar = nullptr;
    job->grammar.pending = last = std::make_shared<PendingGrammar>();
    if (calls) job->grammar.calls = Calls({"ca"});
    got.push_back(Submit(std::move(job)));
  }
  RunAll();
  EXPECT_FALSE(got[0]->ended());
  now += std::chrono::milliseconds(1500);
  for (int i = 0; i < 20; ++i) (void)scheduler_->Step();
  EXPECT_TRUE(got[0]->ended());
  EXPECT_EQ(got[0]->got().ids.size(), 12u);
  EXPECT_FALSE(got[1]->ended());
  last->Set(nullptr);
  RunAll();
  EXPECT_TRUE(got[1]->ended());
}

}  // namespace
}  // namespace penstock::generate
