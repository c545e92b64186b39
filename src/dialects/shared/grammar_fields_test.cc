#include "dialects/shared/grammar_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::dialects {
namespace {

using grammar::GrammarKind;
using grammar::GrammarSpec;

Expected<std::optional<GrammarSpec>> Read(const std::string& json) {
  const auto parsed = JsonDocument::Parse(json);
  EXPECT_TRUE(parsed.ok()) << json;
  return ReadGrammar(*parsed->Object());
}

GrammarSpec Found(const std::string& json) {
  auto read = Read(json);
  EXPECT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.ok() && read->has_value()) << json;
  return read.ok() ? read->value_or(GrammarSpec()) : GrammarSpec();
}

TEST(ReadGrammarTest, NothingIsAFreeAnswer) {
  for (const char* json : {"{}", R"({"response_format":{"type":"text"}})",
                           R"({"response_format":null})", R"({"grammar":"","guided_json":null})"}) {
    const auto read = Read(json);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_FALSE(read->has_value()) << json;
  }
}

TEST(ReadGrammarTest, EachWayToAskForASchema) {
  const std::string schema = R"({"type":"object","required":["b","a"]})";
  const std::pair<std::string, std::string> cases[] = {
      {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" +
           schema + "}}}",
       "response_format.json_schema.schema"},
      {R"({"response_format":{"type":"json_schema","schema":)" + schema + "}}",
       "response_format.schema"},
      {R"({"response_format":{"type":"json_object","schema":)" + schema + "}}",
       "response_format.schema"},
      {R"({"response_format":{"type":"json_object","json_schema":)" + schema + "}}",
       "response_format.json_schema"},
      {R"({"guided_json":)" + schema + "}", "guided_json"},
      {R"({"guided_json":"{\"type\":\"object\",\"required\":[\"b\",\"a\"]}"})", "guided_json"},
      {R"({"json_schema":)" + schema + "}", "json_schema"},
      {R"({"structured_outputs":{"json":)" + schema + "}}", "structured_outputs.json"}};
  for (const auto& [json, field] : cases) {
    const GrammarSpec spec = Found(json);
    EXPECT_EQ(spec.kind, GrammarKind::kJsonSchema) << json;
    EXPECT_EQ(spec.text, schema);
    EXPECT_EQ(spec.field, field);
  }
}

TEST(ReadGrammarTest, OtherForms) {
  EXPECT_EQ(Found(R"({"response_format":{"type":"json_object"}})").kind, GrammarKind::kJson);
  EXPECT_EQ(Found(R"({"structured_outputs":{"json_object":true}})").kind, GrammarKind::kJson);
  EXPECT_EQ(Found(R"({"guided_regex":"a+"})").kind, GrammarKind::kRegex);
  EXPECT_EQ(Found(R"({"structured_outputs":{"regex":"a+"}})").text, "a+");
  EXPECT_EQ(Found(R"({"guided_grammar":"root ::= x"})").kind, GrammarKind::kRules);
  EXPECT_EQ(Found(R"({"grammar":"root ::= x"})").field, "grammar");
  EXPECT_THAT(Found(R"({"guided_choice":["a","b"]})").choices, testing::ElementsAre("a", "b"));
  EXPECT_EQ(Found(R"({"structured_outputs":{"choice":["a"]}})").kind, GrammarKind::kChoice);
}

TEST(ReadGrammarTest, MistakesNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"guided_choice":"a"})", "guided_choice"},
      {R"({"guided_choice":[1]})", "guided_choice"},
      {R"({"guided_json":3})", "guided_json"},
      {R"({"guided_json":{},"guided_regex":"a"})", "guided_regex"},
      {R"({"structured_outputs":{}})", "structured_outputs"},
      {R"({"structured_outputs":{"regex":"a","choice":["a"]}})", "structured_outputs"},
      {R"({"structured_outputs":{"structural_tag":"{}"}})", "structured_outputs.structural_tag"},
      {R"({"response_format":{"type":"grammar"}})", "response_format"},
      {R"({"response_format":"json"})", "response_format"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n"}}})",
       "response_format.json_schema.schema"}};
  for (const auto& [json, field] : cases) {
    const auto read = Read(json);
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << json;
    EXPECT_EQ(read.status().field(), field) << json;
  }
}

}  // namespace
}  // namespace penstock::dialects
