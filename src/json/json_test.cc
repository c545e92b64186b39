#include "json/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/temp_folder_test_util.h"

namespace penstock {
namespace {

JsonDocument Parsed(std::string_view text) {
  auto document = JsonDocument::Parse(text);
  EXPECT_TRUE(document.ok()) << document.status().ToString();
  return *std::move(document);
}

TEST(JsonWriter, PlacesCommasAndEscapes) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject().Field("a", 1).Field("b", "x\"\\\n\x01\t/").Key("c").BeginArray();
  w.Value(true).Null().Value(std::string("é")).BeginObject().EndObject().BeginArray().EndArray();
  w.EndArray().Field("d", uint64_t{18446744073709551615u}).Field("e", int64_t{-5}).EndObject();
  EXPECT_EQ(out,
            "{\"a\":1,\"b\":\"x\\\"\\\\\\n\\u0001\\t/\",\"c\":[true,null,\"é\",{},[]],"
            "\"d\":18446744073709551615,\"e\":-5}");
}

TEST(JsonWriter, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  std::string out;
  JsonWriter(&out).String("a\xff\xc3(\xe2\x82\xac\xf0\x9f");
  EXPECT_EQ(out, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_TRUE(JsonDocument::Parse(out).ok());
}

TEST(JsonWriter, FloatsRoundTripInTheFewestDigits) {
  std::string out;
  const float numbers[] = {0.1f, 1.0f, -0.0f, 1e-30f, 3.4028235e38f, NAN, INFINITY};
  JsonWriter(&out).Floats(numbers);
  EXPECT_EQ(out, "[0.1,1.0,-0.0,1e-30,3.4028235e+38,null,null]");
  out.clear();
  JsonWriter(&out).Double(0.1 + 0.2);
  EXPECT_EQ(out, "0.30000000000000004");
  uint32_t bits = 12345;
  for (int i = 0; i < 2000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    if (!std::isfinite(number)) continue;
    out.clear();
    JsonWriter(&out).Float(number);
    EXPECT_EQ(std::strtof(out.c_str(), nullptr), number) << out;
    EXPECT_TRUE(JsonDocument::Parse(out).ok()) << out;
  }
}

TEST(JsonObject, GettersNameTheFieldAndTheLimit) {
  const auto document = Parsed(
      R"({"n": 7, "real": 2.5, "whole": 3.0, "null": null, "s": "abc", "o": {"k": "v", "x": 1},)"
      R"( "a": ["p", "q"], "mixed": ["p", 1], "t": true})");
  const auto object = *document.Object();
  EXPECT_EQ(*object.GetInt("n", 0, 7), 7);
  EXPECT_EQ(*object.GetInt("whole", 0, 7), 3);
  EXPECT_EQ(*object.GetIntOr("null", 9, 0, 100), 9);
  EXPECT_EQ(*object.GetNumber("n"), 7.0);
  EXPECT_TRUE(*object.GetBool("t"));
  EXPECT_EQ(*object.GetStringOr("none", "d"), "d");
  EXPECT_EQ(object.GetStringsOrEmpty("a")->size(), 2u);
  EXPECT_EQ(object.GetObject("o")->path(), "o");

  const auto too_large = object.GetInt("n", 0, 6).status();
  EXPECT_EQ(too_large.message(), "'n' must be between 0 and 6, is 7");
  EXPECT_EQ(too_large.field(), "n");
  EXPECT_EQ(object.GetInt("real", 0, 6).status().message(), "'real' must be an integer, is 2.5");
  EXPECT_EQ(object.GetInt("s", 0, 6).status().message(), "'s' must be an integer, is string");
  EXPECT_EQ(object.GetInt("gone", 0, 6).status().message(), "'gone' is missing");
  EXPECT_EQ(object.GetObject("o")->GetBool("x").status().message(),
            "'o.x' must be true or false, is number");
  EXPECT_EQ(object.GetString("s", 2).status().message(),
            "'s' is 3 bytes long; at most 2 are allowed");
  EXPECT_EQ(object.GetArray("a", 1).status().message(),
            "'a' has 2 elements; at most 1 are allowed");
  EXPECT_EQ(object.GetStringsOrEmpty("mixed").status().field(), "mixed[1]");
  EXPECT_EQ(object.GetStringMapOrEmpty("o").status().field(), "o.x");
  EXPECT_EQ(object.GetNumber("real", 3, 4).status().message(),
            "'real' must be between 3.0 and 4.0, is 2.5");
}

TEST(JsonDocument, IntegersBeyond64BitsAreDoubles) {
  const auto document = Parsed(
      R"({"model_max_length": 1000000000000000019884624838656, "s": "a\"12345678901234567890123"})");
  const auto object = *document.Object();
  EXPECT_EQ(*object.GetNumber("model_max_length"), 1e30);
  EXPECT_EQ(*object.GetString("s"), "a\"12345678901234567890123");
  EXPECT_FALSE(object.GetInt("model_max_length", 0, 1 << 20).ok());
  EXPECT_FALSE(JsonDocument::Parse("{\"x\": 1.2.3}").ok());
}

TEST(JsonDocument, MovesWithItsElements) {
  auto first = Parsed(R"({"k": ["v"]})");
  const auto object = *first.Object();
  const JsonDocument second = std::move(first);
  EXPECT_EQ(object.GetStringsOrEmpty("k")->at(0), "v");
}

TEST(JsonDocument, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", " ", "{", "{\"a\":}", "[1,]", "nul", "{\"a\":1}x", "\"\xff\"", "'a'"}) {
    EXPECT_EQ(JsonDocument::Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(JsonDocument::Parse("[1, 2]", 3).status().code(), StatusCode::kPayloadTooLarge);
  EXPECT_FALSE(Parsed("[1]").Object().ok());
}

TEST(JsonDocument, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_TRUE(JsonDocument::Parse(nested(JsonDocument::kDepthMax - 2)).ok());
  EXPECT_FALSE(JsonDocument::Parse(nested(JsonDocument::kDepthMax + 1)).ok());
  // A parser that has seen a large text must keep the limit.
  EXPECT_TRUE(JsonDocument::Parse("\"" + std::string(200000, 'x') + "\"").ok());
  EXPECT_FALSE(JsonDocument::Parse(nested(1000)).ok());
  EXPECT_FALSE(JsonDocument::Parse(nested(2000000)).ok());
}

TEST(JsonDocument, TruncatedTextsNeverCrash) {
  const std::string text =
      R"({"a": [1, 2.5e3, "x\u00e9\n"], "b": {"c": null, "d": [true, false]}})";
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_FALSE(JsonDocument::Parse(std::string_view(text).substr(0, bytes)).ok());
  }
}

// As many numbers as fill simdjson's tape, and open brackets. Bytes of an earlier text must not be
// taken for more of it: they would be written behind the tape, where the heap would find them.
TEST(JsonDocument, NothingIsReadBehindAText) {
  std::string text = "[[[2,[9,6,0,[5]],4,8],1,6,";
  for (int i = 0; i < 13; ++i) text += "1,";
  text += "[[[[5]]]]";
  const std::string earlier = "[" + std::string(200, ']');
  for (int repeat = 0; repeat < 2000; ++repeat) {
    EXPECT_FALSE(JsonDocument::Parse(earlier).ok());
    EXPECT_FALSE(JsonDocument::Parse(text).ok());
    std::vector<std::unique_ptr<char[]>> others;  // notices what was written over
    for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<char[]>(500));
  }
}

TEST(JsonDocument, FilesAreLimitedAndNamed) {
  const TempFolder folder;
  const std::string path = folder.Write("a.json", "{\"a\": 1}");
  EXPECT_TRUE(JsonDocument::ParseFile(path, 100).ok());
  EXPECT_FALSE(JsonDocument::ParseFile(path, 5).ok());
  std::remove(path.c_str());
  EXPECT_EQ(JsonDocument::ParseFile(path, 100).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock
