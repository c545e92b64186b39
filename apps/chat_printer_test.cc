#include "chat_printer.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace penstock::cli {
namespace {

using Kind = reply::ReplyDelta::Kind;

std::string Printed(ChatPrinterOptions options,
                    const std::vector<std::pair<Kind, std::string>>& parts) {
  std::string out;
  ChatPrinter printer(options, [&out](std::string_view text) { out += text; });
  for (const auto& [kind, text] : parts) {
    reply::ReplyDelta delta;
    delta.kind = kind;
    delta.text = text;
    printer.Add(delta);
  }
  printer.End();
  return out;
}

const std::vector<std::pair<Kind, std::string>> kThought = {
    {Kind::kMarkup, "<think>\n"},      {Kind::kReasoning, "hm, "}, {Kind::kReasoning, "well"},
    {Kind::kMarkup, "\n</think>\n\n"}, {Kind::kContent, "Yes"},    {Kind::kContent, "."}};

TEST(ChatPrinter, ThinkingIsDim) {
  EXPECT_EQ(Printed({.terminal = true, .colour = true}, kThought),
            "\x1b[2mhm, well\n\x1b[0m\nYes.\n");
}

TEST(ChatPrinter, WithoutColourThinkingHasMarkers) {
  EXPECT_EQ(Printed({.terminal = true}, kThought), "<think>\nhm, well\n</think>\nYes.\n");
}

TEST(ChatPrinter, HiddenThinkingIsToldOnATerminalAlone) {
  EXPECT_EQ(Printed({.terminal = true, .thinking = false}, kThought), "(thinking)\nYes.\n");
  EXPECT_EQ(Printed({.thinking = false}, kThought), "Yes.\n");
}

TEST(ChatPrinter, AReplyThatEndsInItsThoughtsLeavesNothingDim) {
  EXPECT_EQ(Printed({.terminal = true, .colour = true}, {{Kind::kReasoning, "hm"}}),
            "\x1b[2mhm\n\x1b[0m\n");
}

TEST(ChatPrinter, APipeGetsTheBytesAndALineBreak) {
  EXPECT_EQ(Printed({}, {{Kind::kContent, "a\x1b[31m\n"}}), "a\x1b[31m\n\n");
  EXPECT_EQ(Printed({.terminal = true}, {{Kind::kContent, "a\n"}}), "a\n");
  EXPECT_EQ(Printed({}, {}), "\n");
}

TEST(ChatPrinter, ControlsDoNotReachATerminal) {
  EXPECT_EQ(Printed({.terminal = true}, {{Kind::kContent, "a\x1b[2J\tb\nc\r\x07\xc2\x9b"}}),
            "a\\x1b[2J\tb\nc\\r\\x07\\u{9b}\n");
  EXPECT_EQ(TerminalText("\n\n\té \xe2\x80\xae!"), "\n\n\té \\u{202e}!");
  EXPECT_EQ(TerminalText(std::string(10000, 'x')), std::string(10000, 'x'));
}

}  // namespace
}  // namespace penstock::cli
