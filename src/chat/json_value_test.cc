#include "chat/json_value.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/one_hash_test_util.h"
#include "json/json_writer.h"
#include "threads/request_context.h"

namespace penstock::chat {
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

JsonValue::Limits LimitsFor(const RequestContext* context, size_t members_max = SIZE_MAX) {
  JsonValue::Limits limits;
  limits.field = "tools";
  limits.members_max = members_max;
  limits.context = context;
  return limits;
}

TEST(JsonValue, ObjectsOfARequestHaveABound) {
  const std::string three = R"([{"a":{"a":1,"b":2,"c":3}}])";
  EXPECT_TRUE(JsonValue::Parse(three, LimitsFor(nullptr, 3)).ok());
  const Status status = JsonValue::Parse(three, LimitsFor(nullptr, 2)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnprocessable);
  EXPECT_EQ(status.message(), "'tools' has an object of 3 members; the limit is 2");
  EXPECT_EQ(status.field(), "tools");
}

TEST(JsonValue, AsksWhetherItIsWanted) {
  RequestContext context;
  context.cancel = std::make_shared<CancelToken>();
  context.cancel->Cancel();
  const auto zeros = [](size_t count) {
    std::string text = "[0";
    for (size_t i = 1; i < count; ++i) text += ",0";
    return text + "]";
  };
  EXPECT_TRUE(JsonValue::Parse(zeros(1000), LimitsFor(&context)).ok()) << "too short to ask";
  EXPECT_EQ(JsonValue::Parse(zeros(1024), LimitsFor(&context)).code(), StatusCode::kCancelled);
  context.cancel.reset();
  EXPECT_TRUE(JsonValue::Parse(zeros(5000), LimitsFor(&context)).ok());
  context.deadline = Clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(JsonValue::Parse(zeros(5000), LimitsFor(&context)).code(),
            StatusCode::kDeadlineExceeded);
}

// An object with these keys, each twice.
std::string ObjectOf(const std::vector<std::string>& keys) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  for (const int value : {1, 2}) {
    for (const std::string& key : keys) json.Key(key).Int(value);
  }
  json.EndObject();
  return text;
}

TEST(JsonValue, KeysOfOneHashTakeNoLonger) {
  const double ratio = OneHashRatio(20'000, [](const std::vector<std::string>& keys) {
    const JsonValue value = Parse(ObjectOf(keys));
    EXPECT_EQ(value.object()->size(), keys.size());
    EXPECT_EQ(*value.object()->back().second.integer(), 2);
  });
  std::cout << "time of keys of one hash over others: " << ratio << "\n";
  EXPECT_LT(ratio, 2);
}

}  // namespace
}  // namespace penstock::chat
