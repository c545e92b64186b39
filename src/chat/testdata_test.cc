// The chat templates and the cases of the test data. Their expected texts come from an engine in
// JavaScript, which writes true where Python writes True, and joins numbers to texts; where
// Python's jinja2 answers otherwise, its answer is below and is what counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "chat/chat_template.h"

namespace penstock::chat {
namespace {

namespace fs = std::filesystem;

// nullptr: an error.
const std::map<std::string, const char*> kPython = {
    {"BOOLEAN_LITERALS", "|True|False|True|False|"},
    {"LOGICAL_AND", "TrueFalseFalseFalse"},
    {"LOGICAL_OR", "TrueTrueTrueFalse"},
    {"LOGICAL_NOT", "FalseTrue"},
    {"LOGICAL_NOT_NOT", "TrueFalse"},
    {"LOGICAL_AND_OR", "TrueTrueTrueTrueFalse"},
    {"LOGICAL_AND_NOT", "FalseTrueFalseFalse"},
    {"LOGICAL_OR_NOT", "TrueTrueFalseTrue"},
    {"LOGICAL_COMBINED", "FalseTrue"},
    {"FOR_LOOP_UNPACKING", nullptr},
    {"FOR_LOOP_OBJECTS", nullptr},
    {"NUMBERS", nullptr},
    {"BINOP_EXPR", "1TrueFalseFalseTrueTrueTrue5"},
    {"BINOP_EXPR_1", "1+2=3 is True"},
    {"FUNCTIONS", nullptr},
    {"PROPERTIES_1",
     "|[['zero-zero-zero', 'zero-zero-one'], ['zero-one-zero', 'zero-one-one']]|['zero-one-zero', "
     "'zero-one-one']|zero-one-one|mixed-indexing|"},
    {"OBJ_METHODS", nullptr},
    {"MEMBERSHIP", "|True|True|True|True|True|False|"},
    {"MEMBERSHIP_NEGATION_1", "|False|False|False|False|False|True|"},
    {"MEMBERSHIP_NEGATION_2", "|False|False|False|False|False|True|"},
    {"MEMBERSHIP_UNDEFINED", "|False|False|False|False|False|False|"},
    {"UNARY_SIGN_EXPRESSIONS", "|yes|True|True|True|True|1|True|-1|1|2|-2|-1.5|-0.0|1|-1|0|"},
    {"SUBSTRING_INCLUSION", "|True|True|False|True|False|True|False|"},
    {"FILTER_OPERATOR_4", nullptr},
    {"FILTER_OPERATOR_5", nullptr},
    {"FILTER_OPERATOR_6", nullptr},
    {"FILTER_OPERATOR_7", nullptr},
    {"FILTER_OPERATOR_11", nullptr},
    {"FILTER_OPERATOR_12", nullptr},
    {"FILTER_OPERATOR_13", "[{'name': 'some_tool', 'arguments': {'some_name': 'string'}}]"},
    {"FILTER_OPERATOR_16", "|hello|False|hello|hello|"},
    {"SORT_BASIC_STRINGS", "['Apple', 'banana', 'cherry']"},
    {"SORT_CASE_SENSITIVE", "['Apple', 'banana', 'cherry']"},
    {"SORT_CASE_INSENSITIVE", "['Apple', 'banana', 'cherry']"},
    {"SORT_ATTRIBUTE_SIMPLE", "['Alice', 'Bob', 'Charlie']"},
    {"SORT_CHAINED", "['Bob', 'Alice', 'Charlie', 'David']"},
    {"SORT_STABLE", "['apple', 'banana', 'carrot', 'broccoli']"},
    {"SORT_POSITIONAL_REVERSE_CASE", "['Apple', 'banana', 'cherry']"},
    {"SORT_POSITIONAL_ALL", "['Alice', 'Bob', 'Charlie']"},
    {"SORT_NULL_VALUES", "[None, None]"},
    {"SORT_UNDEFINED_VALUES", "[Undefined, Undefined, Undefined]"},
    {"SORT_MIXED_BOOL_NUM", "[0, False, 0.5, True, 1]"},
    {"BOOLEAN_NUMERICAL", "|2|0|0|0|1|1|1|0|False|True|"},
    {"BOOLEAN_STRINGS", "|b||||a|a|a||False|True|"},
    {"BOOLEAN_MIXED", "|1|0|False|False|True|True|1|0|"},
    {"BOOLEAN_MIXED_2", "||a||a||True|False|a|"},
    {"IS_OPERATOR", "|False|True|True|False|"},
    {"IS_OPERATOR_2", "|True|False|False|True|True|False|"},
    {"IS_OPERATOR_3", "|True|False|False|True|True|False|True|False|"},
    {"IS_OPERATOR_4", "|True|False|False|True|"},
    {"IS_OPERATOR_5", "|True|False|False|True|"},
    {"IS_OPERATOR_6", "|False|False|False|True|"},
    {"SHORT_CIRCUIT", "False"},
    {"SHORT_CIRCUIT_1", "True"},
    {"NAMESPACE_1", "False"},
    {"NAMESPACE_2", "|False|2|"},
    {"OBJECT_OPERATORS", "|True|False|False|True|"},
    {"OBJECT_OPERATORS_1", "|True|True|True|"},
    {"OBJECT_OPERATORS_2", nullptr},
    {"SCOPE", "found=True"},
    {"SCOPE_1", "found=False"},
    {"MACROS_2", nullptr},
};

class ChatTestData : public testing::Test {
 protected:
  void SetUp() override {
    const char* given = std::getenv("PENSTOCK_TESTDATA");
    const fs::path root = given != nullptr ? given : PENSTOCK_SOURCE_DIR "/../shared/testdata";
    folder_ = root / "huggingface__huggingface.js";
    if (!fs::exists(folder_)) {
      GTEST_SKIP() << "NO TEST DATA at " << root << ": set PENSTOCK_TESTDATA";
    }
  }
  JsonValue Read(const char* file) {
    std::stringstream text;
    text << std::ifstream(folder_ / file).rdbuf();
    auto value = JsonValue::Parse(text.str());
    EXPECT_TRUE(value.ok()) << file << ": " << value.status().ToString();
    return value.ok() ? *std::move(value) : JsonValue();
  }

  fs::path folder_;
};

// The variables of a case as an input; *prompt tells whether they say add_generation_prompt.
ChatInput InputOf(const JsonValue& data, bool* prompt) {
  ChatInput input;
  input.now = std::chrono::system_clock::from_time_t(1'752'148'800);  // 2025-07-10 12:00 UTC
  *prompt = false;
  for (const auto& [name, value] : *data.object()) {
    if (name == "messages") {
      input.messages = value;
    } else if (name == "tools" || name == "documents") {
      if (!value.is_null()) (name == "tools" ? input.tools : input.documents) = value;
    } else if (name == "add_generation_prompt") {
      *prompt = true;
      input.add_generation_prompt = value.boolean() != nullptr && *value.boolean();
    } else {
      input.variables.Set(name, value);
    }
  }
  return input;
}

TEST_F(ChatTestData, ChatTemplates) {
  setenv("TZ", "UTC", 1);
  tzset();
  const JsonValue data = Read("jinja_e2e.json");
  int count = 0;
  for (const char* group : {"default", "custom"}) {
    for (const auto& [name, entry] : *data.Find(group)->object()) {
      ++count;
      bool prompt = false;
      const ChatInput input = InputOf(*entry.Find("data"), &prompt);
      const auto parsed = ChatTemplate::Parse(*entry.Find("chat_template")->string());
      ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status().ToString();
      const auto text = parsed->Render(input);
      ASSERT_TRUE(text.ok()) << name << ": " << text.status().ToString();
      const std::string& target = *entry.Find("target")->string();
      if (name == "MadeAgents/Hammer2.1") {  // writes a list with str(), which is Python's
        EXPECT_NE(text->find("[{'type': 'function', 'function': {'name': 'get_current_temperature"),
                  std::string::npos);
      } else if (!prompt && *text != target) {
        // transformers always says add_generation_prompt; this template asks whether it is there.
        EXPECT_EQ(name, "ai21labs/AI21-Jamba-Large-1.6");
        EXPECT_EQ(*text + "<|bom|><|assistant|>", target);
      } else {
        EXPECT_EQ(*text, target) << name;
      }
    }
  }
  EXPECT_EQ(count, 53);
}

TEST_F(ChatTestData, JinjaCases) {
  const JsonValue data = Read("jinja_templates.json");
  size_t others = 0;
  for (const auto& [name, source] : *data.Find("strings")->object()) {
    bool prompt = false;
    const ChatInput input = InputOf(*data.Find("context")->Find(name), &prompt);
    const auto parsed = ChatTemplate::Parse(*source.string());
    const Expected<std::string> text =
        parsed.ok() ? parsed->Render(input) : Expected<std::string>(parsed.status());
    const char* expected = data.Find("expected")->Find(name)->string()->c_str();
    const auto other = kPython.find(name);
    if (other != kPython.end()) {
      expected = other->second;
      ++others;
    }
    if (expected == nullptr) {
      EXPECT_FALSE(text.ok()) << name << ": " << *text;
    } else {
      ASSERT_TRUE(text.ok()) << name << ": " << text.status().ToString();
      EXPECT_EQ(*text, expected) << name;
    }
  }
  EXPECT_EQ(data.Find("strings")->object()->size(), 161u);
  EXPECT_EQ(others, kPython.size());
}

}  // namespace
}  // namespace penstock::chat
