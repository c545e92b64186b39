// The messages and tools of a chat request, as chat templates want them. Pure functions.
#pragma once

#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "chat/json_value.h"
#include "json/json.h"
#include "reply/tool_set.h"
#include "threads/request_context.h"

namespace penstock::dialects {

// Members of each object that a conversation brings: arguments of calls, schemas of tools,
// variables.
inline constexpr size_t kMembersMax = 4096;

// What follows takes the memory of what it makes from that of `context`'s request, for as long as
// the ChatPrompt lives, and ends where the request is not wanted any more. Null: a request without
// bounds.

// A copy of the value of `field`. Errors as JsonValue::Copy.
Expected<chat::JsonValue> ToJsonValue(JsonElement value, const char* field,
                                      const RequestContext* context, api::ChatPrompt* chat);

// The arguments of a call, as templates want them: JSON where `text` is that of an object, else the
// text. `field`: for errors.
Expected<chat::JsonValue> CallArguments(std::string text, const char* field,
                                        const RequestContext* context, api::ChatPrompt* chat);

// The field "messages": an array of objects with a role; its values are the template's to judge.
// Other fields of a message stay as they are, but for these:
//   content            a string, null, or parts of text, which are joined by line breaks; other
//                      parts (images, audio) are refused by name. Absent or null: ""
//   tool_calls         arguments that are JSON in a string become JSON, as templates want them
//   reasoning_content, reasoning    where one is given, it stands for the other too
Status ReadMessages(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat);

// The text of a content: of a string, or of parts of text, which are joined by line breaks. Parts of
// thinking are appended to *thinking; null: they are refused as others are. `path` names the
// content in errors.
Expected<std::string> TextOfContent(const chat::JsonValue& content, const std::string& path,
                                    std::string* thinking);

// The same of one part, which `path` names.
Expected<std::string> TextOfBlock(const chat::JsonValue& block, const std::string& path);

// Checks the name of a tool; `name` is null where the tool has none. kInvalidArgument: it is not a
// string of 1 to kNameBytesMax bytes.
Status CheckToolName(const chat::JsonValue* name, const std::string& path);

// A function that the model may call; null where `path` has none. Errors as CheckToolName.
Expected<reply::ReplyTool> ReadFunction(const chat::JsonValue* function, const std::string& path);

// The field "tools": functions. `tools` may be null. Absent, null or empty: chat->tools stays null.
Status ReadTools(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat,
                 std::vector<reply::ReplyTool>* tools);

// A prompt that is a conversation; `field` has its messages.
api::GeneratePrompt PromptOf(const char* field, api::ChatPrompt chat);

// Tools that the model may call, none perhaps. kInvalidArgument: the answer is held to a pattern or
// to rules as well, in which calls have no place.
Status SetTools(std::vector<reply::ReplyTool> tools, api::TextRequest* request);

}  // namespace penstock::dialects
