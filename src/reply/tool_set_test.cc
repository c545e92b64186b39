#include "reply/tool_set.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::reply {
namespace {

std::string Typed(const std::string& schema, std::string_view text) {
  return TypedParameters({"f", R"({"properties": {"k": )" + schema + "}}"}).Json("k", text);
}

TEST(TypedParameters, ByType) {
  EXPECT_EQ(Typed(R"({"type": "string"})", "42"), R"("42")");
  EXPECT_EQ(Typed(R"({"type": "string"})", "null"), R"("null")");
  EXPECT_EQ(Typed(R"({"type": "string"})", " {\"a\": 1} "), R"(" {\"a\": 1} ")");
  EXPECT_EQ(Typed(R"({"type": "integer"})", " 42\n"), "42");
  EXPECT_EQ(Typed(R"({"type": "integer"})", "123456789012345678901234567890"),
            "123456789012345678901234567890");
  EXPECT_EQ(Typed(R"({"type": "integer"})", "4.5"), R"("4.5")");
  EXPECT_EQ(Typed(R"({"type": "integer"})", "007"), R"("007")");
  EXPECT_EQ(Typed(R"({"type": "number"})", "-4.5e3"), "-4.5e3");
  EXPECT_EQ(Typed(R"({"type": "number"})", "4"), "4");
  EXPECT_EQ(Typed(R"({"type": "number"})", "four"), R"("four")");
  EXPECT_EQ(Typed(R"({"type": "boolean"})", "False"), "false");
  EXPECT_EQ(Typed(R"({"type": "boolean"})", "yes"), R"("yes")");
  EXPECT_EQ(Typed(R"({"type": "object"})", "\n{\"a\": [1]}\n"), R"({"a": [1]})");
  EXPECT_EQ(Typed(R"({"type": "object"})", "[1]"), R"("[1]")");
  EXPECT_EQ(Typed(R"({"type": "array"})", "[1, "), R"("[1, ")");
  EXPECT_EQ(Typed(R"({"type": "null"})", "None"), "null");
}

TEST(TypedParameters, BySeveralTypes) {
  EXPECT_EQ(Typed(R"({"type": ["string", "null"]})", "null"), "null");
  EXPECT_EQ(Typed(R"({"type": ["string", "null"]})", "x"), R"("x")");
  EXPECT_EQ(Typed(R"({"anyOf": [{"type": "string"}, {"type": "array"}]})", "[\"a\"]"), "[\"a\"]");
  EXPECT_EQ(Typed(R"({"oneOf": [{"anyOf": [{"type": "integer"}]}, {"type": "string"}]})", "5"),
            "5");
  EXPECT_EQ(Typed(R"({"type": "string", "nullable": true})", "null"), "null");
  EXPECT_EQ(Typed(R"({"enum": [1, 2]})", "2"), "2");
  EXPECT_EQ(Typed(R"({"enum": ["1", "2"]})", "2"), R"("2")");
  EXPECT_EQ(Typed(R"({"const": true})", "true"), "true");
}

TEST(TypedParameters, WhereTheSchemaDoesNotSay) {
  for (const char* schema : {"{}", "true", "[]", R"({"type": "other"})", R"({"$ref": "#/x"})"}) {
    EXPECT_EQ(Typed(schema, "42"), R"("42")");
    EXPECT_EQ(Typed(schema, "true"), R"("true")");
    EXPECT_EQ(Typed(schema, "{\"a\": 1}"), "{\"a\": 1}");
  }
  for (const char* parameters : {"", "no json", "[]", "{}", R"({"properties": 7})"}) {
    EXPECT_EQ(TypedParameters({"f", parameters}).Json("k", "x \"y\""), R"("x \"y\"")");
  }
}

TEST(ToolSet, FindsByName) {
  const ToolSet tools({{"a", ""}, {"b", ""}});
  EXPECT_EQ(tools.Find("b")->name, "b");
  EXPECT_EQ(tools.Find("B"), nullptr);
  EXPECT_EQ(tools.Find(""), nullptr);
  EXPECT_TRUE(ToolSet({}).empty());
}

}  // namespace
}  // namespace penstock::reply
