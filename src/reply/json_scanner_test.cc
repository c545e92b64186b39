#include "reply/json_scanner.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "json/json.h"

namespace penstock::reply {
namespace {

using Result = JsonScanner::Result;

// Bytes of the value at the front of `text`; -1: no JSON, -2: it goes on.
int ValueBytes(std::string_view text, size_t depth_max = 8) {
  JsonScanner scanner(depth_max);
  for (size_t i = 0; i < text.size(); ++i) {
    const Result result = scanner.Next(text[i]);
    if (result == Result::kBad) return -1;
    if (result == Result::kDone) return static_cast<int>(i) + 1;
    if (result == Result::kDoneBefore) return static_cast<int>(i);
  }
  return -2;
}

TEST(JsonScanner, FindsTheEnd) {
  EXPECT_EQ(ValueBytes("{} x"), 2);
  EXPECT_EQ(ValueBytes("[1, [2], {\"a\": null}]]"), 21);
  EXPECT_EQ(ValueBytes(R"("a\"}"rest)"), 6);
  EXPECT_EQ(ValueBytes("true,"), 4);
  EXPECT_EQ(ValueBytes("-12.5e+3,"), 8);
  EXPECT_EQ(ValueBytes("0]"), 1);
  EXPECT_EQ(ValueBytes("12"), -2);
  EXPECT_EQ(ValueBytes("{\"a\": [1, 2"), -2);
  EXPECT_EQ(ValueBytes(R"("\ud83d\ude00")"), 14);
}

TEST(JsonScanner, RefusesWhatIsNoJson) {
  for (const char* text : {" 1",
                           "'a'",
                           "{a",
                           "{\"a\" 1",
                           "{\"a\": 1,}",
                           "[1,]",
                           "[1 2",
                           "[1}",
                           "{\"a\": 1]",
                           "trux",
                           "+1",
                           ".5",
                           "1.x",
                           "1ex",
                           "1e+x",
                           "-x",
                           "[01",
                           "\"\n\"",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\ud83d\"",
                           "\"\\ud83dx",
                           "\"\\ud83d\\n",
                           "\"\\ude00\"",
                           "\"\\ud83d\\u0041",
                           "]",
                           "}",
                           ","}) {
    EXPECT_EQ(ValueBytes(text), -1) << text;
  }
}

TEST(JsonScanner, DepthIsLimited) {
  EXPECT_EQ(ValueBytes("[[{}]]", 3), 6);
  EXPECT_EQ(ValueBytes("[[[{}]]]", 3), -1);
}

// Every short text over an alphabet of JSON: what the scanner takes the parser takes.
TEST(JsonScanner, AgreesWithTheParserOnRandomTexts) {
  std::mt19937 random(5);
  const std::string_view pieces[] = {"{",     "}", "[",  "]",       ":",      ",", "\"",
                                     "\"a\"", "1", "0",  "-",       ".",      "e", "true",
                                     "null",  " ", "\\", "\\u00e9", "\\ud83d"};
  int values = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    const size_t count = 1 + random() % 7;
    for (size_t i = 0; i < count; ++i) text += pieces[random() % std::size(pieces)];
    const int size = ValueBytes(text + ",");  // a number ends at the comma
    const bool whole = size == static_cast<int>(text.size());
    const bool parsed = text[0] != ' ' && text.back() != ' ' && JsonDocument::Parse(text).ok();
    ASSERT_EQ(whole, parsed) << text;
    values += whole;
  }
  EXPECT_GT(values, 1000);
}

}  // namespace
}  // namespace penstock::reply
