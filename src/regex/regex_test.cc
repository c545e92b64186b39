// The regex engine: expected matches are those of Oniguruma's Ruby syntax.
#include "regex/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "regex/split_patterns.h"
#include "unicode/utf8.h"

namespace penstock::regex {
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

// Failures are remembered: patterns that take backtracking quadratic or exponential time are linear
// here.
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

std::string Times(std::string_view part, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += part;
  return all;
}

TEST(Regex, BoundsTheHeightOfAPattern) {
  for (const std::string& pattern :
       {"a{1}" + Times("{1}", 18'000), "a" + std::string(60'000, '?'),
        "a" + std::string(60'000, '+'), "a" + std::string(60'000, '*'), Times("(?:", 20'000),
        Times("(?:", 200) + "a" + Times(")", 200), Times("(?i)", 16'000),
        Times("(?:", 90) + "a" + Times(Times("{1}", 10) + ")", 90), Times("[", 60'000),
        Times("[a&&", 16'000)}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern.substr(0, 30);
    EXPECT_NE(regex.status().message().find("nested too deeply"), std::string::npos)
        << regex.status().message().substr(200);
  }
  EXPECT_EQ(Matches(Times("(?:", 90) + "a" + Times("|b)", 90), "aab"), "[a][a][b]");
  EXPECT_EQ(Matches("a" + Times("{1}", 100), "aab"), "[a][a]");
}

TEST(Regex, BoundsTheWorkOfUnrolling) {
  const std::string empty_parts = "(?:" + Times("(?:)", 15'000) + "a)";
  for (const std::string& pattern :
       {std::string("(?:){1000}{1000}{1000}{1000}"), std::string("(?:(?:){1000}|){1000}{1000}"),
        empty_parts + "{1000}", std::string("(?:a{1000}b){1000}{1000}{1000}")}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern.substr(0, 30);
    EXPECT_NE(regex.status().message().find("program is too long"), std::string::npos);
  }
  EXPECT_TRUE(Regex::Compile("(?:){10}{10}{10}a").ok());
  EXPECT_TRUE(Regex::Compile(Times("(?:(?:(?:ab)+)+)+", 100)).ok());
}

// The matches of a class of many parts, and their cost, which is that of a few.
TEST(Regex, MergesThePartsOfAClass) {
  std::string singles = "[";
  for (char32_t c = 0x4E00; c < 0x4E00 + 4000; ++c) {
    singles += "[";
    unicode::AppendUtf8(c, &singles);
    singles += "]";
    if (singles.size() > 60'000) break;
  }
  EXPECT_EQ(Matches(singles + "]+", "a\u4E00\u4E05b\u9F00"), "[\u4E00\u4E05]");
  EXPECT_EQ(Matches("[^" + singles.substr(1) + "]+", "a\u4E00\u4E05b"), "[a][b]");
  EXPECT_EQ(Matches("[[^a-z][a-c]]+", "abcxyz1é"), "[abc][1é]");
  EXPECT_EQ(Matches("[^[^\\p{L}]]+", "ab1é"), "[ab][é]");
  EXPECT_EQ(Matches("[[^\\s]]+", "a b"), "[a][b]");
  EXPECT_EQ(Matches("[[^\\w\\s]é]+", "a!é b"), "[!é]");
  EXPECT_EQ(Matches("[^[^a-f]&&[^b]]+", "abcxyz"), "[abc]");
  EXPECT_EQ(Matches("[[^[^a-f]]&&[^b]&&[^d]]+", "abcdexyz"), "[a][c][e]");
  EXPECT_EQ(Matches("[" + Times("[^\\w\\s]", 5000) + "]+", "a!b"), "[!]");
  EXPECT_EQ(Matches("[\\s\\S]+", "a é"), "[a é]");
  std::string unlike = "[", also = "[";
  for (int i = 0; i < 100; ++i) {
    unlike += "[^\\w" + std::string(1, char('!' + i % 14)) + char(0xC3) + char(0x80 + i % 64) + "]";
    also += "\\w&&";
  }
  EXPECT_NE(Matches(unlike + "]", "a").find("class of too many parts"), std::string::npos);
  EXPECT_NE(Matches(also + "a]", "a").find("class of too many parts"), std::string::npos);
  EXPECT_NE(Matches(Times("[ab]", 5000), "a").find("too many classes"), std::string::npos);
}

TEST(Regex, FoldsRangesWithoutWalkingThem) {
  // Each range holds a million characters that have no case.
  const std::string pattern = "(?i)[" + Times("\\x{20000}-\\x{10FFFF}", 3000) + "]";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Matches(pattern, "a\U00020001"), "[\U00020001]");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_NE(Matches("(?i)[\\x{100}-\\x{200}]", "a").find("class under"), std::string::npos);
}

// A search that would need gigabytes of places to backtrack to.
TEST(Regex, BoundsItsMemory) {
  const std::string pattern = "(?:a" + Times("(?:xy)??", 3000) + ")*";
  EXPECT_EQ(Matches(pattern, std::string(200'000, 'a')), "too many steps");
  // Matches before that are kept, and nothing stays behind.
  EXPECT_EQ(Matches(pattern, "aaaxy"), "[aaa][][]");
  const std::string a(500'000, 'a');
  EXPECT_EQ(Matches("(?:a|b)*", a), "[" + a + "]");
}

// Searches of the pieces of a text share its budget.
TEST(Regex, SharesABudget) {
  const auto regex = Regex::Compile("(?:a{1,1000}){3}b");
  ASSERT_TRUE(regex.ok());
  const std::string text(30, 'a');
  RegexBudget budget(text.size());
  std::vector<ByteRange> found;
  const int64_t steps = budget.steps;
  EXPECT_TRUE(regex->FindAll(text, &budget, &found));
  EXPECT_LT(budget.steps, steps - 10'000);
  int searches = 1;
  while (searches < 1000 && regex->FindAll(text, &budget, &found)) ++searches;
  EXPECT_LT(searches, 100);
}

TEST(Regex, StopsWhenCancelled) {
  const auto regex = Regex::Compile("(?:a{1,1000}){15}b");
  ASSERT_TRUE(regex.ok());
  CancelToken cancel;
  cancel.Cancel();
  Work work({.cancel = &cancel});
  const std::string text(5000, 'a');
  RegexBudget budget(text.size(), &work);
  std::vector<ByteRange> found;
  EXPECT_FALSE(regex->FindAll(text, &budget, &found));
  EXPECT_EQ(work.status().code(), StatusCode::kCancelled);
  EXPECT_GT(budget.steps, 2'500'000);  // of 3,000,000
}

TEST(Regex, FindsLongLiteralsInLinearTime) {
  const std::string literal = std::string(30'000, 'a') + "b";
  std::vector<ByteRange> found;
  ASSERT_TRUE(Regex::Literal(literal).FindAll(
      std::string(1 << 20, 'a') + "b" + std::string(40'000, 'a') + "b", &found));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].begin, (1u << 20) - 30'000);
  EXPECT_EQ(found[0].end, (1u << 20) + 1);
  EXPECT_EQ(found[1].end, (1u << 20) + 40'002);
  found.clear();
  const std::string period = Times("abaab", 20);
  ASSERT_TRUE(Regex::Literal(period).FindAll("ab" + Times("abaab", 65) + "a", &found));
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].begin, 2u);
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
}  // namespace penstock::regex
