#include "dialects/openai/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/print_test_util.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;
using Kind = reply::ReplyDelta::Kind;

Expected<ResponsesCall> Responses(const std::string& fields) {
  return Parsed(ParseResponsesCall, "{" + fields + "}");
}

const api::ChatPrompt& ChatOf(const TextCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompts.at(0).value);
}

constexpr const char* kTools =
    R"("input":"hi","tools":[{"type":"function","name":"f","description":"d","parameters":)"
    R"({"type":"object"},"strict":true},{"type":"web_search"},{"type":"function","name":"g"}])";

TEST(Responses, ItemsBecomeMessages) {
  const auto call = Responses(
      R"("instructions":"S","input":[{"role":"developer","content":"D"},)"
      R"({"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},)"
      R"({"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text",)"
      R"("text":"t"}]},{"type":"message","role":"assistant","content":[{"type":"output_text",)"
      R"("text":"b","annotations":[]}]},{"type":"function_call","call_id":"1","name":"f",)"
      R"("arguments":"{\"x\":1}"},{"type":"function_call","call_id":"2","name":"g",)"
      R"("arguments":"broken"},{"type":"function_call_output","call_id":"1","output":"r"},)"
      R"({"type":"function_call_output","call_id":"2","output":[{"type":"input_text",)"
      R"("text":"s"}]}])");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(
      ChatOf(*call).messages.Print(),
      R"([{"role":"system","content":"S\nD"},{"role":"user","content":"a"},)"
      R"({"role":"assistant","content":"b","reasoning":"t","reasoning_content":"t","tool_calls":[)"
      R"({"id":"1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
      R"({"id":"2","type":"function","function":{"name":"g","arguments":"broken"}}]},)"
      R"({"role":"tool","content":"r","name":"f","tool_call_id":"1"},)"
      R"({"role":"tool","content":"s","name":"g","tool_call_id":"2"}])");
}

TEST(Responses, ToolsAndTheirChoice) {
  const std::string tools = kTools;
  const auto call = Responses(tools);
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(ChatOf(*call).tools.Print(),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}])");
  EXPECT_EQ(call->request.tools->tools().size(), 2u);
  EXPECT_FALSE(call->request.requires_call);
  EXPECT_TRUE(Responses(tools + R"(,"tool_choice":"required")")->request.requires_call);
  EXPECT_EQ(
      Responses(tools + R"(,"tool_choice":{"type":"function","name":"g"})")->request.required_tool,
      "g");
  EXPECT_EQ(Responses(tools + R"(,"tool_choice":"none")")->request.tools, nullptr);
  const auto some =
      Responses(tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"required",)"
                        R"("tools":[{"type":"web_search"},{"type":"function","name":"g"}]})");
  EXPECT_TRUE(some->request.requires_call);
  ASSERT_EQ(some->request.tools->tools().size(), 1u);
  EXPECT_EQ(ChatOf(*some).tools.array()->size(), 1u);
}

TEST(Responses, FormatAndLogprobs) {
  const auto call =
      Responses(R"("input":"hi","text":{"format":{"type":"json_schema","name":"n","schema":{},)"
                R"("strict":true}},"include":["message.output_text.logprobs"],"top_logprobs":3,)"
                R"("reasoning":{"effort":"minimal"},"max_output_tokens":7)");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(call->request.grammar->field, "text.format.schema");
  EXPECT_TRUE(call->request.sampling.options.logprobs);
  EXPECT_EQ(call->request.sampling.options.top_logprobs, 3);
  EXPECT_EQ(call->request.sampling.options.max_tokens, 7);
  EXPECT_EQ(ChatOf(*call).kwargs.Print(),
            R"({"enable_thinking":false,"reasoning_effort":"minimal"})");
}

TEST(Responses, RefusesByName) {
  const auto field = [](const std::string& fields) { return Responses(fields).status().field(); };
  EXPECT_EQ(field(R"("model":"m")"), "input");
  EXPECT_EQ(field(R"("input":[])"), "input");
  EXPECT_EQ(field(R"("input":"x","previous_response_id":"r")"), "previous_response_id");
  EXPECT_EQ(field(R"("input":"x","store":true)"), "store");
  EXPECT_EQ(field(R"("input":"x","background":true)"), "background");
  EXPECT_EQ(field(R"("input":"x","truncation":"auto")"), "truncation");
  EXPECT_EQ(field(R"("input":[{"type":"item_reference","id":"x"}])"), "input[0]");
  EXPECT_EQ(field(R"("input":[{"type":"web_search_call"}])"), "input[0].type");
  EXPECT_EQ(field(R"("input":[{"role":"user","content":[{"type":"input_image"}]}])"),
            "input[0].content[0].type");
  EXPECT_EQ(field(R"("input":[{"role":"tool","content":"x"}])"), "input[0].role");
  EXPECT_EQ(field(R"("input":"x","tools":[{"name":"f"}])"), "tools[0].type");
  EXPECT_EQ(field(R"("input":"x","tools":[{"type":"function"}])"), "tools[0].name");
  EXPECT_EQ(field(R"("input":"x","tool_choice":"required")"), "tool_choice");
  const std::string tools = kTools;
  EXPECT_EQ(field(tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[)"
                          R"({"type":"function","name":"h"}]})"),
            "tool_choice.tools");
  EXPECT_EQ(field(R"("input":"x","text":{"format":{"type":"xml"}})"), "text.format");
  EXPECT_EQ(Responses(R"("input":"x","store":false,"previous_response_id":null)").status().code(),
            StatusCode::kOk);
}

TEST(Responses, StreamsItems) {
  auto call = Responses(kTools);
  const auto printer = NewResponsesPrinter(&*call, "r", 5);
  std::string out;
  printer->Begin({"m", {}, 4}, &out);
  api::GeneratedPart part;
  part.deltas = {Delta(Kind::kReasoning, "t"),     Delta(Kind::kContent, "a"),
                 Delta(Kind::kContent, "b"),       CallBegin("c1", "f"),
                 Delta(Kind::kCallArguments, "{"), Delta(Kind::kCallArguments, "}"),
                 Delta(Kind::kCallEnd, "")};
  printer->Part(part, &out);
  api::ChoiceEnd end;
  end.calls = 1;
  end.reasoning_tokens = 2;
  printer->End(end, &out);
  api::GenerateEnd all;
  all.usage = {4, 1, 5};
  printer->Finish(all, &out);
  EXPECT_THAT(
      EventTypes(out),
      testing::ElementsAre(
          "response.created", "response.in_progress", "response.output_item.added",
          "response.content_part.added", "response.reasoning_text.delta",
          "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
          "response.output_item.added", "response.content_part.added", "response.output_text.delta",
          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
          "response.output_item.done", "response.output_item.added",
          "response.function_call_arguments.delta", "response.function_call_arguments.delta",
          "response.function_call_arguments.done", "response.output_item.done",
          "response.completed"));
  // Every event has its number.
  for (int i = 0; i < 21; ++i) {
    EXPECT_THAT(out, HasSubstr("\"sequence_number\":" + std::to_string(i) + ","));
  }
  EXPECT_THAT(out, HasSubstr(R"("item_id":"msg_r_1","output_index":1,"content_index":0,)"
                             R"("delta":"b","logprobs":[])"));
  EXPECT_THAT(out, HasSubstr(R"("output":[{"id":"rs_r_0","type":"reasoning","summary":[],)"
                             R"("encrypted_content":null,"status":"completed","content":[)"
                             R"({"type":"reasoning_text","text":"t"}]},{"id":"msg_r_1",)"));
  EXPECT_THAT(out, HasSubstr(R"({"id":"fc_r_2","type":"function_call","status":"completed",)"
                             R"("call_id":"c1","name":"f","arguments":"{}"})"));
  EXPECT_THAT(out, HasSubstr(R"("usage":{"input_tokens":4,"input_tokens_details":)"
                             R"({"cached_tokens":1},"output_tokens":5,"output_tokens_details":)"
                             R"({"reasoning_tokens":2},"total_tokens":9})"));
}

TEST(Responses, StreamsThatBreakOffAndThatAreCut) {
  auto call = Responses(R"("input":"x")");
  const auto printer = NewResponsesPrinter(&*call, "r", 5);
  std::string out;
  printer->Begin({"m", {}, 4}, &out);
  api::GeneratedPart part;
  part.deltas = {Delta(Kind::kContent, "a")};
  printer->Part(part, &out);
  out.clear();
  printer->Error(Status::Internal("broken"), "", &out);
  EXPECT_EQ(EventTypes(out).back(), "response.failed");
  EXPECT_THAT(out, HasSubstr(R"("error":{"code":"server_error","message":"broken"})"));
  const auto second = NewResponsesPrinter(&*call, "r", 5);
  api::ChoiceEnd end;
  end.reason = generate::FinishReason::kLength;
  second->Part(part, &out);
  out.clear();
  second->End(end, &out);
  second->Finish({}, &out);
  EXPECT_EQ(EventTypes(out).back(), "response.incomplete");
  EXPECT_THAT(out, HasSubstr(R"("incomplete_details":{"reason":"max_output_tokens"})"));
  EXPECT_THAT(out, HasSubstr(R"("status":"incomplete","content":[{)"));
}

// A token without text belongs to the text that it becomes a part of; those of thinking and of
// calls are not of the message.
TEST(Responses, LogprobsAreThoseOfTheContent) {
  auto call = Responses(R"("input":"x","include":["message.output_text.logprobs"])");
  const auto printer = NewResponsesPrinter(&*call, "r", 5);
  std::string out;
  std::vector<api::TokenInfo> whole;
  ContentTokens content;
  const auto part = [&](int32_t id, std::vector<reply::ReplyDelta> deltas) {
    api::GeneratedPart made;
    made.deltas = std::move(deltas);
    made.token = api::TokenInfo{};
    made.token->bytes = "t" + std::to_string(id);
    content.Add(made, &whole);
    printer->Part(made, &out);
  };
  part(1, {Delta(Kind::kMarkup, "<think>")});
  part(2, {Delta(Kind::kReasoning, "r")});
  part(3, {});
  part(4, {Delta(Kind::kMarkup, "</think>")});
  part(5, {});
  part(6, {Delta(Kind::kContent, "c")});
  part(7, {CallBegin("c", "f")});
  printer->End({}, &out);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0].bytes + whole[1].bytes, "t5t6");
  const size_t at = out.find("response.output_text.done");
  EXPECT_THAT(out.substr(at), HasSubstr(R"("logprobs":[{"token":"t5")"));
  EXPECT_THAT(out, testing::Not(HasSubstr("\"t3\"")));
  EXPECT_THAT(out, testing::Not(HasSubstr("\"t7\"")));
}

TEST(Responses, PrintsAWholeAnswer) {
  auto call = Responses(std::string(kTools) + R"(,"temperature":0,"metadata":{"a":"b"})");
  GeneratedAnswer answer;
  answer.model = "m";
  GeneratedChoice* const choice = answer.At(0);
  choice->calls = {{"c1", "f", "{}"}, {"c2", "g", R"({"x":1})"}};
  answer.usage = {4, 0, 2};
  const std::string text = NewResponsesPrinter(&*call, "r", 5)->Whole(answer);
  EXPECT_TRUE(JsonDocument::Parse(text).ok()) << text;
  EXPECT_THAT(text, HasSubstr(R"({"id":"resp_r","object":"response","created_at":5,)"
                              R"("status":"completed","background":false,"error":null)"));
  EXPECT_THAT(text, HasSubstr(R"("output":[{"id":"fc_r_0","type":"function_call",)"));
  EXPECT_THAT(text, HasSubstr(R"("call_id":"c2","name":"g","arguments":"{\"x\":1}"}])"));
  EXPECT_THAT(text, HasSubstr(R"("metadata":{"a":"b"})"));
  EXPECT_THAT(text, HasSubstr(R"("temperature":0,)"));
  EXPECT_THAT(text, HasSubstr(R"("text":{"format":{"type":"text"}})"));
}

}  // namespace
}  // namespace penstock::dialects
