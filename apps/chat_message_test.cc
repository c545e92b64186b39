#include "chat_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::cli {
namespace {

using testing::HasSubstr;
using Kind = ChatInputText::Kind;

// The message of these lines, of which the last one is to make it whole.
ChatInputText Read(const std::vector<std::string>& lines) {
  MessageLines message;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(message.Add(lines[i]), i + 1 == lines.size()) << lines[i];
  }
  EXPECT_TRUE(message.open());
  ChatInputText input = message.Take();
  EXPECT_FALSE(message.open());
  return input;
}

std::string MessageOf(const std::vector<std::string>& lines) {
  const ChatInputText input = Read(lines);
  EXPECT_EQ(input.kind, Kind::kMessage);
  return input.text;
}

TEST(MessageLines, ALineIsAMessageAsItWasTyped) {
  EXPECT_EQ(MessageOf({"Hello"}), "Hello");
  EXPECT_EQ(MessageOf({"  two  spaces "}), "  two  spaces ");
  EXPECT_EQ(MessageOf({"is \"\"\" a quote?"}), "is \"\"\" a quote?");
  EXPECT_EQ(Read({""}).kind, Kind::kNothing);
  EXPECT_EQ(Read({" \t"}).kind, Kind::kNothing);
}

TEST(MessageLines, QuotesHoldSeveralLines) {
  EXPECT_EQ(MessageOf({"\"\"\"", "one", "", "two\\", "\"\"\""}), "one\n\ntwo\\");
  EXPECT_EQ(MessageOf({"\"\"\"one", "two\"\"\""}), "one\ntwo");
  EXPECT_EQ(MessageOf({"  \"\"\"one\"\"\"  "}), "one");
  EXPECT_EQ(MessageOf({"\"\"\"", "/exit", "\"\"\""}), "/exit");
  EXPECT_EQ(Read({"\"\"\"\"\"\""}).kind, Kind::kNothing);
}

TEST(MessageLines, ABackslashAtTheEndGoesOn) {
  EXPECT_EQ(MessageOf({"one\\", "two"}), "one\ntwo");
  EXPECT_EQ(MessageOf({"one\\", "\\", "three"}), "one\n\nthree");
  EXPECT_EQ(MessageOf({"C:\\\\"}), "C:\\\\");
  EXPECT_EQ(MessageOf({"/one\\", "two"}), "/one\ntwo");
}

TEST(MessageLines, PastedLinesAreOneMessage) {
  MessageLines message;
  EXPECT_FALSE(message.Add("/usr/bin", true));
  EXPECT_FALSE(message.Add("x\\", true));
  EXPECT_TRUE(message.Add("end"));
  const ChatInputText input = message.Take();
  EXPECT_EQ(input.kind, Kind::kMessage);
  EXPECT_EQ(input.text, "/usr/bin\nx\\\nend");
}

TEST(MessageLines, CommandsHaveANameAndText) {
  ChatInputText input = Read({" /system  Be brief. "});
  EXPECT_EQ(input.kind, Kind::kCommand);
  EXPECT_EQ(input.name, "system");
  EXPECT_EQ(input.text, "Be brief.");
  input = Read({"/exit"});
  EXPECT_EQ(input.kind, Kind::kCommand);
  EXPECT_EQ(input.name, "exit");
  EXPECT_EQ(input.text, "");
  EXPECT_EQ(Read({"/"}).name, "");
  EXPECT_EQ(MessageOf({"//etc/passwd"}), "/etc/passwd");
}

TEST(MessageLines, ClearForgetsWhatHasBegun) {
  MessageLines message;
  EXPECT_FALSE(message.Add("\"\"\"one"));
  message.Clear();
  EXPECT_FALSE(message.open());
  EXPECT_TRUE(message.Add("two"));
  EXPECT_EQ(message.Take().text, "two");
}

TEST(ChatOptions, AreSetByName) {
  sample::SamplingOptions options;
  EXPECT_TRUE(SetChatOption("temperature 0.7", 100, &options).ok());
  EXPECT_FLOAT_EQ(options.temperature, 0.7f);
  EXPECT_TRUE(SetChatOption("top_k  40", 100, &options).ok());
  EXPECT_EQ(options.top_k, 40);
  EXPECT_TRUE(SetChatOption("max-tokens 5", 100, &options).ok());
  EXPECT_EQ(options.max_tokens, 5);
  EXPECT_TRUE(SetChatOption("seed 18446744073709551615", 100, &options).ok());
  EXPECT_EQ(options.seed, 18446744073709551615u);
  const std::string all = ListChatOptions(options);
  EXPECT_THAT(all, HasSubstr("temperature          0.7\n"));
  EXPECT_THAT(all, HasSubstr("max-tokens           5\n"));
  EXPECT_TRUE(SetChatOption("max-tokens none", 100, &options).ok());
  EXPECT_FALSE(options.max_tokens);
}

TEST(ChatOptions, WrongOnesChangeNothing) {
  sample::SamplingOptions options;
  for (const char* wrong : {"temperature", "temperature hot", "temperature 0.7x", "temperature 3",
                            "temperature nan", "top-p 2", "max-tokens 0", "seed -1", "colour 1"}) {
    const Status status = SetChatOption(wrong, 100, &options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(SetChatOption("colour 1", 100, &options).message(), HasSubstr("'colour'"));
  EXPECT_EQ(ListChatOptions(options), ListChatOptions(sample::SamplingOptions()));
}

}  // namespace
}  // namespace penstock::cli
