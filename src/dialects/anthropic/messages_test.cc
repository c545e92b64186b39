#include "dialects/anthropic/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/print_test_util.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;
using Kind = reply::ReplyDelta::Kind;

Expected<TextCall> Messages(const std::string& more) {
  return Parsed(ParseMessagesCall, R"({"model":"m","max_tokens":9,)" + more + "}");
}

const api::ChatPrompt& ChatOf(const TextCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompts.at(0).value);
}

std::string HeaderOf(const TextCall& call) {
  std::vector<std::pair<std::string, std::string>> headers;
  call.ignored.AddHeader(&headers);
  return headers.empty() ? "" : headers[0].second;
}

constexpr const char* kHello = R"("messages":[{"role":"user","content":"hi"}])";

TEST(Messages, BlocksBecomeMessages) {
  const auto call = Messages(
      R"("system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"messages":[)"
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"document","source":)"
      R"({"type":"text","media_type":"text/plain","data":"b"}}]},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},)"
      R"({"type":"redacted_thinking","data":"x"},{"type":"text","text":"c"},)"
      R"({"type":"tool_use","id":"1","name":"f","input":{"x":1}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1",)"
      R"("content":[{"type":"text","text":"d"}]},{"type":"text","text":"e"}]}])");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(
      ChatOf(*call).messages.Print(),
      R"([{"role":"system","content":"S"},{"role":"user","content":"a\nb"},)"
      R"({"role":"assistant","content":"c","reasoning":"t","reasoning_content":"t",)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","content":"d","name":"f","tool_call_id":"1"},)"
      R"({"role":"user","content":"e"}])");
  EXPECT_TRUE(ChatOf(*call).add_generation_prompt);
  EXPECT_EQ(HeaderOf(*call), "cache_control");
  EXPECT_EQ(call->request.max_tokens_default, 9);
}

TEST(Messages, TheModelsOwnTextIsContinued) {
  const auto call = Messages(R"("messages":[{"role":"user","content":"hi"},)"
                             R"({"role":"assistant","content":"I am"}])");
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(ChatOf(*call).continue_final_message);
  EXPECT_FALSE(ChatOf(*call).add_generation_prompt);
}

TEST(Messages, Tools) {
  const std::string tools =
      R"(,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},)"
      R"({"type":"web_search_20250305","name":"web_search"},{"type":"custom","name":"g"}])";
  const auto call = Messages(kHello + tools);
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(ChatOf(*call).tools.Print(),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}])");
  ASSERT_EQ(call->request.tools->tools().size(), 2u);
  EXPECT_EQ(call->request.tools->tools()[0].parameters, R"({"type":"object"})");
  EXPECT_EQ(HeaderOf(*call), "web_search_20250305");
  const auto any = Messages(kHello + tools +
                            R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})");
  EXPECT_TRUE(any->request.requires_call);
  EXPECT_FALSE(any->request.parallel_calls);
  const auto named = Messages(kHello + tools + R"(,"tool_choice":{"type":"tool","name":"g"})");
  EXPECT_EQ(named->request.required_tool, "g");
  const auto none = Messages(kHello + tools + R"(,"tool_choice":{"type":"none"})");
  EXPECT_EQ(none->request.tools, nullptr);
}

TEST(Messages, FormatsAndThinking) {
  const auto call = Messages(
      kHello + std::string(R"(,"thinking":{"type":"enabled","budget_tokens":1024},"output_config":)"
                           R"({"effort":"low","format":{"type":"json_schema","schema":{}}})"));
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(ChatOf(*call).kwargs.Print(), R"({"enable_thinking":true,"reasoning_effort":"low"})");
  ASSERT_TRUE(call->request.grammar.has_value());
  EXPECT_EQ(call->request.grammar->field, "output_config.format.schema");
  EXPECT_EQ(HeaderOf(*call), "thinking.budget_tokens");
}

TEST(Messages, RefusesByName) {
  const auto field = [](const std::string& more) { return Messages(more).status().field(); };
  EXPECT_EQ(field(R"("messages":[])"), "messages");
  EXPECT_EQ(field(R"("messages":[{"role":"user","content":[]}])"), "messages");
  EXPECT_EQ(field(R"("messages":[{"role":"tool","content":"x"}])"), "messages[0].role");
  EXPECT_EQ(field(R"("messages":[{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(field(R"("messages":[{"role":"user","content":[{"type":"image"}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(field(R"("messages":[{"role":"user","content":[{"type":"tool_result"}]}])"),
            "messages[0].content[0].tool_use_id");
  EXPECT_EQ(field(R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1",)"
                  R"("name":"f","input":"x"}]}])"),
            "messages[0].content[0].input");
  const std::string hello = kHello;
  EXPECT_EQ(field(hello + R"(,"mcp_servers":[{"url":"x"}])"), "mcp_servers");
  EXPECT_EQ(field(R"("system":"s","messages":[{"role":"user","content":[]}])"), "messages");
  EXPECT_EQ(field(R"("messages":[{"role":"user","content":[{"type":"text","text":5}]}])"),
            "messages[0].content[0].text");
  EXPECT_EQ(field(hello + R"(,"tools":[{"name":""}])"), "tools[0].name");
  EXPECT_EQ(field(hello + R"(,"tools":[{"name":"f","type":5}])"), "tools[0].type");
  EXPECT_EQ(field(hello + R"(,"tools":[{"name":"f","input_schema":"x"}])"),
            "tools[0].input_schema");
  EXPECT_EQ(field(hello + R"(,"tools":[{"name":"f","description":5}])"), "tools[0].description");
  EXPECT_EQ(field(hello + R"(,"tool_choice":{"type":"any"})"), "tool_choice");
  EXPECT_EQ(field(hello + R"(,"thinking":{"type":"much"})"), "thinking.type");
  EXPECT_EQ(field(hello + R"(,"stop_sequences":[1])"), "stop_sequences[0]");
  EXPECT_EQ(Parsed(ParseMessagesCall, "{" + hello + "}").status().field(), "max_tokens");
  std::string blocks = R"({"type":"text","text":""})";
  for (int i = 0; i < 14; ++i) blocks += "," + blocks;
  blocks += R"(,{"type":"text","text":""})";
  EXPECT_EQ(field(R"("messages":[{"role":"user","content":[)" + blocks + "]}]"), "messages");
}

TEST(Messages, CountsTokensOfWhatIsSent) {
  const auto request =
      Parsed(ParseCountTokens,
             "{" + std::string(kHello) + R"(,"tools":[{"name":"f","input_schema":{}}]})");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(request->counts_tokens);
  EXPECT_FALSE(request->chat.tools.is_null());
  EXPECT_EQ(PrintTokenCount({"text", 7}), R"({"input_tokens":7})");
}

TEST(Messages, StreamsBlocks) {
  const auto printer = NewMessagesPrinter(*Messages(kHello), "r");
  std::string out;
  printer->Begin({"m", {}, 4}, &out);
  api::GeneratedPart part;
  part.deltas = {
      Delta(Kind::kReasoning, "t"), Delta(Kind::kContent, "a"),        Delta(Kind::kContent, "b"),
      CallBegin("c1", "f"),         Delta(Kind::kCallArguments, "{}"), Delta(Kind::kCallEnd, ""),
      CallBegin("c2", "g"),         Delta(Kind::kCallEnd, "")};
  printer->Part(part, &out);
  api::ChoiceEnd end;
  end.calls = 2;
  printer->End(end, &out);
  api::GenerateEnd all;
  all.usage = {4, 1, 5};
  printer->Finish(all, &out);
  EXPECT_THAT(EventTypes(out),
              testing::ElementsAre(
                  "message_start", "ping", "content_block_start", "content_block_delta",
                  "content_block_delta", "content_block_stop", "content_block_start",
                  "content_block_delta", "content_block_delta", "content_block_stop",
                  "content_block_start", "content_block_delta", "content_block_stop",
                  "content_block_start", "content_block_stop", "message_delta", "message_stop"));
  EXPECT_THAT(out, HasSubstr(R"("index":2,"content_block":{"type":"tool_use","id":"c1",)"
                             R"("name":"f","input":{}})"));
  EXPECT_THAT(out,
              HasSubstr(R"("index":2,"delta":{"type":"input_json_delta","partial_json":"{}"})"));
  EXPECT_THAT(out, HasSubstr(R"("delta":{"stop_reason":"tool_use","stop_sequence":null},)"
                             R"("usage":{"input_tokens":3,"cache_creation_input_tokens":0,)"
                             R"("cache_read_input_tokens":1,"output_tokens":5})"));
}

TEST(Messages, PrintsAWholeAnswer) {
  const auto call = Messages(kHello + std::string(R"(,"stop_sequences":["x","y"])"));
  GeneratedAnswer answer;
  answer.model = "m";
  GeneratedChoice* const choice = answer.At(0);
  choice->content = "a";
  choice->reasoning = "t";
  choice->stop_string = 1;
  answer.usage = {4, 0, 2};
  EXPECT_EQ(NewMessagesPrinter(*call, "r")->Whole(answer),
            R"({"id":"msg_r","type":"message","role":"assistant","model":"m","content":[)"
            R"({"type":"thinking","thinking":"t","signature":""},{"type":"text","text":"a"}],)"
            R"("stop_reason":"stop_sequence","stop_sequence":"y","usage":{"input_tokens":4,)"
            R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}})");
  choice->calls.push_back({"c", "f", R"({"x":1})"});
  EXPECT_THAT(NewMessagesPrinter(*call, "r")->Whole(answer),
              HasSubstr(R"({"type":"tool_use","id":"c","name":"f","input":{"x":1}}],)"
                        R"("stop_reason":"tool_use","stop_sequence":null)"));
  choice->reason = generate::FinishReason::kLength;
  EXPECT_THAT(NewMessagesPrinter(*call, "r")->Whole(answer),
              HasSubstr(R"("stop_reason":"max_tokens")"));
}

}  // namespace
}  // namespace penstock::dialects
