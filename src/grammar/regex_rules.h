// From a regular expression (ECMA-262, as JSON Schema's `pattern` has it) to an expression in EBNF.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::grammar {

enum class RegexText {
  kPlain,
  // The text stands in a JSON string: quotes, backslashes and control characters are escaped.
  kJson,
  // As kPlain and kJson, in a text between tags: without a '<' (call_parameters.h).
  kTag,
  kJsonInTag,
};

constexpr bool InJson(RegexText text) {
  return text == RegexText::kJson || text == RegexText::kJsonInTag;
}
constexpr bool InTag(RegexText text) {
  return text == RegexText::kTag || text == RegexText::kJsonInTag;
}

// An expression for the texts that the whole pattern matches, in parentheses. A pattern that may
// match anywhere in a text is held to the whole text, too, which is stricter.
//
// Understood: alternatives, groups of all kinds but assertions, classes, \d \w \s and their
// opposites, escapes, *, +, ?, {m,n}, also lazy; ^ at the begin and $ at the end of an alternative.
// Classes are of code points from U+0001 on without surrogates; \s is ASCII's.
// kInvalidArgument, without a field: broken, or something else is in it; the message names it.
Expected<std::string> RegexRules(std::string_view pattern, RegexText text);

}  // namespace penstock::grammar
