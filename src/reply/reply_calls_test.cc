// Calls of tools in the forms that models write them, well and badly.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <regex>
#include <string>

#include "reply/call_xml.h"
#include "reply/reply_test_util.h"

namespace penstock::reply {
namespace {

constexpr ToolForm kHermes = ToolForm::kHermes, kLlama = ToolForm::kLlama,
                   kMistral = ToolForm::kMistral, kCoder = ToolForm::kQwenCoder;

// All of `text` is content.
void ExpectContent(ToolForm form, const std::string& text) {
  const TestReply reply = ReadCalls(form, text);
  EXPECT_EQ(reply.content, text);
  EXPECT_EQ(CallsOf(reply), "");
}

TEST(HermesCalls, OneAndSeveral) {
  const TestReply one = ReadCalls(kHermes,
                                  "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                                  "{\"city\": \"Oslo\"}}\n</tool_call>");
  EXPECT_EQ(CallsOf(one), R"(get_weather({"city": "Oslo"}))");
  EXPECT_EQ(one.content, "");
  const TestReply two =
      ReadCalls(kHermes,
                "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"
                "<tool_call>\n{\"arguments\": {\"days\": 2}, \"name\": "
                "\"get_weather\"}\n</tool_call>\n");
  EXPECT_EQ(CallsOf(two), R"(now({}) get_weather({"days": 2}))");
  EXPECT_EQ(two.content, "");
  EXPECT_NE(two.calls[0].id, two.calls[1].id);
}

TEST(HermesCalls, TextBeforeBetweenAndBehind) {
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  const TestReply reply =
      ReadCalls(kHermes, "Before.\n\n" + call + "\nBetween " + call + " behind.\n");
  EXPECT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.content, "Before.\nBetween behind.\n");
  EXPECT_EQ(ReadCalls(kHermes, "\n" + call + " \n").content, "");
  const TestReply thought = ReadCalls(kHermes, "<think>\nUse it.\n</think>\n\n" + call);
  EXPECT_EQ(thought.reasoning, "Use it.");
  EXPECT_EQ(thought.content, "");
  EXPECT_EQ(CallsOf(thought), "now({})");
}

TEST(HermesCalls, StayReasoningInsideOfThinking) {
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  const TestReply reply = ReadCalls(kHermes, "<think>I would " + call + " it</think>" + call);
  EXPECT_EQ(reply.reasoning, "I would " + call + " it");
  EXPECT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(ReadCalls(kHermes, "<think>" + call).calls.size(), 0u);
}

TEST(HermesCalls, StringsMayHoldBracesMarkersAndEscapes) {
  for (const char* arguments : {
           R"({"text": "}{ ]] \" } </tool_call> <tool_call> <think>"})",
           R"({"text": "\u00e9\ud83d\ude00 \\ \/ \b\f\n\r\t"})",
           "{\"text\": \"\xF0\x9F\x98\x80 \xE6\x97\xA5\"}",
           R"({"a": {"b": [{"c": [1, -2.5e3, true, false, null, {}]}, []]}, "": ""})",
           "{ \"city\" :\n\t\"x\" , \"days\": 0 }",
           R"({"text": "mkdir -p test/{test1,test2"})",
       }) {
    const TestReply reply =
        ReadCalls(kHermes, std::string("<tool_call>{\"name\": \"write\", \"arguments\": ") +
                               arguments + "}</tool_call>ok");
    EXPECT_EQ(CallsOf(reply), std::string("write(") + arguments + ")");
    EXPECT_EQ(reply.content, "ok");
  }
}

TEST(HermesCalls, ArgumentsAreMissingOrAStringOrNull) {
  const auto arguments = [](const std::string& rest) {
    return CallsOf(ReadCalls(kHermes, "<tool_call>{\"name\": \"now\"" + rest + "}</tool_call>"));
  };
  EXPECT_EQ(arguments(""), "now({})");
  EXPECT_EQ(arguments(R"(, "arguments": {})"), "now({})");
  EXPECT_EQ(arguments(R"(, "arguments": null)"), "now({})");
  EXPECT_EQ(arguments(R"(, "arguments": "")"), "now({})");
  EXPECT_EQ(arguments(R"(, "arguments": "{\"a\": \"\u00e9 \\\"b\\\"\"}")"),
            "now({\"a\": \"\xC3\xA9 \\\"b\\\"\"})");
  EXPECT_EQ(arguments(R"(, "parameters": {"a": 1}, "id": "x", "n": [1, 2], "m": 7)"),
            R"(now({"a": 1}))");
  EXPECT_EQ(arguments(R"(, "arguments": "text")"), "");
  EXPECT_EQ(arguments(R"(, "arguments": "[1]")"), "");
  EXPECT_EQ(arguments(R"(, "arguments": [1])"), "");
  EXPECT_EQ(arguments(R"(, "arguments": 7)"), "");
}

TEST(HermesCalls, WhatIsNoCallIsContent) {
  for (const char* text : {
           "<tool_call>",
           "<tool_call>\n",
           "<tool_call>\n{",
           "<tool_call>\n{\"name\": \"now\", \"arguments\": ",
           "a\n\n<tool_call>{\"name\": \"now\", \"arguments\": ",
           "<tool_call></tool_call>",
           "<tool_call>now</tool_call> and",
           "<tool_call>{}</tool_call>",
           "<tool_call>[]</tool_call>",
           "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"name\": \"now\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
           "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"other\"}</tool_call>",
           "<tool_call>{'name': 'now', 'arguments': {}}</tool_call>",
           "Use <tool_call> and </tool_call>.",
           "<tool_call <tool_call",
           "{\"name\": \"now\", \"arguments\": {}}",
           "[TOOL_CALLS]now{}",
       }) {
    ExpectContent(kHermes, text);
  }
  // Told whole, a call that breaks off inside of its arguments is content as well.
  for (const char* text : {
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 01}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1,}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"line\nbreak\"}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"\\ud800\"}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": tru}}</tool_call>",
       }) {
    const TestReply reply = Read(WithTools(kHermes), text);
    EXPECT_EQ(reply.content, text);
    EXPECT_EQ(CallsOf(reply), "");
  }
}

TEST(HermesCalls, ABrokenOneDoesNotHideTheNext) {
  const TestReply reply = ReadCalls(kHermes,
                                    "<tool_call>{\"name\": \"now\", <tool_call>{\"name\": \"now\", "
                                    "\"arguments\": {}}</tool_call>");
  EXPECT_EQ(CallsOf(reply), "now({})");
  EXPECT_EQ(reply.content, "<tool_call>{\"name\": \"now\", ");
}

TEST(HermesCalls, BracketsAroundACallMayBeMissingOrTooMany) {
  const std::string call = R"({"name": "now", "arguments": {"a": 1})";
  EXPECT_EQ(CallsOf(ReadCalls(kHermes, "<tool_call>" + call + "}")), R"(now({"a": 1}))");
  // The brace around the call is missing.
  const TestReply open = ReadCalls(
      kHermes, "<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" + call + "}\n</tool_call>");
  EXPECT_EQ(CallsOf(open), R"(now({"a": 1}) now({"a": 1}))");
  EXPECT_EQ(open.content, "");
  // One brace too many.
  const TestReply more = ReadCalls(kHermes, "<tool_call>\n" + call + "}}\n</tool_call>");
  EXPECT_EQ(CallsOf(more), R"(now({"a": 1}))");
  EXPECT_EQ(more.content, "}");
  // Two in one tag.
  const TestReply two =
      ReadCalls(kHermes, "<tool_call>\n" + call + "}\n" + call + "}\n</tool_call>");
  EXPECT_EQ(CallsOf(two), R"(now({"a": 1}) now({"a": 1}))");
  EXPECT_EQ(two.content, "");
  // What follows the arguments breaks off.
  const TestReply tail = ReadCalls(kHermes, "<tool_call>" + call + ", \"id\": oops}</tool_call>");
  EXPECT_EQ(CallsOf(tail), R"(now({"a": 1}))");
  EXPECT_EQ(tail.content, ", \"id\": oops}");
}

TEST(HermesCalls, AnEndOfATagBelongsToACallOnce) {
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}})";
  const std::string broken = "<tool_call>broken</tool_call>";
  EXPECT_EQ(ReadCalls(kHermes, call + broken).content, broken);
  EXPECT_EQ(ReadCalls(kHermes, call + "</tool_call> a </tool_call>").content, " a </tool_call>");
  const std::string closed = "<tool_call><function=write><parameter=path>a</function></tool_call>";
  EXPECT_EQ(ReadCalls(kCoder, closed + "b</tool_call>").content, "b</tool_call>");
}

TEST(HermesCalls, NoneWithoutTools) {
  const std::string text = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  ReplyOptions options = WithTools(kHermes);
  options.tools = nullptr;
  EXPECT_EQ(Read(options, text).content, text);
  options.tools = std::make_shared<const ToolSet>(std::vector<ReplyTool>{});
  EXPECT_EQ(Read(options, text).content, text);
  EXPECT_EQ(Read(WithTools(ToolForm::kNone), text).content, text);
}

TEST(LlamaCalls, BareAndBehindTheTag) {
  const std::string call = R"({"name": "get_weather", "parameters": {"city": "Oslo"}})";
  const std::string expected = R"(get_weather({"city": "Oslo"}))";
  EXPECT_EQ(CallsOf(ReadCalls(kLlama, call)), expected);
  EXPECT_EQ(CallsOf(ReadCalls(kLlama, "<|python_tag|>" + call)), expected);
  EXPECT_EQ(CallsOf(ReadCalls(kLlama, R"({"type": "function", "name": "now", "parameters": {}})")),
            "now({})");
  for (const char* between :
       {";", "; ", ";\n", "\n", " ", "", " <|python_tag|>", "; <|python_tag|>"}) {
    const TestReply two = ReadCalls(kLlama, call + between + call);
    EXPECT_EQ(CallsOf(two), expected + " " + expected) << between;
    EXPECT_EQ(two.content, "") << between;
  }
  const TestReply around = ReadCalls(kLlama, "I look.\n\n" + call + "\nThe args were {\"q\": 1}.");
  EXPECT_EQ(CallsOf(around), expected);
  EXPECT_EQ(around.content, "I look.\nThe args were {\"q\": 1}.");
}

TEST(LlamaCalls, WhatIsNoCallIsContent) {
  for (const char* text : {
           "{\"name\": \"Alice\", \"age\": 7}",
           "{\"name\": \"now\"}",  // nothing says that it is a call
           "{\"name\": \"now\", \"age\": 7}",
           "{\n  \"a\": {\n    \"name\": \"now\"\n  }\n}",
           "Like {\"name\": \"now\", \"parameters\": {}}",  // not at the beginning of a line
           "<|python_tag|>brave_search.call(query=\"x\")",
           "<|python_tag|>import os\n{\"name",
           "<|python_tag|>",
           "{searchTool}",
           "int main() {\n  return 0; }",
           "; {",
       }) {
    ExpectContent(kLlama, text);
  }
}

TEST(MistralCalls, Array) {
  const std::string a = R"({"name": "now", "arguments": {}})";
  const std::string b =
      R"({"name": "get_weather", "arguments": {"city": "[x]"}, "id": "abcdefghi"})";
  const std::string expected = R"(now({}) get_weather({"city": "[x]"}))";
  for (const std::string& text :
       {"[TOOL_CALLS][" + a + ", " + b + "]", " [TOOL_CALLS] [" + a + ",\n" + b + " ] ",
        "[TOOL_CALLS][" + a + "," + b}) {
    const TestReply reply = ReadCalls(kMistral, text);
    EXPECT_EQ(CallsOf(reply), expected);
    EXPECT_EQ(reply.content, "");
    EXPECT_EQ(reply.calls[0].id.size(), 9u);
  }
  EXPECT_EQ(CallsOf(ReadCalls(kMistral, "[TOOL_CALLS]" + a)), "now({})");
  const TestReply cut = ReadCalls(kMistral, "[TOOL_CALLS][" + a + ", {\"name\": \"get_weather\", ");
  EXPECT_EQ(CallsOf(cut), "now({})");
  EXPECT_EQ(cut.content, ", {\"name\": \"get_weather\", ");
  const TestReply around = ReadCalls(kMistral, "Text [TOOL_CALLS][" + a + "] see [1]");
  EXPECT_EQ(CallsOf(around), "now({})");
  EXPECT_EQ(around.content, "Text see [1]");
}

TEST(MistralCalls, NameAndArguments) {
  const std::string expected = R"(now({}) get_weather({"city": "[ARGS]"}))";
  for (
      const char* text : {
          R"([TOOL_CALLS]now{}[TOOL_CALLS]get_weather{"city": "[ARGS]"})",
          R"([TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{"city": "[ARGS]"})",
          R"([TOOL_CALLS]now[CALL_ID]abcDEF123[ARGS]{} [TOOL_CALLS] get_weather {"city": "[ARGS]"})",
      }) {
    const TestReply reply = ReadCalls(kMistral, text);
    EXPECT_EQ(CallsOf(reply), expected);
    EXPECT_EQ(reply.content, "");
  }
}

// Streamed arguments that break off: the byte that breaks them is content, told once.
TEST(MistralCalls, BrokenWhileStreaming) {
  for (const char* arguments :
       {R"({"city": x})", R"({])", R"({"city": "a" "b"})", R"({"a":1,,})"}) {
    const std::string text = "[TOOL_CALLS]get_weather" + std::string(arguments) + " so";
    const TestReply streamed = Read(WithTools(kMistral, true), text);
    EXPECT_EQ(streamed.text, text);
    ASSERT_EQ(streamed.calls.size(), 1u) << text;
    EXPECT_FALSE(streamed.calls[0].complete) << text;
    EXPECT_EQ(streamed.calls[0].raw + streamed.content, text);
    EXPECT_TRUE(streamed.calls[0].raw.ends_with(streamed.calls[0].arguments));
    EXPECT_EQ(Read(WithTools(kMistral), text).content, text);
  }
}

TEST(MistralCalls, WhatIsNoCallIsContent) {
  for (const char* text : {
           "[TOOL_CALLS]",
           "[TOOL_CALLS][]",
           "[TOOL_CALLS][[",
           "[TOOL_CALLS][now{}",
           "[TOOL_CALLS]other{}",
           "[TOOL_CALLS]now[ARG]{}",
           "[TOOL_CALLS]now[ARGS][1]",
           "[TOOL_CALLS]now[CALL_ID]a b[ARGS]{}",
           "[TOOL_CALLS]now",
           "[TOOL_CALLS]now is the time",
           "a [TOOL",
           "a[0] = [1, 2]; {\"name\": \"now\", \"arguments\": {}}",
       }) {
    ExpectContent(kMistral, text);
  }
  ExpectContent(kMistral, "[TOOL_CALLS]" + std::string(300, 'n') + "{}");
}

TEST(QwenCoderCalls, TypedBySchema) {
  const TestReply reply = ReadCalls(kCoder,
                                    "I write.\n\n<tool_call>\n<function=write>\n"
                                    "<parameter=path>\n/tmp/x\n</parameter>\n"
                                    "<parameter=text>\n    if x < 1:\n        return \"\\n\"\n\n"
                                    "</parameter>\n"
                                    "<parameter=mode>\n420\n</parameter>\n"
                                    "<parameter=force>True</parameter>"
                                    "<parameter=tags>[\"a\", {\"b\": 1}]</parameter>\n"
                                    "<parameter=note>null</parameter>\n"
                                    "</function>\n</tool_call>");
  EXPECT_EQ(reply.content, "I write.");
  EXPECT_EQ(CallsOf(reply),
            R"(write({"path": "/tmp/x", "text": "    if x < 1:\n        return \"\\n\"\n", )"
            R"("mode": 420, "force": true, "tags": ["a", {"b": 1}], "note": null}))");
}

TEST(QwenCoderCalls, SeveralAndAround) {
  const std::string call = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
  const TestReply two = ReadCalls(kCoder, "before" + call + "\n" + call + "after");
  EXPECT_EQ(CallsOf(two), "now({}) now({})");
  EXPECT_EQ(two.content, "beforeafter");
  // Without the tag, or with two functions in one.
  EXPECT_EQ(CallsOf(ReadCalls(kCoder, "<function=now>\n</function>\n</tool_call>")), "now({})");
  EXPECT_EQ(ReadCalls(kCoder, "<function=now>\n</function>\n</tool_call>").content, "");
  const TestReply one_tag = ReadCalls(
      kCoder, "<tool_call><function=now></function>\n<function=now></function></tool_call>");
  EXPECT_EQ(CallsOf(one_tag), "now({}) now({})");
  EXPECT_EQ(one_tag.content, "");
  // Each of the two forms with tags is understood for both.
  EXPECT_EQ(CallsOf(ReadCalls(kHermes, call)), "now({})");
  EXPECT_EQ(
      CallsOf(ReadCalls(kCoder, R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)")),
      "now({})");
}

TEST(QwenCoderCalls, EndsOfParametersMayBeMissing) {
  const TestReply last = ReadCalls(kCoder,
                                   "<tool_call>\n<function=write>\n<parameter=path>\na</b>\n"
                                   "</function>\n</tool_call>\n");
  EXPECT_EQ(CallsOf(last), R"(write({"path": "a</b>"}))");
  EXPECT_EQ(last.content, "");
  const TestReply first = ReadCalls(kCoder,
                                    "<tool_call>\n<function=write>\n<parameter=path>\na\n"
                                    "<parameter=mode>\n1\n</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(CallsOf(first), R"(write({"path": "a", "mode": 1}))");
  // So much whitespace is text.
  const std::string spaces(CallXml::kSpacesMax + 1, ' ');
  const TestReply far = ReadCalls(kCoder, "<function=write><parameter=text>a</function>" + spaces +
                                              "</tool_call></parameter></function></tool_call>");
  EXPECT_EQ(CallsOf(far), "write({\"text\": \"a</function>" + spaces + "</tool_call>\"})");
  // Tags in a value that is closed are its text.
  const TestReply value =
      ReadCalls(kCoder,
                "<tool_call><function=write><parameter=text>x </function> "
                "<parameter=y> </tool_call></parameter></function></tool_call>");
  EXPECT_EQ(CallsOf(value), R"(write({"text": "x </function> <parameter=y> </tool_call>"}))");
}

// The value at the front of `text`, by trying every place where it may end.
bool FindValue(const std::string& text, std::string* value) {
  static const std::regex kEnd(
      "(</parameter>|\n<parameter=|</function>[ \t\r\n]{0,64}</tool_call>)$");
  for (size_t size = 1; size <= text.size(); ++size) {
    const std::string front = text.substr(0, size);
    std::smatch end;
    if (front.back() != '>' && front.back() != '=') continue;
    if (!std::regex_search(front, end, kEnd)) continue;
    std::string found = end.prefix();
    if (end.str()[0] == '\n') found += '\n';
    if (found.starts_with('\n')) found.erase(0, 1);
    if (found.ends_with('\n')) found.pop_back();
    *value = found;
    return true;
  }
  return false;
}

TEST(QwenCoderCalls, ValuesAgreeWithBruteForce) {
  std::mt19937 random(3);
  const std::string pieces[] = {"\n",
                                "\n",
                                "<",
                                "</",
                                "a",
                                " ",
                                "\xC3\xA9",
                                "\xF0\x9F\x98\x80",
                                "</parameter",
                                "</parameter>",
                                "<parameter=",
                                "</function>",
                                "</tool_call>",
                                "</tool_",
                                "\""};
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const size_t count = 1 + random() % 9;
    for (size_t i = 0; i < count; ++i) text += pieces[random() % std::size(pieces)];
    const std::string front = "<tool_call><function=write><parameter=text>";
    const TestReply reply =
        Collected(Deltas(WithTools(kCoder, true), front + text, {1 + random() % 5}));
    ASSERT_EQ(reply.text, front + text);
    std::string value;
    if (!FindValue(text, &value)) continue;
    ++found;
    ASSERT_EQ(reply.calls.size(), 1u) << text;
    std::string arguments = reply.calls[0].arguments;
    if (!reply.calls[0].complete) arguments += '}';
    const auto document = JsonDocument::Parse(arguments);
    ASSERT_TRUE(document.ok()) << arguments;
    ASSERT_EQ(*document->Object()->GetString("text"), value) << text;
  }
  EXPECT_GT(found, 5000);
}

TEST(QwenCoderCalls, WhatIsNoCallIsContent) {
  for (const char* text : {
           "<tool_call><function=other></function></tool_call>",
           "<tool_call><function=now>text</function></tool_call>",
           "<tool_call><function=now",
           "<tool_call><function=now>\n</func",
           "<tool_call>\n<fun>",
           "<function=",
           "<function=now\n></function>",
           "<tool_call><function=write><parameter=mode>half a val",
           "<tool_call><function=write><parameter=pa<th>1</parameter></function></tool_call>",
       }) {
    ExpectContent(kCoder, text);
  }
  const std::string half = "<tool_call><function=write><parameter=path>half a val";
  EXPECT_EQ(Read(WithTools(kCoder), half).content, half);
  const std::string twice =
      "<tool_call><function=write><parameter=path>1</parameter><parameter=path>2</parameter>"
      "</function></tool_call>";
  // The first one may have been told before the second comes.
  EXPECT_EQ(CallsOf(ReadCalls(kCoder, twice)), "write({\"path\": \"1\"})");
}

}  // namespace
}  // namespace penstock::reply
