#include "dialects/shared/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/query.h"

namespace penstock::dialects {
namespace {

Status InputsStatus(std::string_view json) {
  const auto body = RequestBody::Parse(json);
  if (!body.ok()) return body.status();
  std::vector<api::Input> inputs;
  bool single = false;
  return ParseInputs(body->object(), "input", {}, &inputs, &single);
}

TEST(RequestBody, RefusesWhatIsNoCleanObject) {
  for (const std::string& bad :
       {std::string(), std::string("["), std::string("[1]"), std::string("\"x\""),
        std::string("{\"a\":1} x"), std::string("{\"input\":\"\xff\"}"),
        std::string("{\"input\":\"a\0b\"}", 15), std::string(R"({"input":"\ud800"})"),
        std::string(R"({"input":"\udc00"})"), std::string(R"({"input":"\ud800\ud800"})"),
        std::string(100'000, '['), std::string(R"({"input":"a","input":"b"})")}) {
    const auto body = RequestBody::Parse(bad);
    ASSERT_FALSE(body.ok()) << bad.substr(0, 40);
    EXPECT_EQ(body.status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(body.status().message().empty());
  }
  const auto twice = RequestBody::Parse(R"({"input":"a","x":1,"input":"b"})").status();
  EXPECT_EQ(twice.message(), "'input' is given twice");
  EXPECT_EQ(twice.field(), "input");
}

TEST(ParseInputs, EveryShape) {
  const auto parse = [](std::string_view json, bool* single) {
    const auto body = RequestBody::Parse(json);
    std::vector<api::Input> inputs;
    EXPECT_TRUE(ParseInputs(body->object(), "input", {}, &inputs, single).ok()) << json;
    return inputs;
  };
  bool single = false;
  auto inputs = parse(R"({"input":"a"})", &single);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_TRUE(single);
  EXPECT_EQ(inputs[0].text, "a");
  inputs = parse(R"({"input":["a","b\u0000c"]})", &single);
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_FALSE(single);
  EXPECT_EQ(inputs[1].text, std::string("b\0c", 3));
  inputs = parse(R"({"input":[1,2,2147483647]})", &single);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_TRUE(single && inputs[0].is_ids);
  EXPECT_EQ(inputs[0].ids, (std::vector<int32_t>{1, 2, 2147483647}));
  inputs = parse(R"({"input":[[1],[2,3]]})", &single);
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_FALSE(single);
  EXPECT_EQ(inputs[1].ids, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(parse(R"({"input":[]})", &single).empty());  // the Service checks the count
}

TEST(ParseInputs, IdsAreRefusedWhereTheServerTakesNone) {
  api::ServiceOptions limits;
  limits.token_input = false;
  for (const char* json : {R"({"input":[1]})", R"({"input":[[1],[2]]})"}) {
    std::vector<api::Input> inputs;
    bool single = false;
    const auto document = JsonDocument::Parse(json);
    const Status status = ParseInputs(*document->Object(), "input", limits, &inputs, &single);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), "input");
    EXPECT_THAT(status.message(), testing::HasSubstr("--no-token-input"));
  }
}

TEST(ParseInputs, WrongTypesNameTheField) {
  const auto expect = [](std::string_view json, const char* field) {
    const Status status = InputsStatus(json);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_EQ(status.field(), field) << json;
    EXPECT_NE(status.message().find(field), std::string::npos) << status.message();
  };
  expect(R"({})", "input");
  expect(R"({"input":null})", "input");
  expect(R"({"input":1})", "input");
  expect(R"({"input":{"a":1}})", "input");
  expect(R"({"input":true})", "input");
  expect(R"({"input":["a",1]})", "input[1]");
  expect(R"({"input":["a",null]})", "input[1]");
  expect(R"({"input":["a",["b"]]})", "input[1]");
  expect(R"({"input":[1,"a"]})", "input[1]");
  expect(R"({"input":[1,-1]})", "input[1]");
  expect(R"({"input":[1,2147483648]})", "input[1]");
  expect(R"({"input":[1,1.5]})", "input[1]");
  expect(R"({"input":[[1],["a"]]})", "input[1][0]");
  expect(R"({"input":[[1],2]})", "input[1]");
  expect(R"({"input":[99999999999999999999]})", "input[0]");
}

TEST(ParseTextOptions, Spellings) {
  const auto parse = [](std::string_view json) {
    const auto body = RequestBody::Parse(json);
    api::TextOptions options;
    const Status status = ParseTextOptions(body->object(), &options);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return options;
  };
  EXPECT_EQ(parse("{}").truncate, std::nullopt);
  EXPECT_EQ(parse(R"({"truncate":null})").truncate, std::nullopt);
  EXPECT_EQ(parse(R"({"truncate":true})").truncate, true);
  EXPECT_EQ(parse(R"({"truncate":"NONE"})").truncate, false);
  EXPECT_EQ(parse(R"({"truncate":"end"})").side, text::TruncationSide::kRight);
  const auto start = parse(R"({"truncate":"START"})");
  EXPECT_EQ(start.truncate, true);
  EXPECT_EQ(start.side, text::TruncationSide::kLeft);
  EXPECT_EQ(parse(R"({"truncation_direction":"Left"})").side, text::TruncationSide::kLeft);
  EXPECT_EQ(parse(R"({"input_type":"search_query"})").input_type, api::InputType::kQuery);
  EXPECT_EQ(parse(R"({"input_type":"passage"})").input_type, api::InputType::kDocument);
  EXPECT_EQ(parse(R"({"input_type":"clustering"})").input_type, api::InputType::kUnset);
  EXPECT_EQ(parse(R"({"prompt":"p: "})").prompt, "p: ");
  EXPECT_EQ(parse(R"({"prompt_name":"query"})").prompt_name, "query");
}

TEST(ParseTextOptions, RefusalsNameTheField) {
  const auto expect = [](std::string_view json, const char* field) {
    const auto body = RequestBody::Parse(json);
    api::TextOptions options;
    EXPECT_EQ(ParseTextOptions(body->object(), &options).field(), field) << json;
  };
  expect(R"({"truncate":1})", "truncate");
  expect(R"({"truncate":"MIDDLE"})", "truncate");
  expect(R"({"truncation_direction":"up"})", "truncation_direction");
  expect(R"({"truncation_direction":true})", "truncation_direction");
  expect(R"({"input_type":"image"})", "input_type");
  expect(R"({"prompt":["x"]})", "prompt");
  expect(R"({"prompt_name":3})", "prompt_name");
  expect(R"({"prompt_name":"a\u0000b"})", "prompt_name");
  expect(R"({"prompt":")" + std::string(kPromptBytesMax + 1, 'x') + "\"}", "prompt");
}

TEST(AppendBase64, KnownValuesAndPadding) {
  const auto encode = [](std::vector<float> numbers) {
    std::string out = "x";
    AppendBase64(numbers, &out);
    return out;
  };
  EXPECT_EQ(encode({}), "x");
  EXPECT_EQ(encode({1.0f}), "xAACAPw==");
  EXPECT_EQ(encode({1.0f, -2.0f}), "xAACAPwAAAMA=");
  EXPECT_EQ(encode({1.0f, -2.0f, 0.5f}), "xAACAPwAAAMAAAAA/");
}

TEST(Query, FindsValues) {
  const char* const target = "/v1/files?limit=5&after=file%2D1&limits=9&x";
  EXPECT_EQ(QueryValue(target, "after"), "file-1");
  EXPECT_EQ(QueryValue(target, "x"), "");
  EXPECT_EQ(QueryValue("/v1/files", "after"), "");
  EXPECT_EQ(*QueryInt(target, "limit", 20, 1, 100), 5);
  EXPECT_EQ(*QueryInt(target, "order", 20, 1, 100), 20);
  EXPECT_EQ(QueryInt(target, "limit", 20, 6, 100).status().field(), "limit");
  EXPECT_EQ(QueryInt("/a?limit=5x", "limit", 20, 1, 100).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::dialects
