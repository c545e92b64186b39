#include "grammar/schema_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/grammar_spec.h"
#include "grammar/pattern_size.h"

namespace penstock::grammar {
namespace {

using testing::HasSubstr;

std::string Refused(const std::string& schema) {
  const Status status = CheckSchema(schema, "field");
  EXPECT_EQ(status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument, status.code());
  EXPECT_EQ(status.field(), status.ok() ? "" : "field");
  return status.message();
}

TEST(SchemaCheckTest, TakesWhatCanBeEnforced) {
  for (
      const char* schema :
      {"true", "{}", R"({"title":"t","x-own":1,"format":"date"})",
       R"({"type":["string","null"],"pattern":"^a{2,3}$"})",
       R"({"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"integer","minimum":1}}})",
       R"({"type":"string","enum":["a","b"]})", R"({"const":null})",
       R"({"anyOf":[{"type":"string"},{"type":"null"}]})",
       R"({"type":"object","anyOf":[{"type":"object"},{"type":"object"}]})",
       R"({"type":"array","items":{"type":"number"},"minItems":1,"uniqueItems":false})",
       R"({"type":"object","properties":{"next":{"$ref":"#"}}})",
       R"({"type":"integer","minLength":3})"}) {
    EXPECT_EQ(Refused(schema), "") << schema;
  }
}

TEST(SchemaCheckTest, NamesWhatCannot) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"array","uniqueItems":true})", "at # has 'uniqueItems'"},
      {R"({"type":"object","properties":{"a":{"type":"array","contains":{}}}})",
       "#/properties/a has 'contains'"},
      {R"({"type":"number","multipleOf":0.5})", "'multipleOf' of numbers"},
      {R"({"type":"string","pattern":"a","minLength":1})", "'minLength' beside 'pattern'"},
      {R"({"not":{}})", "has 'not'"},
      {R"({"if":{},"then":{}})", "has 'if'"},
      {R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{}}})", "'minimum' beside '$ref'"},
      {R"({"anyOf":[{}],"properties":{}})", "'properties' beside 'anyOf'"},
      {R"({"type":"object","anyOf":[{"required":["a"]}]})", "'required' without a 'type'"},
      {R"({"allOf":[{},{}]})", "'allOf' of several"},
      {R"({"minimum":3})", "'minimum' without a 'type'"},
      {R"({"type":"integer","enum":["a"]})", "not of its type"},
      {R"({"$ref":"https://example.com/a"})", "can be followed"},
      {R"({"$ref":"#/other/a","other":{"a":{"type":"array","uniqueItems":true}}})", "'$defs'"},
      {R"({"$ref":"#/$defs/b","$defs":{}})", "$defs"},
      {R"({"type":"whole"})", "unknown type 'whole'"},
      {R"({"type":"array","items":[{}]})", "use 'prefixItems'"},
      {R"({"type":"string","type":"null"})", "has 'type' twice"},
      {R"({"properties":{"a":false}})", "#/properties/a is false"},
      {R"({"$defs":{"unused":{"not":{}}}})", "#/$defs/unused has 'not'"},
      {"[1]", "must be an object"},
      {"{", "is not JSON"}};
  for (const auto& [schema, said] : cases) EXPECT_THAT(Refused(schema), HasSubstr(said)) << schema;
}

TEST(SchemaCheckTest, Bounds) {
  EXPECT_THAT(Refused(R"({"type":"string","maxLength":1000000000})"), HasSubstr("at most 4096"));
  EXPECT_THAT(Refused(R"({"type":"array","minItems":-1})"), HasSubstr("whole number"));
  EXPECT_THAT(Refused(R"({"type":"string","pattern":"(a{1000}){1000}"})"),
              HasSubstr("written out"));
  EXPECT_THAT(Refused(R"({"type":"string","pattern":"a{1,99999}"})"), HasSubstr("4096 times"));
  std::string deep = "{}";
  for (int i = 0; i < 60; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_THAT(Refused(deep), HasSubstr("deeper than"));
  std::string many = R"({"enum":[0)";
  for (int i = 1; i < 6000; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(Refused(many + "]}"), HasSubstr("at most 5000"));
}

TEST(SpecCheckTest, Bounds) {
  const auto refused = [](GrammarKind kind, const std::string& text) {
    return CheckSpec({kind, text, {}, "field"}).message();
  };
  EXPECT_THAT(refused(GrammarKind::kRegex, std::string(9000, 'a')), HasSubstr("at most 8192"));
  EXPECT_THAT(refused(GrammarKind::kRules, std::string(300'000, ' ')), HasSubstr("at most 262144"));
  EXPECT_THAT(refused(GrammarKind::kRegex, "((a{300}){300}){300}"), HasSubstr("written out"));
  EXPECT_THAT(refused(GrammarKind::kRegex, "\"(a{300}){300}\""), HasSubstr("written out"));
  EXPECT_EQ(refused(GrammarKind::kRules, R"(root ::= "(((a{9999}" [({] "x"{3})"), "");
  EXPECT_THAT(refused(GrammarKind::kRegex, std::string(100, '(')), HasSubstr("nested"));
  for (const char* rules : {R"(root ::= "\x41888888888888")", R"(root ::= [\UFFFFFFFF])"}) {
    EXPECT_THAT(refused(GrammarKind::kRules, rules), HasSubstr("escape")) << rules;
  }
  EXPECT_EQ(refused(GrammarKind::kRules, R"(root ::= "\\xFFFFFFFFFF" [\U0010FFFF\u00e4])"), "");
  EXPECT_THAT(CheckSpec({GrammarKind::kChoice, "", {}, "f"}).message(), HasSubstr("no choice"));
  EXPECT_THAT(CheckSpec({GrammarKind::kChoice, "", {""}, "f"}).message(), HasSubstr("empty"));
}

TEST(SpecKeyTest, TellsSpecsApart) {
  const GrammarSpec one{GrammarKind::kChoice, "", {"a", "bc"}, "x"};
  const GrammarSpec other{GrammarKind::kChoice, "", {"ab", "c"}, "x"};
  GrammarSpec same = one;
  same.field = "y";
  EXPECT_NE(one.Key(), other.Key());
  EXPECT_EQ(one.Key(), same.Key());
}

}  // namespace
}  // namespace penstock::grammar
