#include "sample/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "unicode/utf8.h"

namespace penstock::sample {
namespace {

StopStrings Made(const std::vector<std::string>& stops, bool include = false) {
  auto made = StopStrings::Make(stops, include);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

// All of it in pieces of `size` bytes; *stopped tells whether a stop string ended it.
std::string Streamed(StopStrings stops, std::string_view text, size_t size, bool* stopped) {
  std::string out;
  *stopped = false;
  for (size_t i = 0; i < text.size() && !*stopped; i += size) {
    *stopped = stops.Push(text.substr(i, size), &out);
  }
  if (!*stopped) stops.Finish(&out);
  return out;
}

TEST(StopStrings, StopAcrossTokens) {
  bool stopped = false;
  for (size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(Streamed(Made({"\n\nUser:"}), "Hello\n\nUser: hi", size, &stopped), "Hello");
    EXPECT_TRUE(stopped);
    EXPECT_EQ(Streamed(Made({"\n\nUser:"}, true), "Hello\n\nUser: hi", size, &stopped),
              "Hello\n\nUser:");
    EXPECT_EQ(Streamed(Made({"\n\nUser:"}), "Hello\n\nUse", size, &stopped), "Hello\n\nUse");
    EXPECT_FALSE(stopped);
  }
}

TEST(StopStrings, TheFirstToEndWinsAndOfTheseTheLongest) {
  bool stopped = false;
  for (size_t size = 1; size < 8; ++size) {
    EXPECT_EQ(Streamed(Made({"bcde", "cd"}), "abcdef", size, &stopped), "ab");
    EXPECT_EQ(Streamed(Made({"d", "bcd", "cd"}), "abcdef", size, &stopped), "a");
  }
  StopStrings stops = Made({"d", "bcd", "cd"});
  std::string out;
  EXPECT_TRUE(stops.Push("abcd", &out));
  EXPECT_EQ(stops.matched(), 1);
}

TEST(StopStrings, HoldsBackOnlyWhatMayStillStop) {
  StopStrings stops = Made({"aab", "</s>"});
  std::string out;
  EXPECT_FALSE(stops.Push("xaa", &out));
  EXPECT_EQ(out, "x");
  EXPECT_FALSE(stops.Push("a", &out));  // "aa" may still begin "aab"
  EXPECT_EQ(out, "xa");
  EXPECT_FALSE(stops.Push("<", &out));
  EXPECT_EQ(out, "xaaa");
  EXPECT_FALSE(stops.Push("/p>", &out));
  EXPECT_EQ(out, "xaaa</p>");
  EXPECT_EQ(stops.held_bytes(), 0u);
}

TEST(StopStrings, WhereNoneMayEndItIsText) {
  StopStrings stops = Made({"aba", "x"});
  std::string out;
  EXPECT_FALSE(stops.Push("xaba", &out, false));
  EXPECT_EQ(out, "xab") << "the last a may begin another one";
  EXPECT_EQ(stops.matched(), -1);
  EXPECT_TRUE(stops.Push("ba!", &out)) << "it began where none may end";
  EXPECT_EQ(out, "xab");
  EXPECT_EQ(stops.matched(), 0);
}

TEST(StopStrings, GivesOutWholeCharactersOnly) {
  StopStrings stops = Made({});
  std::string out;
  EXPECT_FALSE(stops.Push("\xF0\x9F", &out));
  EXPECT_FALSE(stops.Push("\x98", &out));
  EXPECT_EQ(out, "");
  EXPECT_FALSE(stops.Push("\x80!\xE2", &out));
  EXPECT_EQ(out, "\xF0\x9F\x98\x80!");
  stops.Finish(&out);
  EXPECT_EQ(out, "\xF0\x9F\x98\x80!\xEF\xBF\xBD");
}

// What the class promises, by brute force.
struct Expectation {
  std::string out;
  bool stopped = false;
};

Expectation BruteForce(std::string_view text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest == 0) continue;
    Expectation found{{}, true};
    unicode::AppendSanitizedUtf8(text.substr(0, include ? end : end - longest), &found.out);
    return found;
  }
  // No stop yet: all but the longest end that begins a stop string, and an unfinished character.
  size_t open = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size(); ++n) {
      if (text.ends_with(stop.substr(0, n))) open = std::max(open, n);
    }
  }
  std::string_view free = text.substr(0, text.size() - open);
  Expectation found;
  size_t valid = 0, bad = 0;
  for (unicode::Utf8Tail tail;
       (tail = unicode::ScanUtf8(free, &valid, &bad)) != unicode::Utf8Tail::kEnd;) {
    found.out += free.substr(0, valid);
    if (tail == unicode::Utf8Tail::kIncomplete) return found;
    unicode::AppendUtf8(unicode::kReplacementChar, &found.out);
    free.remove_prefix(valid + bad);
  }
  found.out += free;
  return found;
}

TEST(StopStrings, AgreesWithBruteForceOverRandomTextsAndCuts) {
  std::mt19937 random(11);
  const std::vector<std::string> letters = {
      "a", "a", "b", "c", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x98\x80", "\xE6\x97\xA4"};
  const std::vector<std::string> broken = {"\xC3", "\x80", "\xF0\x9F", "\xFF", "\xE6\x97"};
  const auto some = [&](size_t count, bool may_break) {
    std::string text;
    while (count-- > 0) {
      text += may_break && random() % 8 == 0 ? broken[random() % broken.size()]
                                             : letters[random() % letters.size()];
    }
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = some(1 + random() % 4, false);
    const std::string text = some(random() % 40, round % 2 == 0);
    const bool include = random() % 2 == 0;
    StopStrings stream = Made(stops, include);
    std::string out;
    size_t begin = 0;
    bool ended = false;
    while (begin < text.size() && !ended) {
      const size_t size = std::min(text.size() - begin, random() % 6);
      ended = stream.Push(std::string_view(text).substr(begin, size), &out);
      begin += size;
      const Expectation expected =
          BruteForce(std::string_view(text).substr(0, begin), stops, include);
      ASSERT_EQ(ended, expected.stopped) << text;
      ASSERT_EQ(out, expected.out) << text;
      ASSERT_TRUE(IsValidUtf8(out));
    }
    stopped += ended;
    if (ended) continue;
    stream.Finish(&out);
    std::string whole;
    unicode::AppendSanitizedUtf8(text, &whole);
    ASSERT_EQ(out, whole);
  }
  EXPECT_GT(stopped, 5000);
  EXPECT_LT(stopped, 18000);
}

}  // namespace
}  // namespace penstock::sample
