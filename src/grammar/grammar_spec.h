// What a request may ask an answer to hold to. Plain values, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::grammar {

enum class GrammarKind {
  kJson,        // any JSON value that is an object
  kJsonSchema,  // JSON by a JSON Schema (draft 2020-12)
  kRegex,       // a regular expression that the whole text matches
  kChoice,      // one of some texts
  kRules,       // rules in EBNF, as GBNF of llama.cpp has it; the rule `root` is the text
  kCalls,       // calls of functions, in the words of a model
};

// A JSON Schema of any object.
inline constexpr const char* kAnyObjectSchema = R"({"type":"object","additionalProperties":true})";

// All texts of a spec together.
inline constexpr size_t kSpecBytesMax = 256 << 10;
inline constexpr size_t kRegexBytesMax = 8 << 10;
inline constexpr size_t kChoicesMax = 10'000;
// Repetitions of a character or an item, in schemas, patterns and rules.
inline constexpr int kRepeatsMax = 4096;

enum class CallForm {
  kJson,        // the arguments are a JSON object
  kParameters,  // each has tags of its own (call_parameters.h)
};

// One or more calls, each in one of these ways.
struct CallSpec {
  struct Way {
    std::string name;    // of the function, as it is written
    std::string schema;  // of the arguments; "": none are taken
  };
  std::vector<Way> ways;
  CallForm form = CallForm::kJson;
  std::string before_name, before_arguments, after;  // what stands around the two, in each call
  bool loose = false;           // whitespace in what stands around may be more, or less
  bool any_if_faulty = false;   // a function whose schema cannot be compiled takes any object
  std::string begin, end;       // of all calls together
  std::string separator;        // between two calls
  bool several = true;          // else there is one call
  std::string otherwise;        // a schema to which the text may hold instead; "": it is calls
  std::string otherwise_field;  // of the request, for errors
};
// Functions of a request, of which one may be called.
inline constexpr size_t kWaysMax = 256;

struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJson;
  std::string text;                  // the schema, the pattern or the rules
  std::vector<std::string> choices;  // of kChoice
  std::string field;                 // of the request, for errors: "response_format"
  CallSpec calls;                    // of kCalls

  size_t bytes() const;
  // Equal for equal specs, whatever their field, and for no others.
  std::string Key() const;
};

// Whether it can be held to as it is written: what a grammar cannot enforce is refused by its name,
// and so is what is over a bound. kInvalidArgument with the spec's field.
Status CheckSpec(const GrammarSpec& spec);

// Whether arguments can be held to their schema, as CheckSpec has it for a call.
Status CheckCallSchema(std::string_view schema, CallForm form, const std::string& field);

// A text in EBNF.
std::string Quoted(std::string_view text);
// The rules, in EBNF, of a text that is one of these.
std::string ChoiceRules(const std::vector<std::string>& choices);

}  // namespace penstock::grammar
