#include "word_wrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::cli {
namespace {

using testing::ElementsAre;

// What a terminal of `columns` shows of ASCII text with line breaks, ESC[nD and ESC[K.
std::vector<std::string> Shown(const std::string& bytes, size_t columns) {
  std::vector<std::string> lines(1);
  size_t at = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n') {
      lines.emplace_back();
      at = 0;
    } else if (bytes[i] == '\x1b') {
      size_t number = 0;
      for (i += 2; bytes[i] >= '0' && bytes[i] <= '9'; ++i) number = number * 10 + bytes[i] - '0';
      if (bytes[i] == 'D') at -= number;
      if (bytes[i] == 'K') lines.back().resize(at);
    } else {
      if (at == columns) {
        lines.emplace_back();
        at = 0;
      }
      lines.back().resize(at);
      lines.back() += bytes[i];
      ++at;
    }
  }
  for (std::string& line : lines) line.resize(line.find_last_not_of(' ') + 1);
  return lines;
}

std::vector<std::string> Wrapped(const std::string& text, size_t columns, size_t piece) {
  WordWrap wrap(columns);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += wrap.Add(text.substr(at, piece));
  return Shown(out, columns);
}

TEST(WordWrap, BreaksBetweenWordsHoweverTheTextComes) {
  const std::string text = "The capital of France is Paris. She has\n\n  two banks.";
  for (const size_t piece : {1, 2, 5, 100}) {
    EXPECT_THAT(Wrapped(text, 20, piece),
                ElementsAre("The capital of", "France is Paris.", "She has", "", "  two banks."))
        << piece;
  }
}

TEST(WordWrap, AWordLongerThanALineIsLeftToTheTerminal) {
  const std::string word(45, 'x');
  EXPECT_THAT(Wrapped("See " + word + " for it", 20, 3),
              ElementsAre("See", word.substr(0, 20), word.substr(0, 20), "xxxxx for it"));
}

TEST(WordWrap, CodeStaysAsItIs) {
  const std::string line = "for (int i = 0; i < n; ++i) Run(i);";
  EXPECT_THAT(Wrapped("```c\n" + line + "\n```\nSo much for this code, and then.", 25, 4),
              ElementsAre("```c", line.substr(0, 25), line.substr(25), "```",
                          "So much for this code,", "and then."));
}

TEST(WordWrap, WideCharactersTakeTwoCellsAndMayBeBroken) {
  std::string text, first;
  for (int i = 0; i < 12; ++i) text += "\xe6\x97\xa5";
  for (int i = 0; i < 9; ++i) first += "\xe6\x97\xa5";
  const std::string out = WordWrap(20).Add(text);
  EXPECT_EQ(out, first + "\n" + text.substr(first.size()));
}

TEST(WordWrap, NarrowTerminalsAndNoneAreLeftAlone) {
  EXPECT_EQ(WordWrap(0).Add("a b c"), "a b c");
  EXPECT_EQ(WordWrap(3).Add("a b c"), "a b c");
}

}  // namespace
}  // namespace penstock::cli
