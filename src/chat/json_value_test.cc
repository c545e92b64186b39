#include "chat/json_value.h"

#include <gtest/gtest.h>

#include <new>

#include "common/failing_new.h"
#include "common/json_writer.h"

namespace penstock {
namespace {

JsonValue Parse(std::string_view text) {
  auto value = JsonValue::Parse(text);
  EXPECT_TRUE(value.ok()) << value.status().ToString();
  return value.ok() ? *std::move(value) : JsonValue();
}

TEST(JsonValue, KeepsTypesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":1,"a":[true,null,-2.5,"x\n"],"m":{"k":"é"},"big":9223372036854775807})";
  EXPECT_EQ(Parse(text).Print(), text);
  const JsonValue value = Parse(text);
  EXPECT_EQ(*value.Find("z")->integer(), 1);
  EXPECT_EQ(value.Find("z")->number(), nullptr);
  EXPECT_EQ(value.Find("a")->array()->size(), 4u);
  EXPECT_TRUE((*value.Find("a")->array())[1].is_null());
  EXPECT_EQ(value.Find("nope"), nullptr);
  EXPECT_EQ(value.Find("z")->Find("x"), nullptr);
}

TEST(JsonValue, OfAKeyWrittenTwiceTheLastValueCounts) {
  EXPECT_EQ(Parse(R"({"a":1,"b":2,"a":3})").Print(), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 40; ++i)
    many += "\"k" + std::to_string(i % 25) + "\":" + std::to_string(i) + ",";
  many += "\"end\":0}";
  const JsonValue value = Parse(many);
  EXPECT_EQ(value.object()->size(), 26u);
  EXPECT_EQ(*value.Find("k3")->integer(), 28);
  EXPECT_EQ(*value.Find("k20")->integer(), 20);
}

TEST(JsonValue, RefusesWhatIsNoJsonOrTooDeep) {
  EXPECT_EQ(JsonValue::Parse("{").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(JsonValue::Parse("\"\xff\"").code(), StatusCode::kInvalidArgument);
  const std::string deep(JsonValue::kDepthMax + 1, '[');
  EXPECT_EQ(JsonValue::Parse(deep + std::string(deep.size(), ']')).code(),
            StatusCode::kInvalidArgument);
}

TEST(JsonValue, Set) {
  JsonValue value;
  value.Set("a", 1);
  value.Set("b", "x");
  value.Set("a", true);
  EXPECT_EQ(value.Print(), R"({"a":true,"b":"x"})");
}

TEST(JsonValue, ACopyWithoutMemoryLeavesNothing) {
  const JsonValue::Object small = {
      {"a name that is no short string", "a text that is no short string"}};
  const JsonValue whole(JsonValue::Array{small, "another text that is no short string", small});
  int64_t n = 0;
  for (bool failed = true; failed;) {
    const FailingNew fail(++n);
    try {
      JsonValue copy = whole;
      copy.Set("x", whole);
    } catch (const std::bad_alloc&) {
    }
    failed = fail.failed();
  }
  EXPECT_GT(n, 10);
}

}  // namespace
}  // namespace penstock
