// The grammar of the calls that a conversation's answer may have, or must.
#pragma once

#include <string>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "grammar/grammar_spec.h"
#include "reply/reply_format.h"

namespace penstock::api {

enum class CallUse {
  kRequired,  // the answer is calls
  kOrAnswer,  // the answer is calls, or holds to the request's own grammar
  kInText,    // the answer is any text, in which what begins as a call becomes one
};

// Calls of the request's tools, or of the one that it requires, in the model's own form. `model`: its
// name, for messages. With kInText a tool whose schema cannot be enforced takes any object, and
// CallSpec::ways is empty where the text cannot be held to calls at all.
// Returns kInvalidArgument with a field: no tool has the required name, the name of a tool does not
// fit the model's form, the schemas are too large, or the model's form is not known.
Expected<grammar::GrammarSpec> CallGrammar(const TextRequest& request,
                                           const reply::ReplyFormat& format, CallUse use,
                                           const std::string& model);

// What a call begins with, up to the end of its function's name: as CallGrammar has it, and without
// whitespace.
std::vector<std::string> CallBegins(const grammar::CallSpec& calls);

}  // namespace penstock::api
