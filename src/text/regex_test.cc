// The regex engine: expected matches are those of Oniguruma's Ruby syntax.
#include "text/regex.h"

#include <gtest/gtest.h>

#include <random>

#include "text/split_patterns.h"
#include "text/utf8.h"

namespace penstock {
namespace {

std::string Matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  if (!regex.ok()) return regex.status().ToString();
  std::vector<ByteRange> found;
  if (!regex->FindAll(text, &found)) return "too many steps";
  std::string out;
  for (const ByteRange& m : found) {
    out += "[";
    out += text.substr(m.begin, m.end - m.begin);
    out += "]";
  }
  return out;
}

TEST(Regex, Syntax) {
  EXPECT_EQ(Matches("a|ab", "abab"), "[a][a]");
  EXPECT_EQ(Matches("(?:ab)+", "ababxab"), "[abab][ab]");
  EXPECT_EQ(Matches("[a-c&&[^b]]+", "abcca"), "[a][cca]");
  EXPECT_EQ(Matches("\\p{Lu}\\p{Ll}*", "HelloÄrger x"), "[Hello][Ärger]");
  EXPECT_EQ(Matches("\\s+(?!\\S)", "a   b  "), "[  ][  ]");
  EXPECT_EQ(Matches("\\s+$", "a \nb  "), "[ ][  ]");  // $ is also before a newline
  EXPECT_EQ(Matches("a+?b", "aaab"), "[aaab]");
  EXPECT_EQ(Matches("a++a", "aaa"), "");
  EXPECT_EQ(Matches("[0-9]{2,3}", "1234567"), "[123][456]");
  EXPECT_EQ(Matches("(?i:'s|ll)", "'S 'ſ LL"), "['S]['ſ][LL]");
  EXPECT_EQ(Matches("(?<=a)b", "ab bb"), "[b]");
  EXPECT_EQ(Matches("(?=(\\d{3})+(?!\\d))", "1234567"), "[][]");
  EXPECT_EQ(Matches("\\bfoo\\b", "foo food foo"), "[foo][foo]");
  EXPECT_EQ(Matches("é+", "éée"), "[éé]");
}

TEST(Regex, WordCharactersInsideAndOutsideBrackets) {
  // Six numbers of Latin-1 are word characters to \w, but not to [\w].
  EXPECT_EQ(Matches("\\w", "a²³¹¼½¾ªº!"), "[a][²][³][¹][¼][½][¾][ª][º]");
  EXPECT_EQ(Matches("[\\w]", "a²³¹¼½¾ªº!"), "[a][ª][º]");
  EXPECT_EQ(Matches("\\W", "a³!"), "[!]");
  EXPECT_EQ(Matches("[\\W]", "a³!"), "[³][!]");
  EXPECT_EQ(Matches("[^\\W]", "a³!"), "[a]");
  EXPECT_EQ(Matches("\\w+|[^\\w\\s]+", "\u09C6³ !³a"), "[\u09C6³][!³][a]");
  EXPECT_EQ(Matches("(?i:[\\w]|!)", "a³!"), "[a][!]");
  EXPECT_EQ(Matches("\\b", "!³!"), "[][]");
}

TEST(Regex, RefusesWhatItCannotDo) {
  for (const char* pattern : {"(a", "a)", "[a", "\\1", "(?<name>a)", "\\p{Greek}", "[[:alpha:]]",
                              "(a*)*", "\\X", "a{2,1}", "*a", "\\p{L", "(?<=ab)c", "a{5000}"}) {
    EXPECT_FALSE(Regex::Compile(pattern).ok()) << pattern;
  }
  EXPECT_FALSE(Regex::Compile(std::string(1 << 17, 'a')).ok());
  EXPECT_FALSE(Regex::Compile(std::string(500, '(') + std::string(500, ')')).ok());
}

// What failed once is not tried again: patterns that take backtracking quadratic or exponential
// time are linear here.
TEST(Regex, RemembersWhatFailed) {
  const std::string a(100'000, 'a'), spaces(1 << 20, ' ');
  EXPECT_EQ(Matches("\\s+x", spaces), "");
  EXPECT_EQ(Matches("a+?b|[0-9]{2,}", a + "12"), "[12]");
  EXPECT_EQ(Matches("a++b|[0-9]", a + "1"), "[1]");
  EXPECT_EQ(Matches("a*a*a*a*b|1", a + "1"), "[1]");
  EXPECT_EQ(Matches("(?:a|a)+(?:a|a)+(?:a|a)+b", a), "");
  EXPECT_EQ(Matches("(?:a|aa)+?b|c", a + "c"), "[c]");
  EXPECT_EQ(Matches("(?:a+)+b", a), "");
  // It must still match where it can: after a failure, in another run, in the same run.
  EXPECT_EQ(Matches("(?:\\s+x|y) ?", spaces + "y" + spaces + "x"),
            "[y ][" + spaces.substr(1) + "x]");
  EXPECT_EQ(Matches("a+b|a{3}", std::string(20, 'a') + "c" + std::string(20, 'a') + "b"),
            "[aaa][aaa][aaa][aaa][aaa][aaa][" + std::string(20, 'a') + "b]");
  // Groups of three digits from the right, as published files have them.
  std::vector<ByteRange> found;
  const auto groups = Regex::Compile("(?=(\\d{3})+(?!\\d))");
  ASSERT_TRUE(groups.ok());
  ASSERT_TRUE(groups->FindAll(std::string(20'000, '7') + "x" + std::string(19'999, '8'), &found));
  ASSERT_EQ(found.size(), 6666u + 6666u);
  EXPECT_EQ(found[0].begin, 2u);
  EXPECT_EQ(found[6666].begin, 20'002u);
}

// The same matches with and without memory: a text so long that splits are remembered must be cut
// like its parts.
TEST(Regex, RemembersNothingWrong) {
  std::mt19937 random(3);
  for (const char* pattern :
       {"(?:a|ab|b)+c|a|\n", "(?=(?:ab?)+c)a|(?:b|a)+?c|\n", "(?>a|ab)+b|(?!(?:a|b)+c)[ab]|\n",
        "a+b*c|(?:a+|b)*?cc|\n", "(?:(?=a+b)a|b+?c|a)+\n|[abc]"}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status().ToString();
    std::string all, want;
    for (int line = 0; line < 4000; ++line) {
      std::string text;
      for (size_t n = random() % 60; n > 0; --n) text += "aaaabbbc"[random() % 8];
      text += "\n";
      all += text;
      want += Matches(pattern, text);
    }
    // After as much text as uses up the steps before memory begins.
    const std::string evil = std::string(3000, 'a') + std::string(3000, 'b') + "\n";
    EXPECT_TRUE(Matches(pattern, evil + all) == Matches(pattern, evil) + want) << pattern;
  }
}

TEST(Regex, StopsInsteadOfHanging) {
  EXPECT_EQ(Matches("(?:a{1,1000}){15}b", std::string(20'000, 'a')), "too many steps");
}

// Every hand-written matcher cuts as the engine does.
TEST(SplitPatterns, AgreeWithTheEngine) {
  static const char* kParts[] = {
      "a",  "B",   "é",  "Ж",  "中", "ʰ",  "ǅ",    "\u0301", "\u0903", "1",
      "²",  "Ⅷ",   " ",  "  ", "\t", "\n", "\r\n", "\u00A0", "\u3000", "'",
      "'s", "'LL", "'ſ", "!",  "/",  "_",  "😀",    "\u200D", "\u0085"};
  std::mt19937 random(7);
  int patterns = 0;
  for (const KnownPattern& known : KnownPattern::All()) {
    const auto regex = Regex::Compile(known.pattern);
    ASSERT_TRUE(regex.ok()) << regex.status().ToString();
    EXPECT_EQ(KnownPattern::Find(known.pattern), &known);
    ++patterns;
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (size_t n = random() % 12; n > 0; --n) text += kParts[random() % std::size(kParts)];
      std::vector<ByteRange> expected;
      ASSERT_TRUE(regex->FindAll(text, &expected));
      std::string want, got;
      for (const ByteRange& m : expected) want += text.substr(m.begin, m.end - m.begin) + "|";
      known.Cut(text, [&](size_t b, size_t e) { got += text.substr(b, e - b) + "|"; });
      ASSERT_EQ(got, want) << known.pattern;
    }
  }
  EXPECT_EQ(patterns, 6);
  EXPECT_EQ(KnownPattern::Find("\\w+"), nullptr);
}

}  // namespace
}  // namespace penstock
