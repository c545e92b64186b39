#include "reply/reply_parser.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "reply/call_id.h"
#include "reply/reply_test_util.h"

namespace penstock::reply {
namespace {

ReplyOptions Thinking(bool begins = false) {
  ReplyOptions options;
  options.format = {"<think>", "</think>", begins, ToolForm::kNone};
  return options;
}

TEST(ReplyParser, TellsThinkingFromContent) {
  const TestReply reply = Read(Thinking(), "<think>\nOne, two.\n\nThree.\n</think>\n\nFour.\n");
  EXPECT_EQ(reply.reasoning, "One, two.\n\nThree.");
  EXPECT_EQ(reply.content, "Four.\n");
}

TEST(ReplyParser, BeginsInsideWhereThePromptOpenedTheBlock) {
  EXPECT_EQ(Read(Thinking(true), "\nHm.\n</think>\n\nYes").reasoning, "Hm.");
  EXPECT_EQ(Read(Thinking(true), "\nHm.\n</think>\n\nYes").content, "Yes");
  // The model repeats the marker.
  const TestReply again = Read(Thinking(true), "\n<think>\nHm. <think></think>Yes");
  EXPECT_EQ(again.reasoning, "Hm. <think>");
  EXPECT_EQ(again.content, "Yes");
}

TEST(ReplyParser, ABlockThatNeverEndsIsReasoning) {
  EXPECT_EQ(Read(Thinking(), "<think>on and on </thin \n").reasoning, "on and on </thin \n");
  EXPECT_EQ(Read(Thinking(true), "on and on</think").reasoning, "on and on</think");
  EXPECT_EQ(Read(Thinking(true), "").reasoning, "");
}

TEST(ReplyParser, AnEmptyBlockLeavesNothing) {
  const TestReply reply = Read(Thinking(), "<think>\n\n</think>\n\nHello");
  EXPECT_EQ(reply.reasoning, "");
  EXPECT_EQ(reply.content, "Hello");
  EXPECT_EQ(Read(Thinking(true), "</think>").content, "");
}

TEST(ReplyParser, SeveralBlocksInARowButNoneBehindContent) {
  const TestReply row = Read(Thinking(), " <think>a</think>\n<think>b</think> c");
  EXPECT_EQ(row.reasoning, "ab");
  EXPECT_EQ(row.content, "c");
  const TestReply behind = Read(Thinking(), "<think>a</think>b <think>c</think>d</think>");
  EXPECT_EQ(behind.reasoning, "a");
  EXPECT_EQ(behind.content, "b <think>c</think>d</think>");
  EXPECT_EQ(Read(Thinking(), "The tag <think> opens.").content, "The tag <think> opens.");
  EXPECT_EQ(Read(Thinking(), "no block </think> here").content, "no block </think> here");
}

TEST(ReplyParser, KeepsWhitespaceOfPlainReplies) {
  for (const char* text :
       {"\n\n  Hello \n", " \n", "a\n\n<b>\n", "<<think", "<\xC3\xA9<th\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(Read(Thinking(), text).content, text);
    EXPECT_EQ(Read(ReplyOptions(), text).content, text);
    EXPECT_EQ(Read(WithTools(ToolForm::kHermes), text).content, text);
  }
  const std::string spaces(1000, '\n');
  EXPECT_EQ(Read(WithTools(ToolForm::kHermes), spaces).content, spaces);
  EXPECT_EQ(Read(Thinking(true), "a" + spaces + "b").reasoning, "a" + spaces + "b");
}

TEST(ReplyParser, OtherMarkersOfThinking) {
  ReplyOptions options = Thinking();
  options.format.think_begin = "[THINK]";
  options.format.think_end = "[/THINK]";
  const TestReply reply = Read(options, "[THINK]one [/two][/THINK]three");
  EXPECT_EQ(reply.reasoning, "one [/two]");
  EXPECT_EQ(reply.content, "three");
}

// What has been given out of `text` before its end is known.
std::string GivenOut(const ReplyOptions& options, std::string_view text) {
  ReplyParser parser(options);
  std::vector<ReplyDelta> deltas;
  parser.Add(text, &deltas);
  const TestReply reply = Collected(deltas);
  EXPECT_EQ(reply.text.size() + parser.held_bytes(), text.size());
  return reply.text;
}

TEST(ReplyParser, HoldsBackOnlyWhatMayBecomeAMarker) {
  const ReplyOptions hermes = WithTools(ToolForm::kHermes);
  EXPECT_EQ(GivenOut(hermes, "a <tool"), "a");
  EXPECT_EQ(GivenOut(hermes, "a <toot"), "a <toot");
  EXPECT_EQ(GivenOut(hermes, "a <th"), "a <th");  // thinking is over
  EXPECT_EQ(GivenOut(hermes, "<th"), "");
  EXPECT_EQ(GivenOut(hermes, "<tool_call> x"), "<tool_call> x");
  EXPECT_EQ(GivenOut(hermes, "<tool_call>{\"name\": \"no\""), "<tool_call>{\"name\": \"no\"");
  EXPECT_EQ(GivenOut(hermes, "<tool_call>{\"name\": \"now\""), "");
  EXPECT_EQ(GivenOut(Thinking(true), "Hm </think"), "Hm");
  EXPECT_EQ(GivenOut(Thinking(true), "Hm </thinly"), "Hm </thinly");
  EXPECT_EQ(GivenOut(Thinking(), "a <th"), "a <th");
  EXPECT_GT(GivenOut(hermes, std::string(200, '\n')).size(), 100u);
  EXPECT_GT(GivenOut(Thinking(true), "a" + std::string(200, '\n')).size(), 100u);
  const ReplyOptions llama = WithTools(ToolForm::kLlama);
  EXPECT_EQ(GivenOut(llama, "{\"na"), "");
  EXPECT_EQ(GivenOut(llama, "{\"no"), "{\"no");
  EXPECT_EQ(GivenOut(llama, "int f() {"), "int f() {");
  EXPECT_EQ(GivenOut(llama, "x\n{"), "x");
  EXPECT_EQ(GivenOut(llama, "x\n{ return"), "x\n{ return");
}

TEST(ReplyParser, ACallIsToldBeforeTheNextBegins) {
  for (const bool streams : {false, true}) {
    ReplyParser parser(WithTools(ToolForm::kMistral, streams));
    std::vector<ReplyDelta> deltas;
    parser.Add(R"([TOOL_CALLS][{"name": "now", "arguments": {}})", &deltas);
    ASSERT_EQ(deltas.size(), 3u);
    EXPECT_EQ(deltas[2].kind, ReplyDelta::Kind::kCallEnd);
  }
}

TEST(ReplyParser, StreamedArgumentsComeAsTheyAreWritten) {
  ReplyParser parser(WithTools(ToolForm::kHermes, true));
  const auto add = [&](std::string_view text) {
    std::vector<ReplyDelta> deltas;
    parser.Add(text, &deltas);
    return Printed(deltas);
  };
  EXPECT_EQ(add("<tool_call>\n{\"name\": \"get_weather\""), "");
  EXPECT_EQ(add(", \"arguments\": "), "");
  EXPECT_EQ(add("{\"ci"),
            "2 0 [] " + CallId(ToolForm::kHermes, 42, 0) + " get_weather\n" + "3 0 [{\"ci]  \n");
  EXPECT_EQ(add("ty\": \"Oslo\\u00"), "3 0 [ty\": \"Oslo\\u00]  \n");
  EXPECT_EQ(add("e9\"}"), "3 0 [e9\"}]  \n");
  EXPECT_TRUE(add("}").starts_with("4 0 ["));
  EXPECT_EQ(add("\n</tool_call>"), "5 -1 [\n</tool_call>]  \n");
}

// With the arguments told as they come a call cannot be taken back.
TEST(ReplyParser, AStreamedCallThatBreaksOffEndsIncompleteAndTheRestIsContent) {
  const ReplyOptions hermes = WithTools(ToolForm::kHermes, true);
  const TestReply broken =
      Read(hermes, R"(<tool_call>{"name": "now", "arguments": {"a": oops}}</tool_call> more)");
  ASSERT_EQ(broken.calls.size(), 1u);
  EXPECT_FALSE(broken.calls[0].complete);
  EXPECT_EQ(broken.calls[0].arguments, R"({"a": )");
  EXPECT_EQ(broken.content, "oops}}</tool_call> more");
  const TestReply cut = Read(hermes, R"(<tool_call>{"name": "now", "arguments": {"a": "b)");
  EXPECT_EQ(CallsOf(cut), "now({\"a\": \"b)");
  EXPECT_EQ(cut.content, "");
  // Half a number is content, half a text is told.
  const std::string coder = "<tool_call><function=write><parameter=path>a</parameter>\n";
  const TestReply number = Read(WithTools(ToolForm::kQwenCoder, true), coder + "<parameter=mode>4");
  EXPECT_EQ(CallsOf(number), R"(write({"path": "a"))");
  EXPECT_EQ(number.content, "\n<parameter=mode>4");
  const TestReply open = Read(WithTools(ToolForm::kQwenCoder, true),
                              "<function=write><parameter=path>a\n<parameter=mode>4");
  EXPECT_EQ(CallsOf(open), R"(write({"path": "a"))");
  EXPECT_EQ(open.content, "<parameter=mode>4");
  const TestReply text =
      Read(WithTools(ToolForm::kQwenCoder, true), coder + "<parameter=text>\nhalf\n</para");
  EXPECT_EQ(CallsOf(text), R"(write({"path": "a", "text": "half))");
  EXPECT_EQ(text.content, "\n</para");
}

TEST(ReplyParser, TextOfAParameterComesAsItIsWritten) {
  ReplyParser parser(WithTools(ToolForm::kQwenCoder, true));
  const auto add = [&](std::string_view text) {
    std::vector<ReplyDelta> deltas;
    parser.Add(text, &deltas);
    std::string told;
    for (const ReplyDelta& delta : deltas) {
      if (delta.kind == ReplyDelta::Kind::kCallArguments) told += delta.text;
    }
    return told;
  };
  EXPECT_EQ(add("<tool_call>\n<function=write>\n<parameter=text>\n"), "");
  EXPECT_EQ(add("if a"), R"({"text": "if a)");
  EXPECT_EQ(add(" <"), " ");
  EXPECT_EQ(add(" b:\n"), "< b:");
  EXPECT_EQ(add("\n"), R"(\n)");  // one of the two may belong to the tag
  EXPECT_EQ(add("</function>\n\n</tool"), "");
  EXPECT_EQ(add("box>"), R"(\n</function>\n\n</toolbox>)");
  EXPECT_EQ(add("\xE6\x97\xA5</parameter"), "\xE6\x97\xA5");
  EXPECT_EQ(add(">\n<parameter=mode>\n4"), "\"");
  EXPECT_EQ(add("\n</parameter>"), R"(, "mode": 4)");
  EXPECT_EQ(add("</function>"), "}");
}

TEST(ReplyParser, LimitsOfCalls) {
  for (const bool streams : {false, true}) {
    ReplyOptions options = WithTools(ToolForm::kHermes, streams);
    const std::string call =
        R"(<tool_call>{"name": "now", "arguments": {"a": "xy\u00e9"}}</tool_call>)";
    options.limits.calls_max = 2;
    const TestReply many = Read(options, call + "\n" + call + "\n" + call);
    EXPECT_EQ(many.calls.size(), 2u);
    EXPECT_EQ(many.content, "\n" + call);
    ReplyOptions llama = WithTools(ToolForm::kLlama, streams);
    llama.limits.calls_max = 1;
    const TestReply last = Read(llama, R"({"name": "now", "parameters": {}};)"
                                       "\n");
    EXPECT_EQ(last.calls.size(), 1u);
    EXPECT_EQ(last.content, "");  // text after the last call is not content either

    const size_t json_end = call.find("</tool_call>");
    options.limits.call_bytes_max = json_end;
    EXPECT_EQ(Read(options, call).calls.size(), 1u);
    options.limits.call_bytes_max = json_end - 3;  // inside of the arguments
    const TestReply longer = Read(options, call);
    EXPECT_EQ(longer.calls.size(), streams ? 1u : 0u);
    EXPECT_EQ(longer.content, streams ? "\"}}</tool_call>" : call);

    options = WithTools(ToolForm::kHermes, streams);
    options.limits.call.json_depth_max = 3;
    const auto nested = [](const std::string& value) {
      return R"(<tool_call>{"name": "now", "arguments": {"a": )" + value + "}}</tool_call>";
    };
    EXPECT_EQ(CallsOf(Read(options, nested("[[1]]"))), R"(now({"a": [[1]]}))");
    EXPECT_EQ(Read(options, nested("[[[1]]]")).content,
              streams ? "[1]]]}}</tool_call>" : nested("[[[1]]]"));
  }
}

TEST(ReplyParser, AMultibyteCharacterIsNotCutByALimit) {
  ReplyOptions options = WithTools(ToolForm::kHermes, true);
  const std::string text =
      "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": "
      "\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\"}}";
  for (size_t bytes = 20; bytes < text.size(); ++bytes) {
    options.limits.call_bytes_max = bytes;
    const TestReply reply = Collected(Deltas(options, text, {text.size()}));
    EXPECT_NE(static_cast<unsigned char>(reply.content.empty() ? 0 : reply.content[0]) & 0xC0,
              0x80u);
    EXPECT_EQ(reply.text, text);
  }
}

TEST(ReplyParser, Ids) {
  const std::string id = CallId(ToolForm::kHermes, 1, 0);
  EXPECT_EQ(id.size(), 29u);
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_EQ(id, CallId(ToolForm::kQwenCoder, 1, 0));
  EXPECT_NE(id, CallId(ToolForm::kHermes, 1, 1));
  EXPECT_NE(id, CallId(ToolForm::kHermes, 2, 0));
  EXPECT_NE(CallId(ToolForm::kHermes, 1, 1), CallId(ToolForm::kHermes, 2, 0));
  const std::string mistral = CallId(ToolForm::kMistral, 1, 0);
  EXPECT_EQ(mistral.size(), 9u);
  for (const char c : mistral) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)));
}

}  // namespace
}  // namespace penstock::reply
