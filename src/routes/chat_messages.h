// The messages and tools of a chat request, as chat templates want them. Pure functions.
#pragma once

#include <vector>

#include "chat/json_value.h"
#include "common/json.h"
#include "common/status.h"
#include "reply/tool_set.h"

namespace penstock {

// A copy of a value. kInvalidArgument as JsonValue::Parse.
Expected<JsonValue> ToJsonValue(JsonElement value);

// The field "messages": an array of objects with a role; its values are the template's to judge.
// Other fields of a message stay as they are, but for these:
//   content            a string, null, or parts of text, which are joined by line breaks; other
//                      parts (images, audio) are refused by name. Absent or null: ""
//   tool_calls         arguments that are JSON in a string become JSON, as templates want them
//   reasoning_content, reasoning    where one is given, it stands for the other too
Expected<JsonValue> ReadMessages(const JsonObject& object);

// Accepts a `response_format` of type "text", or none. kInvalidArgument: another type.
Status ParseResponseFormat(const JsonObject& object);

// The field "tools": functions. `tools` may be null. Absent, null or empty: *value stays null.
Status ReadTools(const JsonObject& object, JsonValue* value, std::vector<ReplyTool>* tools);

}  // namespace penstock
