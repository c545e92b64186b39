#include "dialects/openai/legacy_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dialects/openai/chat.h"
#include "dialects/openai/chat_messages.h"

namespace penstock::dialects {
namespace {

Status BadCall(const std::string& path, const std::string& what) {
  return Status::InvalidArgument("'" + path + "' " + what, path);
}

// In a form that every chat template takes: Mistral's want nine letters and digits.
std::string IdOf(int call) { return fmt::format("call{:05}", call); }

}  // namespace

bool HasFunctions(const JsonObject& object) {
  return object.Has("functions") || object.Has("function_call");
}

Status ReadFunctions(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat,
                     std::vector<reply::ReplyTool>* tools, api::TextRequest* request) {
  if (!object.Has("functions")) return BadCall("function_call", "is for requests with 'functions'");
  for (const char* const newer : {"tools", "tool_choice"}) {
    if (object.Has(newer)) {
      return BadCall("functions", fmt::format("is not supported beside '{}'", newer));
    }
  }
  request->parallel_calls = false;
  PENSTOCK_RETURN_IF_ERROR(object.GetArray("functions", kToolsMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue all,
                            ToJsonValue(*object.Find("functions"), "functions", context, chat));
  for (size_t i = 0; i < all.array()->size(); ++i) {
    chat::JsonValue& function = (*all.array())[i];
    PENSTOCK_ASSIGN_OR_RETURN(reply::ReplyTool tool,
                              ReadFunction(&function, fmt::format("functions[{}]", i)));
    tools->push_back(std::move(tool));
    chat::JsonValue whole;
    whole.Set("type", "function");
    whole.Set("function", std::move(function));
    function = std::move(whole);
  }
  if (!tools->empty()) chat->tools = std::move(all);
  const auto choice = object.Find("function_call");
  if (!choice) return Status::Ok();
  std::string_view word;
  if (choice->is_object()) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject named, object.GetObject("function_call"));
    PENSTOCK_ASSIGN_OR_RETURN(request->required_tool, named.GetString("name"));
    request->requires_call = true;
    const bool known = std::any_of(tools->begin(), tools->end(), [&](const reply::ReplyTool& tool) {
      return tool.name == request->required_tool;
    });
    if (!known) return BadCall("function_call", "names none of the 'functions'");
    return Status::Ok();
  }
  if (!choice->Get(&word) || (word != "none" && word != "auto")) {
    return BadCall("function_call", R"(must be "none", "auto" or {"name": ...})");
  }
  if (word == "none") {
    chat->tools = {};
    tools->clear();
  }
  return Status::Ok();
}

Status ReadFunctionMessage(const std::string& path, int* calls, chat::JsonValue* message) {
  const chat::JsonValue* const role = message->Find("role");
  if (role != nullptr && role->string() != nullptr && *role->string() == "function") {
    message->Set("role", "tool");
    message->Set("tool_call_id", IdOf(*calls));
    const chat::JsonValue* const content = message->Find("content");
    if (content == nullptr || content->is_null()) message->Set("content", "");
    return Status::Ok();
  }
  chat::JsonValue* const function = message->Find("function_call");
  if (function == nullptr || function->is_null()) return Status::Ok();
  const chat::JsonValue* const others = message->Find("tool_calls");
  const bool empty = others == nullptr || others->is_null() ||
                     (others->array() != nullptr && others->array()->empty());
  if (!empty) {
    return BadCall(path + ".function_call", "is not supported beside 'tool_calls'");
  }
  if (function->object() == nullptr) return BadCall(path + ".function_call", "must be an object");
  PENSTOCK_RETURN_IF_ERROR(CheckToolName(function->Find("name"), path + ".function_call.name"));
  chat::JsonValue call;
  call.Set("id", IdOf(++*calls));
  call.Set("type", "function");
  call.Set("function", std::move(*function));
  *function = nullptr;
  chat::JsonValue::Array list;
  list.push_back(std::move(call));
  message->Set("tool_calls", std::move(list));
  return Status::Ok();
}

}  // namespace penstock::dialects
