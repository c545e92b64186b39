#include "dialects/openai/chat_messages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dialects/openai/chat.h"
#include "dialects/openai/legacy_functions.h"
#include "dialects/shared/fields.h"
#include "threads/held_memory.h"

namespace penstock::dialects {
namespace {

Status Wrong(const std::string& path, const std::string& what) {
  return Status::InvalidArgument("'" + path + "' " + what, path);
}

const char* TypeOf(const chat::JsonValue& value) {
  if (value.is_null()) return "null";
  if (value.boolean() != nullptr) return "bool";
  if (value.string() != nullptr) return "string";
  if (value.array() != nullptr) return "array";
  return value.object() != nullptr ? "object" : "number";
}

std::string Indexed(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

// Returns the text member of a part, null if the part has none. Documents are
// {"type": "document", "document": {"data": "..."}} (Cohere) and
// {"type": "document", "source": {"type": "text", "data": "..."}} (Anthropic).
const chat::JsonValue* TextOfPart(const chat::JsonValue& part, const std::string& type) {
  if (type == "text" || type == "input_text" || type == "output_text") return part.Find("text");
  if (type == "refusal" || type == "thinking") return part.Find(type);
  if (type != "document") return nullptr;
  const chat::JsonValue* const document = part.Find("document");
  if (document != nullptr) return document->Find("data");
  const chat::JsonValue* const source = part.Find("source");
  const chat::JsonValue* const form = source == nullptr ? nullptr : source->Find("type");
  const bool is_text = form != nullptr && form->string() != nullptr && *form->string() == "text";
  return is_text ? source->Find("data") : nullptr;
}

// The text of one part, {"type": "text", "text": "..."} or a string; null: it was thinking, which
// went into *thinking.
Expected<const std::string*> TextOfOne(const chat::JsonValue& part, const std::string& at,
                                       std::string* thinking) {
  const std::string* text = part.string();
  if (text != nullptr) return text;
  const chat::JsonValue* const type = part.Find("type");
  if (type == nullptr || type->string() == nullptr) {
    return Wrong(at, "must be an object with a type");
  }
  const std::string& name = *type->string();
  constexpr std::string_view kKnown[] = {"text",    "input_text", "output_text",
                                         "refusal", "thinking",   "document"};
  if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown) ||
      (name == "thinking" && thinking == nullptr)) {
    return Wrong(at + ".type",
                 "\"" + name.substr(0, 40) + "\" is not supported; the models here read text");
  }
  const chat::JsonValue* const value = TextOfPart(part, name);
  text = value == nullptr ? nullptr : value->string();
  if (text == nullptr) {
    if (part.Find("source") != nullptr) return Wrong(at + ".source", "must be of type text");
    const char* const member = name == "document" ? ".document.data" : ".text";
    return Wrong(at + member, "must be a string");
  }
  if (name != "thinking") return text;
  *thinking += *text;
  return static_cast<const std::string*>(nullptr);
}

// The text of a content's parts.
Expected<std::string> JoinParts(const chat::JsonValue::Array& parts, const std::string& path,
                                std::string* thinking) {
  std::string joined;
  bool first = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string* text,
                              TextOfOne(parts[i], Indexed(path, i), thinking));
    if (text == nullptr) continue;
    if (!std::exchange(first, false)) joined += '\n';
    joined += *text;
  }
  return joined;
}

Status ReadContent(chat::JsonValue* message, const std::string& path) {
  chat::JsonValue* const content = message->Find("content");
  if (content == nullptr || content->is_null()) {
    // What a model said may be calls alone, or nothing.
    if (*message->Find("role")->string() != "assistant") {
      return Wrong(path + ".content", "is missing");
    }
    message->Set("content", "");
    return Status::Ok();
  }
  if (content->string() != nullptr) return Status::Ok();
  std::string thinking;
  PENSTOCK_ASSIGN_OR_RETURN(std::string text,
                            TextOfContent(*content, path + ".content", &thinking));
  *content = chat::JsonValue(std::move(text));
  if (!thinking.empty() && message->Find("reasoning_content") == nullptr) {
    message->Set("reasoning_content", std::move(thinking));
  }
  return Status::Ok();
}

// What is not the JSON of an object stays the text it is.
Expected<chat::JsonValue> ParseArguments(std::string text, const chat::JsonValue::Limits& limits) {
  auto value = chat::JsonValue::Parse(text, limits);
  if (!value.ok() && value.code() != StatusCode::kInvalidArgument) return value.status();
  if (value.ok() && value->object() != nullptr) return value;
  return chat::JsonValue(std::move(text));
}

Status ReadCalls(const chat::JsonValue::Limits& limits, chat::JsonValue* message,
                 const std::string& path) {
  chat::JsonValue* const calls = message->Find("tool_calls");
  if (calls == nullptr || calls->is_null()) return Status::Ok();
  if (calls->array() == nullptr) return Wrong(path + ".tool_calls", "must be an array");
  for (size_t i = 0; i < calls->array()->size(); ++i) {
    const std::string at = Indexed(path + ".tool_calls", i);
    chat::JsonValue& call = (*calls->array())[i];
    if (call.object() == nullptr) return Wrong(at, "must be an object");
    chat::JsonValue* const function = call.Find("function");
    if (function == nullptr || function->object() == nullptr) {
      return Wrong(at + ".function", "must be an object");
    }
    chat::JsonValue* const arguments = function->Find("arguments");
    if (arguments == nullptr || arguments->string() == nullptr) continue;
    PENSTOCK_ASSIGN_OR_RETURN(*arguments, ParseArguments(std::move(*arguments->string()), limits));
  }
  return Status::Ok();
}

// One of two names that clients and models give to the same.
void ReadReasoning(chat::JsonValue* message) {
  const chat::JsonValue* const content = message->Find("reasoning_content");
  const chat::JsonValue* const plain = message->Find("reasoning");
  if (content != nullptr && content->string() != nullptr && plain == nullptr) {
    message->Set("reasoning", *content->string());
  } else if (plain != nullptr && plain->string() != nullptr && content == nullptr) {
    message->Set("reasoning_content", *plain->string());
  }
}

// `functions`: calls in the old form so far.
Status ReadMessage(const chat::JsonValue::Limits& limits, chat::JsonValue* message,
                   const std::string& path, int* functions) {
  if (message->object() == nullptr) return Wrong(path, "must be an object");
  const chat::JsonValue* const role = message->Find("role");
  if (role == nullptr || role->string() == nullptr) {
    return Wrong(path + ".role", "must be a string");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadFunctionMessage(path, functions, message));
  PENSTOCK_RETURN_IF_ERROR(ReadContent(message, path));
  PENSTOCK_RETURN_IF_ERROR(ReadCalls(limits, message, path));
  ReadReasoning(message);
  return Status::Ok();
}

}  // namespace

Status CheckToolName(const chat::JsonValue* name, const std::string& path) {
  if (name != nullptr && name->string() != nullptr && !name->string()->empty() &&
      name->string()->size() <= api::kNameBytesMax) {
    return Status::Ok();
  }
  return Wrong(path, "must be a string of 1 to " + std::to_string(api::kNameBytesMax) + " bytes");
}

Expected<reply::ReplyTool> ReadFunction(const chat::JsonValue* function, const std::string& path) {
  const chat::JsonValue* const name = function == nullptr ? nullptr : function->Find("name");
  PENSTOCK_RETURN_IF_ERROR(CheckToolName(name, path + ".name"));
  const chat::JsonValue* const parameters = function->Find("parameters");
  const bool told = parameters != nullptr && parameters->object() != nullptr;
  return reply::ReplyTool{*name->string(), told ? parameters->Print() : ""};
}

namespace {

Expected<reply::ReplyTool> ReadTool(const chat::JsonValue& tool, const std::string& path) {
  const chat::JsonValue* const type = tool.Find("type");
  if (type == nullptr || type->string() == nullptr || *type->string() != "function") {
    return Wrong(path + ".type", "must be \"function\"");
  }
  return ReadFunction(tool.Find("function"), path + ".function");
}

chat::JsonValue::Limits LimitsOf(const char* field, const RequestContext* context,
                                 api::ChatPrompt* chat) {
  chat::JsonValue::Limits limits;
  limits.field = field;
  limits.members_max = kMembersMax;
  limits.context = context;
  if (context != nullptr && context->memory != nullptr) {
    if (chat->held == nullptr) chat->held = std::make_shared<HeldMemory>(context->memory);
    limits.memory = chat->held.get();
  }
  return limits;
}

}  // namespace

Expected<std::string> TextOfContent(const chat::JsonValue& content, const std::string& path,
                                    std::string* thinking) {
  if (content.string() != nullptr) return *content.string();
  if (content.array() != nullptr) return JoinParts(*content.array(), path, thinking);
  return Wrong(path, std::string("must be a string or an array of parts, is ") + TypeOf(content));
}

Expected<std::string> TextOfBlock(const chat::JsonValue& block, const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string* text, TextOfOne(block, path, nullptr));
  return *text;
}

Expected<chat::JsonValue> ToJsonValue(JsonElement value, const char* field,
                                      const RequestContext* context, api::ChatPrompt* chat) {
  return chat::JsonValue::Copy(value, LimitsOf(field, context, chat));
}

Expected<chat::JsonValue> CallArguments(std::string text, const char* field,
                                        const RequestContext* context, api::ChatPrompt* chat) {
  return ParseArguments(std::move(text), LimitsOf(field, context, chat));
}

Status ReadMessages(const JsonObject& object, const RequestContext* context,
                    api::ChatPrompt* chat) {
  PENSTOCK_RETURN_IF_ERROR(object.GetArray("messages", kMessagesMax).status());
  const chat::JsonValue::Limits limits = LimitsOf("messages", context, chat);
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue messages,
                            chat::JsonValue::Copy(*object.Find("messages"), limits));
  chat::JsonValue::Array& all = *messages.array();
  if (all.empty()) return Wrong("messages", "is empty");
  int functions = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(ReadMessage(limits, &all[i], Indexed("messages", i), &functions));
  }
  chat->messages = std::move(messages);
  return Status::Ok();
}

api::GeneratePrompt PromptOf(const char* field, api::ChatPrompt chat) {
  api::GeneratePrompt prompt;
  prompt.field = field;
  prompt.value = std::move(chat);
  return prompt;
}

Status SetTools(std::vector<reply::ReplyTool> tools, api::TextRequest* request) {
  if (tools.empty()) return Status::Ok();
  using grammar::GrammarKind;
  const auto& grammar = request->grammar;
  if (grammar && grammar->kind != GrammarKind::kJson && grammar->kind != GrammarKind::kJsonSchema) {
    return Wrong(grammar->field,
                 "is not supported beside 'tools', unless it is JSON: set 'tool_choice' to "
                 "\"none\", or leave one of the two out");
  }
  request->tools = std::make_shared<const reply::ToolSet>(std::move(tools));
  return Status::Ok();
}

Status ReadTools(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat,
                 std::vector<reply::ReplyTool>* tools) {
  if (!object.Has("tools")) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(object.GetArray("tools", kToolsMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue all,
                            ToJsonValue(*object.Find("tools"), "tools", context, chat));
  if (all.array()->empty()) return Status::Ok();
  for (size_t i = 0; i < all.array()->size(); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(reply::ReplyTool tool,
                              ReadTool((*all.array())[i], Indexed("tools", i)));
    if (tools != nullptr) tools->push_back(std::move(tool));
  }
  chat->tools = std::move(all);
  return Status::Ok();
}

}  // namespace penstock::dialects
