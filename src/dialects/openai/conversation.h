// A conversation as chat templates have it (OpenAI's chat messages), built step by step from the
// parts of another API's.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "api/generate_types.h"
#include "base/seeded_hash.h"
#include "base/status.h"
#include "chat/json_value.h"
#include "reply/tool_set.h"

namespace penstock::dialects {

// What the model said becomes one message, however many parts it came in: its reasoning, its text
// and its calls. Texts of one role in a row become one message, with line breaks between them.
class Conversation {
 public:
  void AddText(std::string_view role, std::string text);
  void AddReasoning(std::string text);
  void AddCall(std::string id, std::string name, chat::JsonValue arguments);
  // What a call returned. The tool's name is that of the call of this id.
  void AddResult(std::string id, std::string text);

  // Whether there is a message besides the system's.
  bool HasTurns() const;
  // The last message is the model's, and is not a call.
  bool EndsWithAnswer() const;
  chat::JsonValue Take() { return chat::JsonValue(std::exchange(messages_, {})); }

 private:
  chat::JsonValue* Last(std::string_view role);
  // The last message where it is of this role, else a new one.
  chat::JsonValue* Message(std::string_view role);

  chat::JsonValue::Array messages_;
  SeededMap<std::string, std::string> names_;  // of the called tools, by the calls' ids
};

// A tool of another API: its name, its `description`, and its schema under a key of its own.
struct FlatTool {
  chat::JsonValue* tool;
  std::string_view schema_key;
  std::string path;  // of the tool, for errors
};
// Appends the function to chat->tools, which is null or an array. kInvalidArgument: it has no
// proper name.
Expected<reply::ReplyTool> AddFunction(const FlatTool& flat, api::ChatPrompt* chat);

}  // namespace penstock::dialects
