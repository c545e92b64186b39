// A JSON Schema made ready for the library that turns it into rules: what that does otherwise than
// the standard is said in other words, and strings with patterns or lengths get rules of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/regex_rules.h"
#include "json/json.h"

namespace penstock::grammar {

struct SchemaRules {
  // A rule of ours, and the constant that stands for it in the schema. Between the quotes of a JSON
  // string.
  struct Rule {
    std::string constant;
    std::string expression;  // EBNF
  };
  std::string schema;
  std::vector<Rule> rules;
};

// `schema` has passed CheckSchema. What is written differently:
//   strings      with `pattern`, or of a bounded length in code points, become constants
//   objects      a required property that is not declared is declared with any value; where
//                properties are declared no others are written, since one of theirs could be among
//                them. Both leave out answers, and let no wrong one in
//   annotations  are left out
// kInvalidArgument with `field`: a pattern that has no rules, or bounds that exclude each other;
// or, between tags, a part whose rules would be the library's own.
Expected<SchemaRules> RewriteSchema(std::string_view schema, const std::string& field,
                                    RegexText text = RegexText::kJson);

// The expression of a string with `pattern`, or with `minLength` and `maxLength` in code points.
// kInvalidArgument as above, or for bounds that exclude each other.
Expected<std::string> StringRules(const JsonObject& schema, RegexText text,
                                  const std::string& field);

}  // namespace penstock::grammar
