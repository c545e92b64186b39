// The arguments of a call whose values stand in tags, as Qwen3-Coder writes them, from the schema of
// the arguments:
//
//   <parameter=key>
//   value
//   </parameter>
//
// A string stands as it is, without quotes; any other value is JSON. Neither has a '<' that would
// begin a tag of calls. What reads the call takes a value for the first of null, boolean, number,
// object, array that the schema admits and the text is (TypedParameters of reply/), so a string
// beside those may not look like one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::grammar {

struct CallParameter {
  std::string key;
  bool required = false;
  std::vector<std::string> texts;    // expressions in EBNF, for values that are strings
  std::vector<std::string> schemas;  // of values that are JSON, in a text without '<'
};

struct CallParameters {
  std::vector<CallParameter> parameters;  // in the order in which they are written
  bool others = false;  // none is declared: there may be any, whose values are any text
};

// The name of the rule for any text of a value, and its definition, with that of the next.
inline constexpr std::string_view kTagTextRule = "penstock_tag_text";
// The same for a text that does not look like a number, an array or an object, nor like a tag.
inline constexpr std::string_view kTagWordsRule = "penstock_tag_words";
std::string TagTextRules();

// `schema` has passed CheckSchema. kInvalidArgument with `field`: a part of it cannot be enforced in
// this form; the message names it.
Expected<CallParameters> ReadCallParameters(std::string_view schema, const std::string& field);

}  // namespace penstock::grammar
