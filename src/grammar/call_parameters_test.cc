// Calls whose parameters stand in tags: what the rules take is what reply/ reads, by the schema.
#include "grammar/call_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/grammar_test_util.h"

namespace penstock::grammar {
namespace {

class CallParametersTest : public CompilerFixture {
 protected:
  void Use(const std::string& schema) {
    GrammarSpec spec;
    spec.kind = GrammarKind::kCalls;
    spec.field = "tools";
    spec.calls.form = CallForm::kParameters;
    spec.calls.before_name = "<function=";
    spec.calls.before_arguments = ">\n";
    spec.calls.ways = {{"f", schema}};
    spec.calls.after = "</function>";
    spec.calls.several = false;
    const Status checked = CheckSpec(spec);
    ASSERT_TRUE(checked.ok()) << checked.message();
    auto made = compiler_->Compile(spec);
    ASSERT_TRUE(made.ok()) << made.status().message();
    grammar_ = *std::move(made);
  }
  // A schema of one required parameter "a".
  void UseOne(const std::string& schema, const std::string& more = "") {
    Use(R"({"type":"object","properties":{"a":)" + schema + R"(},"required":["a"])" + more + "}");
  }
  bool Takes(const std::string& parameters) const {
    return grammar::Takes(*grammar_, "<function=f>\n" + parameters + "</function>");
  }
  bool TakesOne(const std::string& value) const { return Takes(One("a", value)); }
  static std::string One(const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  }
  static Status Check(const std::string& one) {
    return CheckCallSchema(R"({"type":"object","properties":{"a":)" + one + "}}",
                           CallForm::kParameters, "tools");
  }

  std::shared_ptr<const Grammar> grammar_;
};

TEST_F(CallParametersTest, RequiredAndOthersInOrder) {
  Use(R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},
          "c":{"type":"boolean"}},"required":["b"]})");
  EXPECT_TRUE(Takes(One("b", "5")));
  EXPECT_TRUE(Takes(One("a", "x") + One("b", "-5") + One("c", "true")));
  EXPECT_FALSE(Takes(One("a", "x")));
  EXPECT_FALSE(Takes(""));
  EXPECT_FALSE(Takes(One("b", "5") + One("b", "5")));
  EXPECT_FALSE(Takes(One("b", "5.5")));
  EXPECT_FALSE(Takes(One("d", "5")));
}

TEST_F(CallParametersTest, NoParameters) {
  Use(R"({"type":"object","properties":{},"additionalProperties":false})");
  EXPECT_TRUE(Takes(""));
  EXPECT_FALSE(Takes(One("a", "x")));
  Use("");
  EXPECT_TRUE(Takes(""));
  Use(R"({"type":"object"})");
  EXPECT_TRUE(Takes(""));
  EXPECT_TRUE(Takes(One("a", "x<y") + One("b", "")));
}

// Everything but a tag.
TEST_F(CallParametersTest, TextsAreRaw) {
  UseOne(R"({"type":"string"})");
  for (const char* text : {"",
                           "a",
                           "\"",
                           "\\",
                           "a\nb\n\n",
                           "\t\tif (a < b) {",
                           "<",
                           "<<",
                           "</",
                           "</p",
                           "<<p",
                           "</div>",
                           "<p>x</p>",
                           "<param",
                           "<para<parameter",
                           "</parameter",
                           "a</parameters",
                           "</functio",
                           "<\xC3\xA4",
                           "\xF0\x9F\x98\x80",
                           "</<parameter"}) {
    EXPECT_TRUE(TakesOne(text)) << text;
  }
  for (const char* text :
       {"</parameter>", "a</parameter>b", "<parameter=", "<parameter=b>", "</function>",
        "<</parameter>", "</</function>", "<parame<parameter=", "</p</parameter>"}) {
    EXPECT_FALSE(TakesOne(text)) << text;
  }
}

// All texts of few letters against the search for a tag.
TEST_F(CallParametersTest, TextsAreThoseWithoutATag) {
  UseOne(R"({"type":"string"})");
  const std::string pieces[] = {"<", "/",        "parameter",  "p", "=",
                                ">", "function", "<parameter", "</"};
  constexpr size_t kCount = std::size(pieces);
  size_t taken = 0;
  for (size_t i = 0; i < kCount * kCount * kCount * kCount; ++i) {
    std::string text;
    for (size_t left = i, j = 0; j < 4; ++j, left /= kCount) text += pieces[left % kCount];
    const bool has_tag = text.find("</parameter>") != std::string::npos ||
                         text.find("<parameter=") != std::string::npos ||
                         text.find("</function>") != std::string::npos;
    EXPECT_EQ(TakesOne(text), !has_tag) << text;
    taken += has_tag ? 0 : 1;
  }
  EXPECT_GT(taken, 5000u);
}

TEST_F(CallParametersTest, ListsPatternsAndLengths) {
  UseOne(R"({"type":"string","enum":["a b","\"","x\ny"]})");
  EXPECT_TRUE(TakesOne("a b"));
  EXPECT_TRUE(TakesOne("\""));
  EXPECT_TRUE(TakesOne("x\ny"));
  EXPECT_FALSE(TakesOne("a"));
  UseOne(R"({"type":"string","pattern":"^[^a]+$"})");
  EXPECT_TRUE(TakesOne("b\"c"));
  EXPECT_FALSE(TakesOne("ba"));
  EXPECT_FALSE(TakesOne("b<"));
  UseOne(R"({"type":"string","minLength":2,"maxLength":3})");
  EXPECT_TRUE(TakesOne("\xC3\xA4\xC3\xA4"));
  EXPECT_FALSE(TakesOne("a"));
  EXPECT_FALSE(TakesOne("abcd"));
  UseOne(R"({"const":"x"})");
  EXPECT_TRUE(TakesOne("x"));
  EXPECT_FALSE(TakesOne("y"));
}

TEST_F(CallParametersTest, JsonHasNoTags) {
  UseOne(R"({"type":"array","items":{"type":"string","format":"email"}})");
  EXPECT_TRUE(TakesOne(R"(["a", "\u003c/parameter>"])"));
  EXPECT_FALSE(TakesOne(R"(["<"])"));
  EXPECT_FALSE(TakesOne("[\"\t\"]"));
  UseOne(R"({"type":"object","properties":{"s":{"type":"string","pattern":"^[^a]$"},
             "t":{"type":"string","maxLength":2}}})");
  EXPECT_TRUE(TakesOne(R"({"s": "b", "t": "xy"})"));
  EXPECT_FALSE(TakesOne(R"({"s": "<", "t": "xy"})"));
  EXPECT_FALSE(TakesOne(R"({"s": "b", "t": "x<"})"));
}

TEST_F(CallParametersTest, ReferencesAndChoices) {
  UseOne(R"({"$ref":"#/$defs/E"})", R"(,"$defs":{"E":{"enum":["x","y"],"type":"string"}})");
  EXPECT_TRUE(TakesOne("x"));
  EXPECT_FALSE(TakesOne("\"x\""));
  UseOne(R"({"allOf":[{"$ref":"#/$defs/E"}]})", R"(,"$defs":{"E":{"type":"array","items":
            {"$ref":"#/$defs/F"}},"F":{"type":"integer"}})");
  EXPECT_TRUE(TakesOne("[1, 2]"));
  EXPECT_FALSE(TakesOne("[1, \"2\"]"));
  UseOne(R"({"anyOf":[{"type":"string"},{"type":"null"}]})");
  EXPECT_TRUE(TakesOne("null"));
  EXPECT_TRUE(TakesOne("any <b>text</b>"));
  UseOne(R"({"type":["string","integer"],"minimum":3,"maximum":5})");
  EXPECT_TRUE(TakesOne("4"));
  EXPECT_TRUE(TakesOne("words 9"));
  EXPECT_TRUE(TakesOne(""));
  EXPECT_FALSE(TakesOne("9"));
  EXPECT_FALSE(TakesOne(" 9"));
  EXPECT_FALSE(TakesOne("-1"));
  UseOne(R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"integer"}}]})");
  EXPECT_TRUE(TakesOne("[1]"));
  EXPECT_FALSE(TakesOne("[\"a\"]"));
  EXPECT_FALSE(TakesOne("[a"));
  EXPECT_TRUE(TakesOne("a[1"));
}

TEST_F(CallParametersTest, RefusedByName) {
  const auto refused = [](const std::string& schema) {
    const Status status = Check(schema);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << schema;
    EXPECT_EQ(status.field(), "tools");
    EXPECT_THAT(status.message(), testing::HasSubstr("'a' ")) << schema;
  };
  refused(R"({"enum":["</parameter>"]})");
  refused(R"({"enum":["null",null]})");
  refused(R"({"enum":["true",false]})");
  refused(R"({"anyOf":[{"type":"string"},{"enum":[true]}]})");
  refused(R"({"anyOf":[{"type":"string","minLength":2},{"type":"integer"}]})");
  refused(R"({"$ref":"#/properties/a"})");
  EXPECT_FALSE(CheckCallSchema(R"({"type":"object","properties":{"a>b":{}}})",
                               CallForm::kParameters, "tools")
                   .ok());
  EXPECT_FALSE(
      CheckCallSchema(R"({"type":"object","minProperties":1})", CallForm::kParameters, "tools")
          .ok());
}

// References that go in rounds, many at once.
TEST_F(CallParametersTest, RoundsOfReferencesEnd) {
  std::string many = R"({"$ref":"#/$defs/E"})";
  for (int i = 0; i < 100; ++i) many += R"(,{"$ref":"#/$defs/E"})";
  EXPECT_FALSE(CheckCallSchema(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/E"}},
                                   "$defs":{"E":{"anyOf":[)" +
                                   many + "]}}}",
                               CallForm::kParameters, "tools")
                   .ok());
}

// What reads a call sees the types of the whole schema, not of one of its parts.
TEST_F(CallParametersTest, WhatWouldBeReadAsAnotherValueIsRefused) {
  for (const char* schema : {R"({"type":["string","integer"],"enum":["1","2"]})",
                             R"({"type":["string","boolean"],"enum":["true","auto"]})",
                             R"({"type":["string","null"],"enum":["null","x"]})",
                             R"({"type":"array","items":{"$ref":"#"}})",
                             R"({"type":"array","items":{"$ref":"#/x/y"}})"}) {
    EXPECT_FALSE(Check(schema).ok()) << schema;
  }
  const auto root = [](const std::string& schema) {
    return CheckCallSchema(schema, CallForm::kParameters, "tools").ok();
  };
  EXPECT_FALSE(root(R"({"type":"object","additionalProperties":{"type":"integer"}})"));
  EXPECT_FALSE(root(R"({"type":"array","items":{}})"));
  EXPECT_FALSE(root("{}"));
  EXPECT_TRUE(root(R"({"type":"object","additionalProperties":{}})"));
  EXPECT_FALSE(CheckCallSchema(R"({"type":"array"})", CallForm::kJson, "tools").ok());
  EXPECT_EQ(CheckCallSchema("{", CallForm::kJson, "tools").field(), "tools");
  EXPECT_TRUE(CheckCallSchema(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}})",
                              CallForm::kJson, "tools")
                  .ok());
}

// Types and definitions multiply.
TEST_F(CallParametersTest, LargeSchemasAreBounded) {
  std::string types = "\"integer\"";
  for (int i = 0; i < 3000; ++i) types += ",\"integer\"";
  const std::string defs = R"("$defs":{"d":{"const":")" + std::string(200'000, 'x') + "\"}}";
  EXPECT_TRUE(CheckCallSchema(
                  R"({"type":"object","properties":{"a":{"type":[)" + types + "]}}," + defs + "}",
                  CallForm::kParameters, "tools")
                  .ok());
  std::string many;
  for (int i = 0; i < 20; ++i) {
    many += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer"})";
  }
  EXPECT_FALSE(CheckCallSchema(R"({"type":"object","properties":{)" + many + "}," + defs + "}",
                               CallForm::kParameters, "tools")
                   .ok());
}

TEST_F(CallParametersTest, AFaultyFunctionKeepsNoOtherFromItsSchema) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kCalls;
  spec.field = "tools";
  spec.calls.form = CallForm::kParameters;
  spec.calls.before_name = "<function=";
  spec.calls.before_arguments = ">\n";
  spec.calls.after = "</function>";
  spec.calls.ways = {
      {"f", R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})"},
      {"g", R"({"type":"object","properties":{"b":{"type":"array","items":{"enum":["<b>"]}}}})"}};
  EXPECT_FALSE(compiler_->Compile(spec).ok());
  spec.calls.any_if_faulty = true;
  const auto made = compiler_->Compile(spec);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(grammar::Takes(**made, "<function=f>\n" + One("a", "5") + "</function>"));
  EXPECT_FALSE(grammar::Takes(**made, "<function=f>\n" + One("a", "x") + "</function>"));
  EXPECT_TRUE(grammar::Takes(**made, "<function=g>\n" + One("b", "any") + "</function>"));
}

}  // namespace
}  // namespace penstock::grammar
