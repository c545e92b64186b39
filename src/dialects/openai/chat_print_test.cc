#include "dialects/openai/chat_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/token_print.h"
#include "dialects/tgi/tgi.h"
#include "json/json.h"

namespace penstock::dialects {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The data of each event.
std::vector<std::string> Events(const std::string& text) {
  std::vector<std::string> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(text.substr(at, 6), "data: ");
    events.push_back(text.substr(at + 6, end - at - 6));
    if (events.back() != "[DONE]") {
      EXPECT_TRUE(JsonDocument::Parse(events.back()).ok()) << events.back();
    }
    at = end + 2;
  }
  return events;
}

// What follows the head, which is the same for all.
std::string Choices(const std::string& event) {
  const size_t at = event.find("\"choices\"");
  return at == std::string::npos ? event : event.substr(at);
}

reply::ReplyDelta Delta(reply::ReplyDelta::Kind kind, const std::string& text, int call = -1) {
  reply::ReplyDelta delta;
  delta.kind = kind;
  delta.text = text;
  delta.call = call;
  return delta;
}

reply::ReplyDelta CallBegin(int call, const std::string& name) {
  reply::ReplyDelta delta = Delta(reply::ReplyDelta::Kind::kCallBegin, "", call);
  delta.id = "call_" + std::to_string(call);
  delta.name = name;
  return delta;
}

api::TokenInfo Token(int32_t id, const std::string& bytes) {
  api::TokenInfo token;
  token.id = id;
  token.bytes = bytes;
  token.logprob = -0.5f;
  token.top = {{id, -0.5f, false, bytes}, {id + 1, -1, false, "z"}};
  return token;
}

std::vector<std::string> Streamed(TextPrinter* printer,
                                  const std::vector<api::GenerateEvent>& events) {
  std::string out;
  for (const api::GenerateEvent& event : events) {
    if (const auto* begun = std::get_if<api::GenerateBegun>(&event)) printer->Begin(*begun, &out);
    if (const auto* part = std::get_if<api::PromptPart>(&event)) {
      printer->Prompt(static_cast<size_t>(part->prompt), part->tokens, &out);
    }
    if (const auto* part = std::get_if<api::GeneratedPart>(&event)) printer->Part(*part, &out);
    if (const auto* end = std::get_if<api::ChoiceEnd>(&event)) printer->End(*end, &out);
    if (const auto* end = std::get_if<api::GenerateEnd>(&event)) printer->Finish(*end, &out);
  }
  return Events(out);
}

TEST(ChatPrinter, EventsOfAText) {
  TextCall call;
  call.include_usage = true;
  const auto printer = NewChatPrinter(call, "7", 5);
  using Kind = reply::ReplyDelta::Kind;
  api::GenerateEnd end;
  end.usage = {10, 4, 3};
  const auto events = Streamed(
      printer.get(),
      {api::GenerateBegun{"m", {}},
       api::GeneratedPart{0, {Delta(Kind::kReasoning, "hm"), Delta(Kind::kMarkup, "</think>")}, {}},
       api::GeneratedPart{0, {Delta(Kind::kContent, "a"), Delta(Kind::kContent, "b")}, {}},
       api::GeneratedPart{0, {}, {}},
       api::ChoiceEnd{0, generate::FinishReason::kContext, 0, -1, 3, {Delta(Kind::kContent, "c")}},
       end});
  ASSERT_EQ(events.size(), 7u);
  EXPECT_TRUE(events[0].starts_with(
      R"({"id":"chatcmpl-7","object":"chat.completion.chunk","created":5,"model":"m",)"));
  const auto delta = [](const std::string& inner) {
    return R"("choices":[{"index":0,"delta":{)" + inner +
           R"(},"logprobs":null,"finish_reason":null}],"usage":null})";
  };
  EXPECT_EQ(Choices(events[0]), delta(R"("role":"assistant","content":"")"));
  EXPECT_EQ(Choices(events[1]), delta(R"("reasoning_content":"hm","reasoning":"hm")"));
  EXPECT_EQ(Choices(events[2]), delta(R"("content":"ab")"));
  EXPECT_EQ(Choices(events[3]), delta(R"("content":"c")"));
  EXPECT_THAT(events[4], HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"length")"));
  EXPECT_EQ(Choices(events[5]),
            R"("choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(events[6], "[DONE]");
}

TEST(ChatPrinter, EventsOfCalls) {
  const auto printer = NewChatPrinter({}, "7", 5);
  using Kind = reply::ReplyDelta::Kind;
  const auto events = Streamed(
      printer.get(),
      {api::GenerateBegun{"m", {}},
       api::GeneratedPart{0, {CallBegin(0, "f"), Delta(Kind::kCallArguments, "{\"a\":", 0)}, {}},
       api::GeneratedPart{0,
                          {Delta(Kind::kCallArguments, "1}", 0), Delta(Kind::kCallEnd, "raw", 0),
                           CallBegin(1, "g"), Delta(Kind::kCallArguments, "{}", 1)},
                          {}},
       api::ChoiceEnd{0, generate::FinishReason::kStop, 2, -1, 9, {}}, api::GenerateEnd{}});
  std::vector<std::string> calls;
  for (const std::string& event : events) {
    const size_t at = event.find("\"tool_calls\":");
    if (at != std::string::npos) calls.push_back(event.substr(at + 13, event.find(']') - at - 12));
  }
  EXPECT_THAT(
      calls,
      ElementsAre(
          R"([{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":""}}])",
          R"([{"index":0,"function":{"arguments":"{\"a\":"}}])",
          R"([{"index":0,"function":{"arguments":"1}"}}])",
          R"([{"index":1,"id":"call_1","type":"function","function":{"name":"g","arguments":""}}])",
          R"([{"index":1,"function":{"arguments":"{}"}}])"));
  EXPECT_THAT(events[events.size() - 2], HasSubstr(R"("finish_reason":"tool_calls")"));
  EXPECT_THAT(events[0], Not(HasSubstr("usage")));
}

TEST(ChatPrinter, EveryTokenHasItsLogprob) {
  TextCall call;
  call.request.sampling.options.logprobs = true;
  const auto printer = NewChatPrinter(call, "7", 5);
  const auto events =
      Streamed(printer.get(),
               {api::GenerateBegun{"m", {}}, api::GeneratedPart{0, {}, Token(1, "\xc3")},
                api::GeneratedPart{
                    0, {Delta(reply::ReplyDelta::Kind::kContent, "\xc3\xa9")}, Token(2, "\xa9")}});
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[1], HasSubstr(R"("delta":{"content":""},"logprobs":{"content":[)"
                                   R"({"token":"\\xc3","logprob":-0.5,"bytes":[195],)"
                                   R"("top_logprobs":[{"token":"\\xc3","logprob":-0.5,)"));
  EXPECT_THAT(events[2], HasSubstr("\"delta\":{\"content\":\"\xc3\xa9\"},\"logprobs\":{"));
}

TEST(ChatPrinter, WholeAnswers) {
  TextCall call;
  call.request.sampling.options.logprobs = true;
  const auto printer = NewChatPrinter(call, "7", 5);
  GeneratedAnswer answer;
  answer.model = "m";
  GeneratedChoice* choice = answer.At(1);
  using Kind = reply::ReplyDelta::Kind;
  answer.Add({Delta(Kind::kReasoning, "r"), CallBegin(0, "f"), Delta(Kind::kCallArguments, "{", 0),
              Delta(Kind::kCallArguments, "}", 0), Delta(Kind::kCallEnd, "x", 0)},
             choice);
  choice->tokens = {Token(1, "a")};
  answer.At(0)->content = "hi";
  const std::string text = printer->Whole(answer);
  EXPECT_TRUE(JsonDocument::Parse(text).ok());
  EXPECT_THAT(text, HasSubstr(R"({"index":0,"message":{"role":"assistant","content":"hi",)"
                              R"("refusal":null},"logprobs":{"content":[],"refusal":null},)"
                              R"("finish_reason":"stop"})"));
  EXPECT_THAT(text,
              HasSubstr(R"({"role":"assistant","content":null,"refusal":null,)"
                        R"("reasoning_content":"r","reasoning":"r","tool_calls":[{"id":"call_0",)"
                        R"("type":"function","function":{"name":"f","arguments":"{}"}}]})"));
  EXPECT_THAT(text, HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST(CompletionPrinter, EventsAndWholeAnswersAgree) {
  TextCall call;
  call.request.samples = 2;
  call.request.sampling.options.logprobs = true;
  const auto printer = NewCompletionPrinter(call, "7", 5);
  const auto events = Streamed(
      printer.get(),
      {api::GenerateBegun{"m", {"p"}},
       api::GeneratedPart{1, {Delta(reply::ReplyDelta::Kind::kContent, "ab")}, Token(1, "ab")},
       api::GeneratedPart{1, {Delta(reply::ReplyDelta::Kind::kContent, "c")}, Token(2, "c")},
       api::ChoiceEnd{1, generate::FinishReason::kStop, 0, -1, 2, {}}, api::GenerateEnd{}});
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(Choices(events[1]),
            R"("choices":[{"index":1,"text":"p","logprobs":null,"finish_reason":null}]})");
  EXPECT_THAT(events[3], HasSubstr(R"("logprobs":{"tokens":["c"],"token_logprobs":[-0.5],)"
                                   R"("top_logprobs":[{"c":-0.5,"z":-1.0}],"text_offset":[2]})"));
  EXPECT_THAT(events[4], HasSubstr(R"("text":"","logprobs":null,"finish_reason":"stop")"));
  GeneratedAnswer answer;
  answer.prompts = {"p"};
  answer.At(1)->content = "abc";
  answer.At(1)->tokens = {Token(1, "ab"), Token(2, "c")};
  EXPECT_THAT(printer->Whole(answer),
              HasSubstr(R"({"index":1,"text":"pabc","logprobs":{"tokens":["ab","c"],)"
                        R"("token_logprobs":[-0.5,-0.5],"top_logprobs":[{"ab":-0.5,"z":-1.0},)"
                        R"({"c":-0.5,"z":-1.0}],"text_offset":[0,2]},"finish_reason":"stop"})"));
}

api::TokenInfo Special(int32_t id, const std::string& bytes) {
  api::TokenInfo token = Token(id, bytes);
  token.special = true;
  return token;
}

TEST(CompletionPrinter, PromptsComeFirstWithTheirScores) {
  TextCall call;
  call.request.samples = 2;
  call.request.sampling.options.logprobs = true;
  call.request.echoes_prompt = call.request.scores_prompt = true;
  const auto printer = NewCompletionPrinter(call, "7", 5);
  const std::vector<api::TokenInfo> prompt = {Special(0, "<s>"), Token(1, " a\xc3"),
                                              Token(2, "\xa9"), Token(3, " b")};
  const std::string text = "a\xc3\xa9 b";
  const std::string scores =
      R"("tokens":["<s>","\\x20\\x61\\xc3","\\xa9"," b"],"token_logprobs":[null,-0.5,-0.5,-0.5)";
  const auto events = Streamed(
      printer.get(),
      {api::GenerateBegun{"m", {text}}, api::PromptPart{0, prompt, true},
       api::GeneratedPart{1, {Delta(reply::ReplyDelta::Kind::kContent, "c")}, Token(4, "c")},
       api::ChoiceEnd{1, generate::FinishReason::kLength, 0, -1, 1, {}}, api::GenerateEnd{}});
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(events[i], HasSubstr("{\"index\":" + std::to_string(i) + ",\"text\":\"" + text +
                                     "\",\"logprobs\":{" + scores + "],"));
    EXPECT_THAT(events[i], HasSubstr(R"("top_logprobs":[null,{)"));
    EXPECT_THAT(events[i], HasSubstr(R"("text_offset":[0,0,2,2]})"));
  }
  EXPECT_THAT(events[2], HasSubstr(R"("text_offset":[4]})"));
  GeneratedAnswer answer;
  answer.prompts = {text};
  answer.prompt_tokens = {prompt};
  answer.At(1)->content = "c";
  answer.At(1)->tokens = {Token(4, "c")};
  const std::string whole = printer->Whole(answer);
  EXPECT_TRUE(JsonDocument::Parse(whole).ok());
  EXPECT_THAT(whole, HasSubstr("\"text\":\"" + text + "c\",\"logprobs\":{"));
  EXPECT_THAT(whole, HasSubstr(R"("token_logprobs":[null,-0.5,-0.5,-0.5,-0.5],)"));
  EXPECT_THAT(whole, HasSubstr(R"("text_offset":[0,0,2,2,4]})"));
  EXPECT_THAT(whole, HasSubstr(R"("text_offset":[0,0,2,2]})")) << "of the text without a token";
}

TEST(TokenName, BytesThatAreNoText) {
  EXPECT_EQ(TokenName("a\xc3\xa9"), "a\xc3\xa9");
  EXPECT_EQ(TokenName("\xe2\x80"), "\\xe2\\x80");
}

Expected<TgiCall> Tgi(const std::string& body, bool streams = false) {
  const auto document = JsonDocument::Parse(body);
  EXPECT_TRUE(document.ok()) << body;
  return ParseTgiCall(*document->Object(), streams);
}

TEST(Tgi, ParsesParameters) {
  const auto plain = Tgi(R"({"inputs":"a"})");
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(plain->request.sampling.temperature, 0.0f);
  EXPECT_EQ(plain->request.max_tokens_default, 100);
  EXPECT_FALSE(plain->request.sampling.options.logprobs);
  const auto sampled = Tgi(R"({"inputs":"a","parameters":{"do_sample":true,"seed":3,"details":true,
      "max_new_tokens":4,"stop":["x"],"return_full_text":true,"best_of":1,"typical_p":null}})");
  ASSERT_TRUE(sampled.ok()) << sampled.status().ToString();
  EXPECT_FALSE(sampled->request.sampling.temperature);
  EXPECT_TRUE(sampled->request.sampling.options.logprobs && sampled->request.echoes_prompt);
  for (const auto& [body, field] :
       {std::pair(R"({})", "inputs"),
        {R"({"inputs":["a"]})", "inputs"},
        {R"({"inputs":"a","parameters":{"truncate":3}})", "parameters.truncate"},
        {R"({"inputs":"a","parameters":{"best_of":2}})", "parameters.best_of"},
        {R"({"inputs":"a","parameters":{"typical_p":0.5}})", "parameters.typical_p"},
        {R"({"inputs":"a","parameters":{"grammar":{"type":"json"}}})", "parameters.grammar.type"},
        {R"({"inputs":"a","parameters":{"max_new_tokens":0}})", "parameters.max_new_tokens"}}) {
    EXPECT_EQ(Tgi(body).status().field(), field) << body;
  }
}

TEST(Tgi, PrintsEvents) {
  const auto call = Tgi(R"({"inputs":"a","parameters":{"seed":3}})", true);
  const auto printer = NewTgiPrinter(*call);
  const auto events = Streamed(
      printer.get(),
      {api::GenerateBegun{"m", {}},
       api::GeneratedPart{0, {Delta(reply::ReplyDelta::Kind::kContent, "b")}, Token(1, "b")},
       api::ChoiceEnd{0, generate::FinishReason::kStop, 0, 0, 1, {}}, api::GenerateEnd{}});
  EXPECT_THAT(
      events,
      ElementsAre(R"({"index":1,"token":{"id":1,"text":"b","logprob":-0.5,"special":false},)"
                  R"("generated_text":null,"details":null})",
                  R"({"index":2,"token":{"id":1,"text":"","logprob":-0.5,"special":true},)"
                  R"("generated_text":"b","details":{"finish_reason":"stop_sequence",)"
                  R"("generated_tokens":1,"seed":3}})"));
}

}  // namespace
}  // namespace penstock::dialects
