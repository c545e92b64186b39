// OpenAI's first form of tools, `functions` and `function_call`, in the terms of `tools` and
// `tool_calls`: one call an answer, without ids. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "chat/json_value.h"
#include "json/json.h"
#include "reply/tool_set.h"
#include "threads/request_context.h"

namespace penstock::dialects {

// Whether a request has `functions` or `function_call`.
bool HasFunctions(const JsonObject& object);

// The fields `functions` and `function_call` ("none", "auto", {"name"}): *chat gets the tools, unless
// none may be called, and *tools and *request what is to be known of them. kInvalidArgument, also
// beside `tools` or `tool_choice`, which say the same otherwise.
Status ReadFunctions(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat,
                     std::vector<reply::ReplyTool>* tools, api::TextRequest* request);

// A message with a `function_call` becomes one with `tool_calls`, and one of the role `function` one
// of the role `tool`, with the id of the last call. `path`: of the message. `calls`: how many of
// them came before; counted on.
Status ReadFunctionMessage(const std::string& path, int* calls, chat::JsonValue* message);

}  // namespace penstock::dialects
