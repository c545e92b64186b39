// `functions` and `function_call`, in requests, conversations and answers.
#include "dialects/openai/legacy_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/openai/chat.h"
#include "dialects/openai/chat_print.h"
#include "dialects/shared/print_test_util.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kAsk = R"({"messages":[{"role":"user","content":"q"}],)";
constexpr const char* kFunctions =
    R"("functions":[{"name":"f","description":"d","parameters":{"type":"object"}},{"name":"g"}])";

const api::ChatPrompt& ChatOf(const TextCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompts.at(0).value);
}

reply::ReplyDelta CallOf(reply::ReplyDelta::Kind kind, const std::string& text) {
  reply::ReplyDelta delta = Delta(kind, text);
  delta.call = 0;
  if (kind == reply::ReplyDelta::Kind::kCallBegin) delta.name = "f";
  return delta;
}

TEST(LegacyFunctions, AreTools) {
  const auto call = ParseChatCall(std::string(kAsk) + kFunctions + "}");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_TRUE(call->has_functions);
  EXPECT_FALSE(call->request.parallel_calls);
  EXPECT_FALSE(call->request.requires_call);
  ASSERT_NE(call->request.tools, nullptr);
  EXPECT_EQ(call->request.tools->Find("f")->parameters, R"({"type":"object"})");
  EXPECT_EQ(ChatOf(*call).tools.Print(),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":)"
            R"({"type":"object"}}},{"type":"function","function":{"name":"g"}}])");
}

TEST(LegacyFunctions, AChoice) {
  const std::string begin = std::string(kAsk) + kFunctions + R"(,"function_call":)";
  const auto named = ParseChatCall(begin + R"({"name":"g"}})");
  ASSERT_TRUE(named.ok()) << named.status().ToString();
  EXPECT_TRUE(named->request.requires_call);
  EXPECT_EQ(named->request.required_tool, "g");
  const auto none = ParseChatCall(begin + R"("none"})");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->request.tools, nullptr);
  EXPECT_TRUE(ChatOf(*none).tools.is_null());
  EXPECT_TRUE(ParseChatCall(begin + R"("auto"})").ok());
  for (const char* choice : {R"({"name":"h"})", R"("required")", "5", R"({"nam":"g"})"}) {
    const auto call = ParseChatCall(begin + choice + "}");
    EXPECT_FALSE(call.ok()) << choice;
    EXPECT_THAT(call.status().field(), HasSubstr("function_call")) << choice;
  }
  const auto both = ParseChatCall(std::string(kAsk) + kFunctions + R"(,"tools":[]})");
  EXPECT_EQ(both.status().field(), "functions");
}

TEST(LegacyFunctions, MessagesBecomeCallsAndTheirResults) {
  const auto call = ParseChatCall(
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,)"
      R"("function_call":{"name":"f","arguments":"{\"a\":1}"}},{"role":"function","name":"f",)"
      R"("content":"r"},{"role":"assistant","function_call":{"name":"g","arguments":"x"}},)"
      R"({"role":"function","name":"g","content":"s"}]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const chat::JsonValue::Array& messages = *ChatOf(*call).messages.array();
  const std::string first = messages[1].Print();
  EXPECT_THAT(first, HasSubstr(R"("tool_calls":[{"id":"call00001","type":"function","function":)"
                               R"({"name":"f","arguments":{"a":1}}}])"));
  EXPECT_EQ(*messages[2].Find("role")->string(), "tool");
  EXPECT_EQ(*messages[2].Find("tool_call_id")->string(), "call00001");
  EXPECT_EQ(*messages[4].Find("tool_call_id")->string(), "call00002");
  EXPECT_EQ(*messages[4].Find("content")->string(), "s");
  const auto both = ParseChatCall(
      R"({"messages":[{"role":"assistant","function_call":{"name":"f"},"tool_calls":[{}]}]})");
  EXPECT_EQ(both.status().field(), "messages[0].function_call");
}

TEST(LegacyFunctions, AnAnswer) {
  TextCall call;
  call.has_functions = true;
  const auto printer = NewChatPrinter(call, "7", 5);
  GeneratedAnswer answer;
  answer.model = "m";
  const auto begin = CallOf(reply::ReplyDelta::Kind::kCallBegin, "");
  using Kind = reply::ReplyDelta::Kind;
  answer.Add({begin, CallOf(Kind::kCallArguments, "{}"), CallOf(Kind::kCallEnd, "x")},
             answer.At(0));
  EXPECT_THAT(printer->Whole(answer),
              HasSubstr(R"("function_call":{"name":"f","arguments":"{}"})"));
  EXPECT_THAT(printer->Whole(answer), HasSubstr(R"("finish_reason":"function_call")"));
  EXPECT_THAT(printer->Whole(answer), Not(HasSubstr("tool_calls")));
  std::string out;
  printer->Part({0, {begin, CallOf(Kind::kCallArguments, "{\"a\":")}, {}}, &out);
  EXPECT_THAT(out, HasSubstr(R"("delta":{"function_call":{"name":"f","arguments":""}})"));
  EXPECT_THAT(out, HasSubstr(R"("delta":{"function_call":{"arguments":"{\"a\":"}})"));
}

}  // namespace
}  // namespace penstock::dialects
