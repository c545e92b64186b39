// The fields by which requests for text ask for an answer of a form. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "grammar/grammar_spec.h"
#include "json/json.h"

namespace penstock::dialects {

// OpenAI's and Cohere's `response_format`, or another field of its form under `key`; nullopt:
// absent, or of type "text".
Expected<std::optional<grammar::GrammarSpec>> ReadResponseFormat(
    const JsonObject& object, std::string_view key = "response_format");

//   OpenAI         response_format of type "text", "json_object" or "json_schema"; the schema is in
//                  json_schema.schema, of type "json_object" in schema (llama-server) or
//                  json_schema (Cohere)
//   vLLM           guided_json, guided_regex, guided_choice, guided_grammar; and
//                  structured_outputs: {json | json_object | regex | choice | grammar}
//   llama-server   grammar (GBNF), json_schema
// nullopt: the answer is free. kInvalidArgument: two of them, or one that is broken; grammars
// themselves are checked later (grammar::CheckSpec).
Expected<std::optional<grammar::GrammarSpec>> ReadGrammar(const JsonObject& object);

// A schema under `key`, as an object or as JSON in a text; nullopt: absent.
Expected<std::optional<grammar::GrammarSpec>> ReadSchema(const JsonObject& object,
                                                         std::string_view key,
                                                         const std::string& field);

}  // namespace penstock::dialects
