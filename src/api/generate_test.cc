// Requests for text, from prompts to events, with a model that says what the test wants.
#include "api/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/fake_engine.h"
#include "grammar/grammar_compiler.h"
#include "metrics/stages.h"
#include "threads/held_memory.h"

namespace penstock::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Keeps jobs for the test, which plays the step thread.
class FakeModel final : public GenerateModel {
 public:
  const std::string& name() const override { return name_; }
  const text::Tokenizer& tokenizer() const override { return tokenizer_; }
  int32_t context() const override { return 20; }
  const sample::GenerationDefaults& defaults() const override { return defaults_; }
  Expected<std::string> Render(ChatPrompt chat, const RequestContext&) const override {
    if (chat.messages.array() == nullptr) return Status::InvalidArgument("no", "messages");
    return std::string("t2 t3");
  }
  reply::ReplyFormat reply_format(const ChatPrompt&) const override { return format; }
  void GetGrammar(grammar::GrammarSpec spec, std::function<Status()> wanted,
                  grammar::GrammarCache::Done done) override {
    if (Status status = wanted(); !status.ok()) return done(std::move(status));
    if (spec.text == "bad") return done(Status::InvalidArgument("no such grammar", spec.field));
    specs.push_back(std::move(spec));
    if (compiles) {
      compiled = std::move(done);
    } else {
      done(grammar);
    }
  }
  Status Submit(std::unique_ptr<generate::DecodeJob> job) override {
    const std::lock_guard lock(mutex_);
    if (jobs.size() == refused_from) {
      return Status(StatusCode::kResourceExhausted, "full").WithRetryAfter(7);
    }
    jobs.push_back(std::move(job));
    return Status::Ok();
  }

  std::vector<std::unique_ptr<generate::DecodeJob>> jobs;
  size_t refused_from = 100;
  reply::ReplyFormat format;
  std::shared_ptr<const grammar::Grammar> grammar;  // that everybody gets
  std::vector<grammar::GrammarSpec> specs;          // that were asked for
  bool compiles = false;                            // `compiled` waits to be called
  grammar::GrammarCache::Done compiled;
  sample::GenerationDefaults defaults_;

 private:
  std::mutex mutex_;
  const std::string name_ = "fake";
  const engine::FakeTokenizer tokenizer_;
};

class GenerateTest : public testing::Test {
 protected:
  void Start(TextRequest request, RequestContext context = {}) {
    feed_ = std::make_shared<GenerateFeed>(request.streams, [this] { ++woken_; });
    StartGenerate({&pool_, &service_metrics_, &options_}, model_,
                  std::make_shared<TextRequest>(std::move(request)), std::move(context), feed_,
                  [this, feed = feed_](Expected<GenerateEnd> end) {
                    ++answers_;
                    feed->End(end.ok() ? *end : GenerateEnd{end.status(), {}});
                  });
    pool_.Stop();  // all turns are done
  }
  static TextRequest Text(const std::string& text) {
    TextRequest request;
    request.prompts.emplace_back().value = text;
    return request;
  }
  static generate::GeneratedToken Token(int32_t id) { return {id, -1, {{id, -1}}}; }
  void EndJob(size_t job, const Status& status = Status::Ok()) {
    generate::DecodeUsage usage;
    usage.prompt_tokens = static_cast<int32_t>(model_->jobs[job]->prompt.size());
    usage.completion_tokens = 2;
    usage.cached_tokens = 1;
    model_->jobs[job]->sink->OnEnd(status, usage);
    model_->jobs[job].reset();
  }
  GenerateEnd End() {
    for (;;) {
      auto event = feed_->Next();
      if (!event) break;
      if (auto* end = std::get_if<GenerateEnd>(&*event)) return *end;
    }
    ADD_FAILURE() << "no end";
    return {};
  }
  template <typename T>
  T Next() {
    auto event = feed_->Next();
    EXPECT_TRUE(event && std::holds_alternative<T>(*event));
    return event && std::holds_alternative<T>(*event) ? std::get<T>(*std::move(event)) : T();
  }

  metrics::Metrics metrics_;
  ServiceMetrics service_metrics_{&metrics_};
  ServiceOptions options_;
  WorkerPool pool_{1, 10};
  std::shared_ptr<FakeModel> model_ = std::make_shared<FakeModel>();
  std::shared_ptr<GenerateFeed> feed_;
  std::atomic<int> woken_{0}, answers_{0};
};

TEST_F(GenerateTest, TheTraceHasTheTokensOfTheLongestText) {
  TextRequest request = Text("t5");
  request.samples = 2;
  RequestContext context;
  const auto trace = std::make_shared<metrics::RequestTrace>(Clock::now());
  context.trace = trace;
  Start(std::move(request), context);
  ASSERT_EQ(model_->jobs.size(), 1u);
  generate::DecodeSink& sink = *model_->jobs[0]->sink;
  EXPECT_EQ(trace->text_tokens(), 0);
  for (const int32_t sample : {0, 1, 1, 1, 0}) sink.OnToken(sample, Token(5), "a");
  EXPECT_EQ(trace->text_tokens(), 3);
  EndJob(0);
}

TEST_F(GenerateTest, PromptsBecomeJobsAndTokensEvents) {
  TextRequest request = Text("t5 t6");
  request.prompts.emplace_back().value = std::vector<int32_t>{7, 8, 9};
  request.samples = 2;
  request.streams = true;
  request.echoes_prompt = true;
  request.sampling.temperature = 0.5f;
  request.max_tokens_default = 16;
  model_->defaults_.top_k = 3;
  Start(std::move(request));
  ASSERT_EQ(model_->jobs.size(), 2u);
  const generate::DecodeJob& first = *model_->jobs[0];
  EXPECT_THAT(first.prompt, ElementsAre(0, 5, 6, 1));
  EXPECT_EQ(first.samples, 2);
  EXPECT_EQ(first.sampling.temperature, 0.5f);
  EXPECT_EQ(first.sampling.top_k, 3);
  EXPECT_EQ(first.sampling.max_tokens, 16);
  EXPECT_THAT(model_->jobs[1]->prompt, ElementsAre(7, 8, 9));
  EXPECT_EQ(model_->jobs[1]->sampling.max_tokens, 16);
  const auto begun = Next<GenerateBegun>();
  EXPECT_EQ(begun.model, "fake");
  EXPECT_THAT(begun.prompts, ElementsAre("t5 t6", "t7 t8 t9"));
  EXPECT_FALSE(feed_->Next());
  const int before = woken_;
  model_->jobs[1]->sink->OnToken(1, Token(5), "a");
  model_->jobs[1]->sink->OnToken(1, Token(6), "b");
  EXPECT_EQ(woken_, before + 1) << "woken once for what it has not seen";
  model_->jobs[1]->sink->OnSampleEnd(1, generate::FinishReason::kLength, "c", -1);
  const auto part = Next<GeneratedPart>();
  EXPECT_EQ(part.choice, 3);
  ASSERT_EQ(part.deltas.size(), 1u);
  EXPECT_EQ(part.deltas[0].text, "a");
  EXPECT_FALSE(part.token);
  EXPECT_EQ(Next<GeneratedPart>().deltas.at(0).text, "b");
  const auto end = Next<ChoiceEnd>();
  EXPECT_EQ(end.choice, 3);
  EXPECT_EQ(end.reason, generate::FinishReason::kLength);
  EXPECT_EQ(end.tokens, 2);
  EXPECT_EQ(end.deltas.at(0).text, "c");
  EndJob(0);
  EXPECT_EQ(answers_, 0);
  EndJob(1);
  EXPECT_EQ(answers_, 1);
  const GenerateEnd all = End();
  EXPECT_TRUE(all.status.ok());
  EXPECT_EQ(all.usage.prompt_tokens, 7);
  EXPECT_EQ(all.usage.cached_tokens, 2);
  EXPECT_EQ(all.usage.completion_tokens, 4);
}

TEST_F(GenerateTest, AWholeAnswerWakesOnceAtTheEnd) {
  Start(Text("t5"));
  model_->jobs.at(0)->sink->OnToken(0, Token(5), "a");
  model_->jobs[0]->sink->OnSampleEnd(0, generate::FinishReason::kStop, "", 2);
  EXPECT_EQ(woken_, 0);
  EndJob(0);
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(Next<GenerateBegun>().model, "fake");
  EXPECT_EQ(Next<GeneratedPart>().deltas.at(0).text, "a");
  EXPECT_EQ(Next<ChoiceEnd>().stop_string, 2);
  EXPECT_TRUE(Next<GenerateEnd>().status.ok());
}

TEST_F(GenerateTest, RefusalsHaveBothNumbersAndTheField) {
  TextRequest request = Text("");
  std::get<std::string>(request.prompts[0].value) = "t2";
  for (int i = 0; i < 20; ++i) std::get<std::string>(request.prompts[0].value) += " t2";
  request.prompts[0].field = "messages";
  Start(std::move(request));
  const GenerateEnd end = End();
  EXPECT_EQ(end.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(end.status.field(), "messages");
  EXPECT_THAT(end.status.message(), HasSubstr("23 tokens"));
  EXPECT_THAT(end.status.message(), HasSubstr("holds 20"));
  EXPECT_TRUE(model_->jobs.empty());
}

TEST(CheckGenerate, NoPromptIsRefused) {
  const Status status = CheckGenerate(TextRequest{}, {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "prompt");
}

TEST_F(GenerateTest, TooManyTokensAreRefusedAndADefaultIsCut) {
  TextRequest request = Text("t2 t3");
  request.sampling.options.max_tokens = 17;
  Start(std::move(request));
  const GenerateEnd end = End();
  EXPECT_EQ(end.status.field(), "max_tokens");
  EXPECT_THAT(end.status.message(), HasSubstr("together 21"));
}

TEST_F(GenerateTest, TheDefaultOfTokensIsCutToTheContext) {
  TextRequest request = Text("t2 t3");
  request.max_tokens_default = 100;
  Start(std::move(request));
  EXPECT_EQ(model_->jobs.at(0)->sampling.max_tokens, 16);
  EndJob(0);
}

TEST_F(GenerateTest, ATextThatNobodyBoundsHasTheModelsBound) {
  struct Case {
    std::optional<int32_t> of_model, of_route, given, wanted;
    int32_t min_tokens = 0;
  };
  // The prompt leaves 16 of the context.
  const Case cases[] = {{5, {}, {}, 5},   {5, 100, {}, 16}, {5, {}, 9, 9}, {16, {}, {}, {}}, {},
                        {5, {}, {}, 7, 7}};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Case& one = cases[i];
    model_ = std::make_shared<FakeModel>();
    model_->defaults_.max_new_tokens = one.of_model;
    TextRequest request = Text("t2 t3");
    request.max_tokens_default = one.of_route;
    request.sampling.options.max_tokens = one.given;
    request.sampling.options.min_tokens = one.min_tokens;
    WorkerPool own(1, 10);
    StartGenerate({&own, &service_metrics_, &options_}, model_,
                  std::make_shared<TextRequest>(std::move(request)), {},
                  std::make_shared<GenerateFeed>(false, [] {}), [](Expected<GenerateEnd>) {});
    own.Stop();
    EXPECT_EQ(model_->jobs.at(0)->sampling.max_tokens, one.wanted) << "case " << i;
    EndJob(0);
  }
}

TEST_F(GenerateTest, AConversationGoesOnceItIsRendered) {
  const auto budget = std::make_shared<ByteBudget>(8 << 20);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  ChatPrompt chat;
  chat.messages = chat::JsonValue(chat::JsonValue::Array());
  chat.held = std::make_shared<HeldMemory>(context.memory);
  ASSERT_TRUE(chat.held->Take(4 << 20).ok());
  TextRequest request;
  request.prompts.emplace_back().value = std::move(chat);
  Start(std::move(request), context);
  ASSERT_EQ(model_->jobs.size(), 1u) << "the text is being generated";
  EXPECT_LT(budget->used(), 1 << 20);
  EndJob(0);
}

TEST_F(GenerateTest, IdsAreChecked) {
  TextRequest request;
  request.prompts.emplace_back().value = std::vector<int32_t>{1, 100};
  Start(std::move(request));
  EXPECT_EQ(End().status.message(), "prompt[1]: 100 is not a token id; they are 0 to 99");
}

class FakeGrammar final : public grammar::Grammar {
 public:
  Expected<std::unique_ptr<grammar::Constraint>> Begin() const override {
    return Status::Internal("of no use");
  }
  const grammar::GrammarVocabulary& vocabulary() const override { return vocabulary_; }
  size_t bytes() const override { return 0; }

 private:
  grammar::GrammarVocabulary vocabulary_;
};

TEST_F(GenerateTest, JobsHaveTheGrammarAndWhereItBegins) {
  model_->grammar = std::make_shared<FakeGrammar>();
  model_->format.think_begin = "t2";
  model_->format.think_end = "t4";
  TextRequest request;
  ChatPrompt chat;
  chat.messages = chat::JsonValue(chat::JsonValue::Array());
  request.prompts.emplace_back().value = std::move(chat);
  request.parses_reply = true;
  request.grammar = {grammar::GrammarKind::kRegex, "a", {}, "guided_regex"};
  Start(std::move(request));
  ASSERT_EQ(model_->jobs.size(), 1u);
  const generate::GrammarUse& use = model_->jobs[0]->grammar;
  EXPECT_EQ(use.grammar, model_->grammar);
  EXPECT_EQ(use.think_end, "t4");
  EXPECT_FALSE(use.begins_thinking);
  EndJob(0);
}

TEST_F(GenerateTest, AGrammarThatIsRefusedEndsTheRequest) {
  TextRequest request = Text("t2");
  request.grammar = {grammar::GrammarKind::kRegex, "bad", {}, "guided_regex"};
  Start(std::move(request));
  EXPECT_TRUE(model_->jobs.empty());
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(End().status.field(), "guided_regex");
}

// --- Grammars that are compiled beside their prompt -------------------------------------------

class PendingGenerateTest : public GenerateTest {
 protected:
  void StartHeld() {
    model_->compiles = true;
    model_->grammar = std::make_shared<FakeGrammar>();
    TextRequest request = Text("t2 t3");
    request.streams = true;
    request.grammar = {grammar::GrammarKind::kRegex, "a", {}, "guided_regex"};
    Start(std::move(request), context_);
    ASSERT_EQ(model_->jobs.size(), 1u);
    pending_ = model_->jobs[0]->grammar.pending;
    ASSERT_NE(pending_, nullptr);
    EXPECT_FALSE(pending_->ready());
    EXPECT_FALSE(feed_->Next()) << "the answer begins with the grammar";
  }
  RequestContext context_;
  std::shared_ptr<const generate::PendingGrammar> pending_;
};

TEST_F(PendingGenerateTest, TheAnswerBeginsWithTheGrammar) {
  StartHeld();
  model_->compiled(model_->grammar);
  EXPECT_TRUE(pending_->ready());
  EXPECT_EQ(pending_->grammar(), model_->grammar);
  EXPECT_EQ(Next<GenerateBegun>().prompt_tokens, 4);
  EndJob(0);
  EXPECT_TRUE(End().status.ok());
  EXPECT_EQ(answers_, 1);
}

TEST_F(PendingGenerateTest, ARefusalEndsTheJob) {
  context_.cancel = std::make_shared<CancelToken>();
  StartHeld();
  model_->compiled(Status::InvalidArgument("too hard", "guided_regex"));
  EXPECT_TRUE(model_->jobs[0]->context.cancelled());
  EXPECT_EQ(answers_, 0);
  EndJob(0, {StatusCode::kCancelled, "cancelled"});
  const GenerateEnd end = End();
  EXPECT_EQ(end.status.message(), "too hard");
  EXPECT_EQ(end.status.field(), "guided_regex");
}

TEST_F(PendingGenerateTest, AGrammarForARequestThatHasEndedIsOfNoUse) {
  StartHeld();
  EndJob(0, {StatusCode::kCancelled, "cancelled"});
  EXPECT_EQ(End().status.code(), StatusCode::kCancelled);
  model_->compiled(model_->grammar);
  EXPECT_EQ(answers_, 1);
}

// --- Calls inside of a text -------------------------------------------------------------------

class CallsInTextTest : public GenerateTest {
 protected:
  void SetUp() override {
    if (!grammar::HasGrammars()) GTEST_SKIP() << "built without XGrammar";
  }
  void StartWith(std::vector<reply::ReplyTool> tools) {
    TextRequest request;
    ChatPrompt chat;
    chat.messages = chat::JsonValue(chat::JsonValue::Array());
    request.prompts.emplace_back().value = std::move(chat);
    request.parses_reply = true;
    request.tools = std::make_shared<const reply::ToolSet>(std::move(tools));
    Start(std::move(request));
    ASSERT_EQ(model_->jobs.size(), 1u);
  }
};

TEST_F(CallsInTextTest, AreHeldFromWhereTheyBegin) {
  model_->grammar = std::make_shared<FakeGrammar>();
  model_->format.tools = reply::ToolForm::kHermes;
  StartWith({{"f", R"({"type":"object","properties":{"a":{"type":"string"}}})"},
             {"g", R"({"type":"array","uniqueItems":true})"}});
  const generate::GrammarUse& use = model_->jobs[0]->grammar;
  EXPECT_EQ(use.grammar, model_->grammar);
  ASSERT_NE(use.calls, nullptr);
  EXPECT_EQ(use.calls->anywhere, std::vector<std::string>{"<tool_call>"});
  ASSERT_EQ(model_->specs.size(), 1u);
  const grammar::CallSpec& calls = model_->specs[0].calls;
  EXPECT_FALSE(calls.several) << "each is held by itself";
  ASSERT_EQ(calls.ways.size(), 2u);
  EXPECT_EQ(calls.ways[0].name, "f");
  EXPECT_EQ(calls.before_name, "<tool_call>\n{\"name\": \"");
  EXPECT_TRUE(calls.loose);
  EXPECT_THAT(calls.ways[0].schema, HasSubstr("properties"));
  EXPECT_EQ(calls.ways[1].schema, R"({"type":"object","additionalProperties":true})")
      << "what no grammar has is any object";
  EndJob(0);
}

TEST_F(CallsInTextTest, AreFreeWithoutAGrammar) {
  model_->format.tools = reply::ToolForm::kNone;
  StartWith({{"f", ""}});
  EXPECT_EQ(model_->jobs[0]->grammar.grammar, nullptr);
  EXPECT_TRUE(model_->specs.empty());
  EndJob(0);
}

TEST_F(CallsInTextTest, AreFreeWhereTheGrammarIsRefused) {
  model_->compiles = true;
  model_->format.tools = reply::ToolForm::kLlama;
  StartWith({{"f", ""}});
  const auto pending = model_->jobs[0]->grammar.pending;
  model_->compiled(Status::InvalidArgument("too hard", "tools"));
  EXPECT_TRUE(pending->ready());
  EXPECT_EQ(pending->grammar(), nullptr);
  EXPECT_FALSE(model_->jobs[0]->context.cancelled());
  EndJob(0);
  EXPECT_TRUE(End().status.ok());
}

TEST_F(GenerateTest, ARefusedJobEndsTheOthers) {
  TextRequest request = Text("t2");
  request.prompts.emplace_back().value = std::string("t3");
  model_->refused_from = 1;
  RequestContext context;
  context.cancel = std::make_shared<CancelToken>();
  Start(std::move(request), context);
  ASSERT_EQ(model_->jobs.size(), 1u);
  EXPECT_TRUE(model_->jobs[0]->context.cancelled());
  EXPECT_EQ(answers_, 0);
  EndJob(0, {StatusCode::kCancelled, "cancelled"});
  EXPECT_EQ(answers_, 1);
  const GenerateEnd end = End();
  EXPECT_EQ(end.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(end.status.retry_after_s(), 7);
}

TEST_F(GenerateTest, WithoutMemoryTheRequestEnds) {
  const auto budget = std::make_shared<ByteBudget>(2000);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  Start(Text("t2"), context);
  for (int i = 0; i < 30 && !model_->jobs.at(0)->context.cancelled(); ++i) {
    model_->jobs[0]->sink->OnToken(0, Token(5), "text");
  }
  EXPECT_TRUE(model_->jobs[0]->context.cancelled());
  EndJob(0, {StatusCode::kCancelled, "cancelled"});
  EXPECT_EQ(End().status.code(), StatusCode::kPayloadTooLarge);
}

TEST_F(GenerateTest, AStreamGivesItsMemoryBackAsItIsRead) {
  const auto budget = std::make_shared<ByteBudget>(4000);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  TextRequest request = Text("t2");
  request.streams = true;
  Start(std::move(request), context);
  for (int i = 0; i < 200; ++i) {
    model_->jobs.at(0)->sink->OnToken(0, Token(5), "text");
    while (feed_->Next()) {
    }
  }
  EXPECT_FALSE(model_->jobs[0]->context.cancelled());
  EndJob(0);
  EXPECT_TRUE(End().status.ok());
}

TEST_F(GenerateTest, PromptsAreScored) {
  TextRequest request = Text("t5 t6");
  request.prompts.emplace_back().value = std::vector<int32_t>{7, 8};
  request.samples = 2;
  request.echoes_prompt = request.scores_prompt = request.prompt_only = true;
  request.sampling.options.logprobs = true;
  request.max_tokens_default = 16;
  Start(std::move(request));
  ASSERT_EQ(model_->jobs.size(), 2u);
  for (const auto& job : model_->jobs) EXPECT_TRUE(job->scores_prompt && job->prompt_only);
  EXPECT_EQ(model_->jobs[0]->sampling.max_tokens, 1);
  Next<GenerateBegun>();
  const int before = woken_;
  const std::vector<generate::GeneratedToken> tokens = {Token(0), Token(5), Token(6), Token(1)};
  generate::DecodeSink* const first = model_->jobs[0]->sink.get();
  first->OnPrompt(std::span(tokens).first(3));
  model_->jobs[1]->sink->OnPrompt(std::span(tokens).first(2));
  EXPECT_EQ(woken_, before + 1) << "though the answer is whole";
  first->OnPrompt(std::span(tokens).last(1));
  auto part = Next<PromptPart>();
  EXPECT_EQ(part.prompt, 0);
  EXPECT_EQ(part.tokens.size(), 3u);
  EXPECT_FALSE(part.last);
  EXPECT_EQ(part.tokens[1].id, 5);
  EXPECT_EQ(part.tokens[1].top.at(0).id, 5);
  EXPECT_FALSE(part.tokens[1].bytes.empty());
  part = Next<PromptPart>();
  EXPECT_EQ(part.prompt, 1);
  EXPECT_TRUE(part.last);
  EXPECT_TRUE(Next<PromptPart>().last);
  first->OnSampleEnd(1, generate::FinishReason::kLength, "", -1);
  EXPECT_EQ(Next<ChoiceEnd>().choice, 1);
  EndJob(0);
  EndJob(1);
  EXPECT_TRUE(End().status.ok());
}

TEST_F(GenerateTest, ScoresAreAdmittedBeforeTheyAreMade) {
  const auto scored = [](int32_t samples) {
    TextRequest request = Text("t2 t3 t4");
    request.samples = samples;
    request.echoes_prompt = request.scores_prompt = true;
    request.sampling.options.logprobs = true;
    request.sampling.options.top_logprobs = 20;
    return request;
  };
  options_.response_bytes = 10000;
  Start(scored(1));
  EXPECT_EQ(model_->jobs.size(), 1u);
  EndJob(0);
  model_->jobs.clear();
  const auto budget = std::make_shared<ByteBudget>(5000);
  for (const bool bounded : {false, true}) {
    RequestContext context;
    if (bounded) context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
    Status told;
    {
      WorkerPool own(1, 10);
      StartGenerate({&own, &service_metrics_, &options_}, model_,
                    std::make_shared<TextRequest>(scored(bounded ? 1 : 8)), context,
                    std::make_shared<GenerateFeed>(false, [] {}),
                    [&](Expected<GenerateEnd> end) { told = end.status(); });
      own.Stop();
    }
    EXPECT_EQ(told.code(), StatusCode::kPayloadTooLarge) << told.ToString();
    EXPECT_TRUE(model_->jobs.empty());
  }
}

TEST_F(GenerateTest, APromptAloneMayFillTheContext) {
  TextRequest request;
  request.prompts.emplace_back().value = std::vector<int32_t>(20, 7);
  request.prompt_only = request.echoes_prompt = true;
  Start(std::move(request));
  EXPECT_EQ(model_->jobs.size(), 1u);
  EndJob(0);
}

TEST_F(GenerateTest, RepliesOfAChatAreParsed) {
  model_->format = {"[SEP]", "</think>", false, reply::ToolForm::kHermes};
  TextRequest request;
  request.parses_reply = true;
  request.tools = std::make_shared<const reply::ToolSet>(std::vector<reply::ReplyTool>{{"f", ""}});
  ChatPrompt chat;
  chat.messages = chat::JsonValue(chat::JsonValue::Array());
  request.prompts.emplace_back().value = std::move(chat);
  Start(std::move(request));
  EXPECT_THAT(model_->jobs.at(0)->prompt, ElementsAre(2, 3)) << "no second template";
  EXPECT_THAT(model_->jobs.at(0)->shown, ElementsAre(1)) << "a marker that is a special token";
  model_->jobs[0]->sink->OnToken(0, Token(5), "[SEP]why</think>so");
  model_->jobs[0]->sink->OnToken(0, Token(6),
                                 "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
  model_->jobs[0]->sink->OnSampleEnd(0, generate::FinishReason::kStop, "", -1);
  EndJob(0);
  Next<GenerateBegun>();
  std::string reasoning, content, name;
  int calls = 0;
  while (auto event = feed_->Next()) {
    std::vector<reply::ReplyDelta> deltas;
    if (auto* part = std::get_if<GeneratedPart>(&*event)) deltas = part->deltas;
    if (auto* end = std::get_if<ChoiceEnd>(&*event)) {
      deltas = end->deltas;
      calls = end->calls;
    }
    for (const reply::ReplyDelta& delta : deltas) {
      if (delta.kind == reply::ReplyDelta::Kind::kReasoning) reasoning += delta.text;
      if (delta.kind == reply::ReplyDelta::Kind::kContent) content += delta.text;
      if (delta.kind == reply::ReplyDelta::Kind::kCallBegin) name = delta.name;
    }
  }
  EXPECT_EQ(reasoning, "why");
  EXPECT_EQ(content, "so");
  EXPECT_EQ(name, "f");
  EXPECT_EQ(calls, 1);
}

TEST_F(GenerateTest, ATemplateThatRefusesIsTheAnswer) {
  TextRequest request;
  request.prompts.emplace_back().value = ChatPrompt();
  Start(std::move(request));
  EXPECT_EQ(End().status.field(), "messages");
}

TEST(CheckGenerate, CountsTexts) {
  TextRequest request;
  EXPECT_FALSE(CheckGenerate(request, {}).ok());
  request.prompts.resize(9);
  request.samples = 16;
  EXPECT_EQ(CheckGenerate(request, {}).field(), "prompt");
  request.prompts.resize(8);
  EXPECT_TRUE(CheckGenerate(request, {}).ok());
  request.samples = 17;
  EXPECT_EQ(CheckGenerate(request, {}).field(), "n");
  request.samples = 1;
  request.prompts[0].value = std::string((1 << 20) + 1, 'x');
  EXPECT_EQ(CheckGenerate(request, {}).code(), StatusCode::kPayloadTooLarge);
}

}  // namespace
}  // namespace penstock::api
