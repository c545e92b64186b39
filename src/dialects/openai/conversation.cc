#include "dialects/openai/conversation.h"

#include "dialects/openai/chat_messages.h"

namespace penstock::dialects {
namespace {

constexpr const char* kAssistant = "assistant";

// Appends to the text of a member.
void Append(std::string_view key, std::string text, std::string_view separator,
            chat::JsonValue* message) {
  chat::JsonValue* const there = message->Find(key);
  if (there == nullptr || there->string() == nullptr || there->string()->empty()) {
    message->Set(key, std::move(text));
  } else {
    there->string()->append(separator).append(text);
  }
}

}  // namespace

chat::JsonValue* Conversation::Last(std::string_view role) {
  if (messages_.empty()) return nullptr;
  return *messages_.back().Find("role")->string() == role ? &messages_.back() : nullptr;
}

chat::JsonValue* Conversation::Message(std::string_view role) {
  if (chat::JsonValue* const last = Last(role)) return last;
  chat::JsonValue message;
  message.Set("role", role);
  message.Set("content", "");
  messages_.push_back(std::move(message));
  return &messages_.back();
}

void Conversation::AddText(std::string_view role, std::string text) {
  Append("content", std::move(text), "\n", Message(role));
}

void Conversation::AddReasoning(std::string text) {
  // Both names that templates read.
  chat::JsonValue* const message = Message(kAssistant);
  Append("reasoning", text, "\n", message);
  Append("reasoning_content", std::move(text), "\n", message);
}

void Conversation::AddCall(std::string id, std::string name, chat::JsonValue arguments) {
  names_[id] = name;
  chat::JsonValue function;
  function.Set("name", std::move(name));
  function.Set("arguments", std::move(arguments));
  chat::JsonValue call;
  call.Set("id", std::move(id));
  call.Set("type", "function");
  call.Set("function", std::move(function));
  chat::JsonValue* const message = Message(kAssistant);
  if (message->Find("tool_calls") == nullptr) message->Set("tool_calls", chat::JsonValue::Array());
  message->Find("tool_calls")->array()->push_back(std::move(call));
}

void Conversation::AddResult(std::string id, std::string text) {
  chat::JsonValue message;
  message.Set("role", "tool");
  message.Set("content", std::move(text));
  const auto name = names_.find(id);
  if (name != names_.end()) message.Set("name", name->second);
  message.Set("tool_call_id", std::move(id));
  messages_.push_back(std::move(message));
}

bool Conversation::HasTurns() const {
  return messages_.size() > 1 ||
         (messages_.size() == 1 && *messages_[0].Find("role")->string() != "system");
}

bool Conversation::EndsWithAnswer() const {
  if (messages_.empty() || messages_.back().Find("tool_calls") != nullptr) return false;
  return *messages_.back().Find("role")->string() == kAssistant;
}

Expected<reply::ReplyTool> AddFunction(const FlatTool& flat, api::ChatPrompt* chat) {
  const chat::JsonValue* const name = flat.tool->Find("name");
  PENSTOCK_RETURN_IF_ERROR(CheckToolName(name, flat.path + ".name"));
  reply::ReplyTool known{*name->string(), ""};
  chat::JsonValue function;
  function.Set("name", known.name);
  for (const auto& [from, to] :
       {std::pair<std::string_view, const char*>{"description", "description"},
        {flat.schema_key, "parameters"}}) {
    chat::JsonValue* const member = flat.tool->Find(from);
    if (member == nullptr || member->is_null()) continue;
    const bool is_schema = from == flat.schema_key;
    if (is_schema ? member->object() == nullptr : member->string() == nullptr) {
      const std::string path = flat.path + "." + std::string(from);
      return Status::InvalidArgument(
          "'" + path + "' must be " + (is_schema ? "an object" : "a string"), path);
    }
    if (is_schema) known.parameters = member->Print();
    function.Set(to, std::move(*member));
  }
  chat::JsonValue tool;
  tool.Set("type", "function");
  tool.Set("function", std::move(function));
  if (chat->tools.is_null()) chat->tools = chat::JsonValue::Array();
  chat->tools.array()->push_back(std::move(tool));
  return known;
}

}  // namespace penstock::dialects
