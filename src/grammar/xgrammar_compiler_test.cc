#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/grammar_test_util.h"

namespace penstock::grammar {
namespace {

class CompilerTest : public CompilerFixture {
 protected:
  std::shared_ptr<const Grammar> Compile(GrammarKind kind, const std::string& text) {
    const GrammarSpec spec{kind, text, {}, "field"};
    const Status checked = CheckSpec(spec);
    EXPECT_TRUE(checked.ok()) << checked.message();
    auto made = compiler_->Compile(spec);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *made : nullptr;
  }
  bool Takes(GrammarKind kind, const std::string& grammar, const std::string& text) {
    const auto made = Compile(kind, grammar);
    return made != nullptr && grammar::Takes(*made, text);
  }
};

// The library's automaton of a pattern takes "//" for this one.
TEST_F(CompilerTest, LoopsOfPatterns) {
  const std::string pattern = R"(^/((a|%)+(/(a|%)*)*)?$)";
  const std::string schema = R"({"type":"string","pattern":")" + pattern + R"("})";
  for (const auto& [text, takes] :
       {std::pair("/", true), {"/a/a//a", true}, {"//", false}, {"//a", false}, {"a", false}}) {
    EXPECT_EQ(Takes(GrammarKind::kRegex, pattern, text), takes) << text;
    EXPECT_EQ(Takes(GrammarKind::kJsonSchema, schema, '"' + std::string(text) + '"'), takes);
  }
}

TEST_F(CompilerTest, Patterns) {
  const auto takes = [&](const std::string& pattern, const std::string& text) {
    return Takes(GrammarKind::kRegex, pattern, text);
  };
  EXPECT_TRUE(takes("[0-9]{3}-[0-9]{2,}", "123-4567"));
  EXPECT_FALSE(takes("[0-9]{3}-[0-9]{2,}", "123-4"));
  EXPECT_TRUE(takes("a|bc|", ""));
  EXPECT_TRUE(takes("(?:x|(?<n>y))+?z", "xyyxz"));
  EXPECT_TRUE(takes("[^a-c\\]]\\u0041", "dA"));
  EXPECT_FALSE(takes("[^a-c\\]]A", "]A"));
  EXPECT_TRUE(takes("[\\w.-]+@\\w+\\.com", "a.b-c@d.com"));
  EXPECT_TRUE(takes("\xC3\xA4+", "\xC3\xA4\xC3\xA4"));
  EXPECT_TRUE(takes(".\\.", "\xF0\x9F\x98\x80."));
  EXPECT_FALSE(takes(".", "\n"));
  EXPECT_TRUE(takes("\\S\"\\\\", "x\"\\"));
}

TEST_F(CompilerTest, PatternsInJson) {
  const auto takes = [&](const std::string& pattern, const std::string& text) {
    return Takes(GrammarKind::kJsonSchema, R"({"type":"string","pattern":")" + pattern + "\"}",
                 text);
  };
  EXPECT_TRUE(takes("^[^x]$", R"("\"")"));
  EXPECT_TRUE(takes("^[^x]$", R"("\\")"));
  EXPECT_FALSE(takes("^[^x]$", R"(""")"));
  EXPECT_FALSE(takes("^[^x]$", R"("\")"));
  EXPECT_TRUE(takes("^[^x]$", R"("\n")"));
  EXPECT_FALSE(takes("^[^x]$", "\"\n\""));
  EXPECT_FALSE(takes("^[^\\\\n]$", R"("\n")"));
}

TEST_F(CompilerTest, LengthsCountCodePoints) {
  const auto takes = [&](const std::string& text) {
    return Takes(GrammarKind::kJsonSchema, R"({"type":"string","minLength":2,"maxLength":3})",
                 text);
  };
  EXPECT_FALSE(takes(R"("a")"));
  EXPECT_TRUE(takes(R"("ab")"));
  EXPECT_FALSE(takes(R"("abcd")"));
  EXPECT_TRUE(takes("\"\xF0\x9F\x98\x80\xC3\xA4\""));
  EXPECT_FALSE(takes(R"("\ud83d\ude00")"));  // one code point
  EXPECT_FALSE(takes("\"a\x01\""));
  EXPECT_FALSE(takes("\"a\tb\""));
}

TEST_F(CompilerTest, LongLengths) {
  for (const auto& [least, most] :
       {std::pair(0, 300), {130, 130}, {200, 600}, {5, 128}, {300, -1}}) {
    std::string schema = R"({"type":"string","minLength":)" + std::to_string(least);
    if (most >= 0) schema += R"(,"maxLength":)" + std::to_string(most);
    const auto made = Compile(GrammarKind::kJsonSchema, schema + "}");
    ASSERT_NE(made, nullptr);
    const auto takes = [&](int size) {
      return grammar::Takes(*made, '"' + std::string(static_cast<size_t>(size), 'a') + '"');
    };
    EXPECT_TRUE(takes(least)) << schema;
    EXPECT_FALSE(least > 0 && takes(least - 1)) << schema;
    EXPECT_TRUE(takes(most < 0 ? 1000 : most)) << schema;
    EXPECT_FALSE(most >= 0 && takes(most + 1)) << schema;
  }
}

TEST_F(CompilerTest, Objects) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["string","null"],)"
      R"("maxLength":2}},"required":["a","c"],"additionalProperties":{"type":"boolean"}})";
  const auto takes = [&](const std::string& text) {
    return Takes(GrammarKind::kJsonSchema, schema, text);
  };
  EXPECT_TRUE(takes(R"({"a": 1, "c": true})"));
  EXPECT_TRUE(takes(R"({"a":1,"b":null,"c":false})"));
  EXPECT_TRUE(takes(R"({"a":1,"b":"xy","c":false})"));
  EXPECT_FALSE(takes(R"({"a":1,"b":"xyz","c":false})"));
  EXPECT_FALSE(takes(R"({"a":1})"));
  EXPECT_FALSE(takes(R"({"a":1,"c":3})"));
  EXPECT_FALSE(takes(R"({"a":1,"c":true,"a":"x"})"));
}

TEST_F(CompilerTest, MapsWithoutDeclaredProperties) {
  const std::string schema = R"({"type":"object","additionalProperties":{"type":"integer"}})";
  EXPECT_TRUE(Takes(GrammarKind::kJsonSchema, schema, R"({"x": 1, "y": 2})"));
  EXPECT_TRUE(Takes(GrammarKind::kJsonSchema, schema, "{}"));
  EXPECT_FALSE(Takes(GrammarKind::kJsonSchema, schema, R"({"x": "1"})"));
}

TEST_F(CompilerTest, AnyObject) {
  const auto grammar = Compile(GrammarKind::kJson, "");
  EXPECT_TRUE(grammar::Takes(*grammar, R"({"a": [1, {"b": null}], "c": "d\n"})"));
  EXPECT_FALSE(grammar::Takes(*grammar, "[1]"));
}

// simdjson, serde_json and others refuse what holds half of a surrogate pair.
TEST_F(CompilerTest, NoHalfPairs) {
  for (const std::string schema :
       {R"({"type":"string"})", R"({"type":"string","maxLength":20})", R"({})"}) {
    const auto grammar = Compile(GrammarKind::kJsonSchema, schema);
    ASSERT_NE(grammar, nullptr);
    const auto takes = [&](const std::string& text) {
      return grammar::Takes(*grammar, '"' + text + '"');
    };
    EXPECT_TRUE(takes("\xF0\x9F\x98\x80 \xED\x9F\xBF \xEE\x80\x80")) << schema;
    EXPECT_FALSE(takes("\xED\xA0\x80")) << schema;
    EXPECT_FALSE(takes("\xED\xBF\xBF")) << schema;
    const bool escapes = schema.find("maxLength") == std::string::npos;
    EXPECT_EQ(takes(R"(\ud83d\uDE00 \u00e9 \uD7ff \uE000)"), escapes) << schema;
    for (const char* half : {R"(\ud83d)", R"(\ude00)", R"(\uD83D\u0041)", R"(\uDBFF\n)"}) {
      EXPECT_FALSE(takes(half)) << schema << half;
    }
  }
}

TEST_F(CompilerTest, ChoicesAreTexts) {
  const GrammarSpec spec{GrammarKind::kChoice,
                         "",
                         {"a\"b\\", "a", "\n\xC3\xA4",
                          "\x01"
                          "88"},
                         "field"};
  const auto made = compiler_->Compile(spec);
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (const std::string& choice : spec.choices) EXPECT_TRUE(grammar::Takes(**made, choice));
  EXPECT_FALSE(grammar::Takes(**made, "a\"b"));
}

TEST_F(CompilerTest, CallsOfSeveralFunctions) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kCalls;
  spec.field = "tools";
  spec.calls.ways = {
      {"f", R"({"type":"object","properties":{"root":{"enum":["root","]"]}},"required":["root"]})"},
      {"g", ""},
      {"h", R"({"type":"object","properties":{"s":{"type":"string","maxLength":2}}})"}};
  spec.calls.before_name = R"({"name": ")";
  spec.calls.before_arguments = R"(", "arguments": )";
  spec.calls.begin = "[";
  spec.calls.end = "]";
  spec.calls.after = "}";
  spec.calls.separator = ", ";
  ASSERT_TRUE(CheckSpec(spec).ok());
  for (const bool several : {true, false}) {
    spec.calls.several = several;
    const auto made = compiler_->Compile(spec);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto takes = [&](const std::string& text) { return grammar::Takes(**made, text); };
    EXPECT_TRUE(takes(R"([{"name": "f", "arguments": {"root": "root"}}])"));
    EXPECT_TRUE(takes(R"([{"name": "g", "arguments": {}}])"));
    EXPECT_TRUE(takes(R"([{"name": "h", "arguments": {"s": "ab"}}])"));
    EXPECT_FALSE(takes(R"([{"name": "h", "arguments": {"s": "abc"}}])"));
    EXPECT_FALSE(takes(R"([{"name": "f", "arguments": {}}])"));
    EXPECT_FALSE(takes("[]"));
    EXPECT_EQ(
        takes(R"([{"name": "g", "arguments": {}}, {"name": "f", "arguments": {"root": "]"}}])"),
        several);
  }
}

TEST_F(CompilerTest, LooseCallsMayHaveWhitespace) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kCalls;
  spec.field = "tools";
  spec.calls.ways = {{"f g", R"({"type":"object","properties":{"a":{"type":"integer"}}})"}};
  spec.calls.before_name = "<call>\n{\"name\": \"";
  spec.calls.before_arguments = R"(", "arguments": )";
  spec.calls.after = "}\n</call>";
  const std::string strict = spec.Key();
  spec.calls.loose = true;
  EXPECT_NE(spec.Key(), strict);
  const auto made = compiler_->Compile(spec);
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (const char* text : {"<call>\n{\"name\": \"f g\", \"arguments\": {\"a\": 1}}\n</call>",
                           "<call>{\"name\":\"f g\",\"arguments\":{}}</call>",
                           "<call>  { \"name\":\n\"f g\", \n\"arguments\":  {} } \n </call>"}) {
    EXPECT_TRUE(grammar::Takes(**made, text)) << text;
  }
  EXPECT_FALSE(grammar::Takes(**made, "<call>{\"name\":\"f  g\",\"arguments\":{}}</call>"));
  EXPECT_FALSE(grammar::Takes(**made, "<call>{\"name\":\"f g\",\"arguments\":{\"b\":1}}</call>"));
}

TEST_F(CompilerTest, CallsOrAnAnswerOfASchema) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kCalls;
  spec.field = "tools";
  // Rules of the same names on both sides.
  const std::string schema = R"({"type":"object","properties":{"a":{"type":)";
  spec.calls.before_name = R"(<call>{")";
  spec.calls.before_arguments = R"(": )";
  spec.calls.ways = {{"arguments", schema + R"("integer"}},"required":["a"]})"}};
  spec.calls.after = "}</call>";
  spec.calls.otherwise = schema + R"("string"}},"required":["a"]})";
  ASSERT_TRUE(CheckSpec(spec).ok());
  const auto made = compiler_->Compile(spec);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(grammar::Takes(**made, R"(<call>{"arguments": {"a": 5}}</call>)"));
  EXPECT_FALSE(grammar::Takes(**made, R"(<call>{"arguments": {"a": "b"}}</call>)"));
  EXPECT_TRUE(grammar::Takes(**made, R"({"a": "b"})"));
  EXPECT_FALSE(grammar::Takes(**made, R"({"a": 5})"));
  GrammarSpec other = spec;
  other.calls.otherwise.clear();
  EXPECT_NE(other.Key(), spec.Key());
  other.calls.otherwise = R"({"type":"array","uniqueItems":true})";
  EXPECT_FALSE(CheckSpec(other).ok());
}

TEST_F(CompilerTest, RollBackAndForced) {
  const auto made = Compile(GrammarKind::kRules, R"(root ::= "abc" ("d" | "e"))");
  const auto constraint = made->Begin();
  ASSERT_TRUE(constraint.ok());
  EXPECT_EQ((*constraint)->Forced(), "abc");
  ASSERT_TRUE((*constraint)->Accept('a').ok());
  ASSERT_TRUE((*constraint)->Accept('b').ok());
  EXPECT_EQ((*constraint)->Forced(), "c");
  (*constraint)->RollBack(1);
  EXPECT_EQ((*constraint)->Forced(), "bc");
  EXPECT_FALSE((*constraint)->Accept('x').ok());
  EXPECT_TRUE((*constraint)->Accept('b').ok());
}

// A rule without an end forces text for ever; what is forced is cut.
TEST_F(CompilerTest, ForcedTextHasAnEnd) {
  const auto made = Compile(GrammarKind::kRules, "root ::= \"a\" mid\nmid ::= (\"(\" mid)+");
  const auto constraint = made->Begin();
  ASSERT_TRUE(constraint.ok());
  const std::string forced = (*constraint)->Forced();
  EXPECT_LE(forced.size(), 256u);
  EXPECT_EQ(forced.substr(0, 5), "a((((");
  EXPECT_TRUE((*constraint)->Accept('a').ok());
}

// Each character has more readings than the one before: the text ends before they take the model's
// time.
TEST_F(CompilerTest, AmbiguousTextsEndWithAnError) {
  for (const char* pattern : {"([0-9]+)+A", "([0-9]*[0-9]+)*[0-9]{2000}"}) {
    const auto made = Compile(GrammarKind::kRegex, pattern);
    const auto constraint = made->Begin();
    ASSERT_TRUE(constraint.ok());
    Status status;
    int tokens = 0;
    for (; status.ok() && tokens < 4000; ++tokens) status = (*constraint)->Accept('1');
    EXPECT_EQ(status.code(), StatusCode::kUnprocessable) << pattern << " " << tokens;
  }
}

TEST_F(CompilerTest, RefusesWhatTheLibraryLeavesOut) {
  for (const char* schema : {R"({"oneOf":[{"type":"integer"},{"type":"integer","minimum":3}]})",
                             R"({"type":"integer","multipleOf":3,"minimum":2})"}) {
    const GrammarSpec spec{GrammarKind::kJsonSchema, schema, {}, "field"};
    ASSERT_TRUE(CheckSpec(spec).ok());
    const auto made = compiler_->Compile(spec);
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << schema;
    EXPECT_EQ(made.status().field(), "field");
  }
}

TEST_F(CompilerTest, RefusesWhatIsBroken) {
  for (const auto& [kind, text] : {std::pair(GrammarKind::kRegex, "(a"),
                                   {GrammarKind::kRegex, "a(?=b)"},
                                   {GrammarKind::kRegex, "\\bx"},
                                   {GrammarKind::kRegex, "a^b"},
                                   {GrammarKind::kRegex, "*"},
                                   {GrammarKind::kRegex, "[z-a]"},
                                   {GrammarKind::kRules, "root = 3"},
                                   {GrammarKind::kRules, "root ::= other"}}) {
    const auto made = compiler_->Compile({kind, text, {}, "field"});
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace penstock::grammar
