#include "routes/schema_notation.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SchemaNotation, TypesAndFields) {
  EXPECT_EQ(ExpandSchemas("A = string B = number/string?\nC = [B]"),
            R"("A":{"type":"string"},"B":{"type":["number","string","null"]},)"
            R"("C":{"type":"array","items":{"$ref":"#/components/schemas/B"}})");
  EXPECT_EQ(ExpandSchemas(R"(A = {a: "x"/"y"?, b?: {*: any}?})"),
            R"("A":{"type":"object","properties":{)"
            R"("a":{"type":["string","null"],"enum":["x","y",null]},)"
            R"("b":{"type":["object","null"],"additionalProperties":true}},"required":["a"]})");
}

TEST(SchemaNotation, RulesAndDescriptions) {
  EXPECT_EQ(ExpandSchemas(R"(A = integer(minimum: 1, default: 2) "One \"word\", " "two")"),
            R"("A":{"type":"integer","minimum":1,"default":2,)"
            R"("description":"One \"word\", two"})");
  EXPECT_EQ(ExpandSchemas(R"(A = B "Which")"),
            R"("A":{"allOf":[{"$ref":"#/components/schemas/B"}],"description":"Which"})");
}

TEST(SchemaNotation, Combinations) {
  EXPECT_EQ(ExpandSchemas(R"(A = (string | null) "Maybe" || (B & C))"),
            R"("A":{"anyOf":[{"oneOf":[{"type":"string"},{"type":"null"}],"description":"Maybe"},)"
            R"({"allOf":[{"$ref":"#/components/schemas/B"},{"$ref":"#/components/schemas/C"}]}]})");
}

TEST(SchemaNotationDeathTest, AnErrorEndsTheProcess) {
  EXPECT_DEATH(ExpandSchemas("A = {a string}"), "");
  EXPECT_DEATH(ExpandSchemas("A = [string"), "");
}

}  // namespace
}  // namespace penstock
