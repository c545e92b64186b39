#include "dialects/openai/responses.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialects/openai/chat_messages.h"
#include "dialects/openai/conversation.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr size_t kItemsMax = 16384;

constexpr RefusedField kResponsesRefused[] = {
    {"previous_response_id", "nothing is kept: send the whole conversation as 'input'"},
    {"store", "nothing is kept: leave it out, or send false"},
    {"conversation", "nothing is kept: send the whole conversation as 'input'"},
    {"background", "nothing is kept; /v1/batches takes work for later"},
    {"prompt", "nothing is kept: send 'instructions' and 'input'"},
};
// The response repeats these fields of the request; absent ones have these values.
constexpr std::pair<const char*, const char*> kEchoed[] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"prompt_cache_key", "null"},
    {"reasoning", R"({"effort":null,"summary":null})"},
    {"safety_identifier", "null"},
    {"temperature", "null"},
    {"text", R"({"format":{"type":"text"}})"},
    {"tool_choice", R"("auto")"},
    {"tools", "[]"},
    {"top_logprobs", "0"},
    {"top_p", "null"},
    {"user", "null"},
};

Status Fault(const std::string& path, const std::string& what) {
  return Status::InvalidArgument("'" + path + "' " + what, path);
}

// A text that an item must have.
Expected<std::string> TakeText(chat::JsonValue* item, const char* key, const std::string& path) {
  chat::JsonValue* const member = item->Find(key);
  if (member == nullptr || member->string() == nullptr) {
    return Fault(path + "." + key, "must be a string");
  }
  return std::move(*member->string());
}

class ResponsesReader {
 public:
  ResponsesReader(const JsonObject& object, const RequestContext* context)
      : object_(object), context_(context) {}

  // The conversation, its tools and whether the model is to think.
  Status Read() {
    PENSTOCK_RETURN_IF_ERROR(RefuseFields(object_, kResponsesRefused));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string truncation, GetName(object_, "truncation"));
    if (!truncation.empty() && truncation != "disabled") {
      return Fault("truncation", "must be \"disabled\": a conversation is never cut");
    }
    if (object_.Has("instructions")) {
      PENSTOCK_ASSIGN_OR_RETURN(std::string text, object_.GetString("instructions"));
      if (!text.empty()) conversation_.AddText("system", std::move(text));
    }
    PENSTOCK_RETURN_IF_ERROR(ReadInput());
    chat.messages = conversation_.Take();
    PENSTOCK_RETURN_IF_ERROR(ReadFunctions());
    return ReadReasoning();
  }

  api::ChatPrompt chat;
  std::vector<reply::ReplyTool> tools;
  IgnoredFields ignored;

 private:
  Status ReadInput();
  Status ReadItem(chat::JsonValue* item, const std::string& path);
  Status ReadReasoningItem(const chat::JsonValue& item, const std::string& path);
  Status ReadCall(chat::JsonValue* item, const std::string& path);
  Status ReadFunctions();
  Status ReadReasoning();

  const JsonObject& object_;
  const RequestContext* const context_;
  Conversation conversation_;
};

Status ResponsesReader::ReadInput() {
  const auto input = object_.Find("input");
  if (!input) return Fault("input", "is missing");
  if (input->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string text, object_.GetString("input"));
    conversation_.AddText("user", std::move(text));
    return Status::Ok();
  }
  PENSTOCK_RETURN_IF_ERROR(object_.GetArray("input", kItemsMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue items, ToJsonValue(*input, "input", context_, &chat));
  size_t index = 0;
  for (chat::JsonValue& item : *items.array()) {
    PENSTOCK_RETURN_IF_ERROR(ReadItem(&item, fmt::format("input[{}]", index++)));
  }
  if (!conversation_.HasTurns()) return Fault("input", "is empty");
  return Status::Ok();
}

Status ResponsesReader::ReadItem(chat::JsonValue* item, const std::string& path) {
  if (item->object() == nullptr) return Fault(path, "must be an object");
  const chat::JsonValue* const form = item->Find("type");
  if (form != nullptr && form->string() == nullptr) {
    return Fault(path + ".type", "must be a string");
  }
  const std::string type = form == nullptr ? "message" : *form->string();
  if (type == "message") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string role, TakeText(item, "role", path));
    if (role == "developer") role = "system";
    if (role != "user" && role != "assistant" && role != "system") {
      return Fault(path + ".role", "must be \"user\", \"assistant\", \"system\" or \"developer\"");
    }
    const chat::JsonValue* const content = item->Find("content");
    if (content == nullptr) return Fault(path + ".content", "is missing");
    PENSTOCK_ASSIGN_OR_RETURN(std::string text,
                              TextOfContent(*content, path + ".content", nullptr));
    conversation_.AddText(role, std::move(text));
    return Status::Ok();
  }
  if (type == "function_call") return ReadCall(item, path);
  if (type == "function_call_output") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string id, TakeText(item, "call_id", path));
    const chat::JsonValue* const output = item->Find("output");
    if (output == nullptr) return Fault(path + ".output", "is missing");
    PENSTOCK_ASSIGN_OR_RETURN(std::string text, TextOfContent(*output, path + ".output", nullptr));
    conversation_.AddResult(std::move(id), std::move(text));
    return Status::Ok();
  }
  if (type == "reasoning") return ReadReasoningItem(*item, path);
  if (type == "item_reference") {
    return Fault(path, "refers to an item, and nothing is kept: send the item itself");
  }
  return Fault(path + ".type", fmt::format("\"{}\" is not supported", type.substr(0, 40)));
}

Status ResponsesReader::ReadCall(chat::JsonValue* item, const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string id, TakeText(item, "call_id", path));
  PENSTOCK_ASSIGN_OR_RETURN(std::string name, TakeText(item, "name", path));
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, TakeText(item, "arguments", path));
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue arguments,
                            CallArguments(std::move(text), "input", context_, &chat));
  conversation_.AddCall(std::move(id), std::move(name), std::move(arguments));
  return Status::Ok();
}

// The whole of the reasoning where it is there, else its summary.
Status ResponsesReader::ReadReasoningItem(const chat::JsonValue& item, const std::string& path) {
  for (const char* key : {"content", "summary"}) {
    const chat::JsonValue* const parts = item.Find(key);
    if (parts == nullptr || parts->is_null()) continue;
    if (parts->array() == nullptr) return Fault(path + "." + key, "must be an array");
    std::string text;
    for (const chat::JsonValue& part : *parts->array()) {
      const chat::JsonValue* const piece = part.Find("text");
      if (piece == nullptr || piece->string() == nullptr) {
        return Fault(path + "." + key, "must be parts with a text");
      }
      text += *piece->string();
    }
    if (text.empty()) continue;
    conversation_.AddReasoning(std::move(text));
    return Status::Ok();
  }
  return Status::Ok();
}

Status ResponsesReader::ReadFunctions() {
  if (!object_.Has("tools")) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(object_.GetArray("tools", kToolsMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue all,
                            ToJsonValue(*object_.Find("tools"), "tools", context_, &chat));
  size_t index = 0;
  for (chat::JsonValue& tool : *all.array()) {
    const std::string path = fmt::format("tools[{}]", index++);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, TakeText(&tool, "type", path));
    if (type != "function") {
      ignored.Add(type);
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(reply::ReplyTool added,
                              AddFunction({&tool, "parameters", path}, &chat));
    tools.push_back(std::move(added));
  }
  return Status::Ok();
}

Status ResponsesReader::ReadReasoning() {
  if (!object_.Has("reasoning")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject reasoning, object_.GetObject("reasoning"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string effort, GetName(reasoning, "effort"));
  if (effort.empty()) return Status::Ok();
  if (effort == "none" || effort == "minimal") chat.kwargs.Set("enable_thinking", false);
  chat.kwargs.Set("reasoning_effort", effort);
  return Status::Ok();
}

// Leaves the tools that a choice of {"type": "allowed_tools"} names.
Status AllowTools(const JsonObject& choice, ResponsesReader* reader) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray allowed, choice.GetArray("tools", kToolsMax));
  std::vector<std::string> names;
  for (const JsonElement each : allowed) {
    std::string_view type;
    if (each["type"].Get(&type) && type != "function") continue;  // ignored as in `tools`
    std::string name;
    if (!each["name"].Get(&name)) return Fault("tool_choice.tools", "must name functions");
    const bool known = std::any_of(reader->tools.begin(), reader->tools.end(),
                                   [&](const auto& tool) { return tool.name == name; });
    if (!known) {
      return Fault("tool_choice.tools",
                   fmt::format("names '{}', which is not among the tools", name.substr(0, 80)));
    }
    names.push_back(std::move(name));
  }
  const auto is_left_out = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) == names.end();
  };
  std::erase_if(reader->tools, [&](const auto& tool) { return is_left_out(tool.name); });
  if (reader->tools.empty()) {
    reader->chat.tools = {};
    return Status::Ok();
  }
  std::erase_if(*reader->chat.tools.array(), [&](const chat::JsonValue& tool) {
    return is_left_out(*tool.Find("function")->Find("name")->string());
  });
  return Status::Ok();
}

// "none", "auto", "required", {"type": "function", "name"}, or {"type": "allowed_tools", "mode",
// "tools"}.
Status ReadChoice(const JsonObject& object, ResponsesReader* reader, api::TextRequest* request) {
  if (!object.Has("tool_choice")) return Status::Ok();
  std::string word;
  if (object["tool_choice"].is_object()) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject choice, object.GetObject("tool_choice"));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(choice, "type"));
    if (type == "function") {
      PENSTOCK_ASSIGN_OR_RETURN(request->required_tool, choice.GetString("name"));
      word = "required";
    } else if (type == "allowed_tools") {
      PENSTOCK_ASSIGN_OR_RETURN(word, GetName(choice, "mode"));
      PENSTOCK_RETURN_IF_ERROR(AllowTools(choice, reader));
    } else {
      return Fault("tool_choice.type", "must be \"function\" or \"allowed_tools\"");
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(word, GetName(object, "tool_choice"));
  }
  if (word == "none") {
    reader->chat.tools = {};
    reader->tools.clear();
  } else if (word == "required") {
    if (reader->tools.empty()) {
      return Fault("tool_choice", "asks for a call, but 'tools' has no function");
    }
    request->requires_call = true;
  } else if (!word.empty() && word != "auto") {
    return Fault("tool_choice", "must be \"none\", \"auto\", \"required\" or a function");
  }
  return Status::Ok();
}

// `text`: the form of the answer. `include`: whether log-probabilities are a part of it.
Status ReadAnswer(const JsonObject& object, api::TextRequest* request) {
  if (object.Has("text")) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject text, object.GetObject("text"));
    PENSTOCK_ASSIGN_OR_RETURN(request->grammar, ReadResponseFormat(text, "format"));
  }
  sample::SamplingOptions& options = request->sampling.options;
  PENSTOCK_ASSIGN_OR_RETURN(const auto include, object.GetStringsOrEmpty("include", kFieldsMax));
  options.logprobs =
      std::find(include.begin(), include.end(), "message.output_text.logprobs") != include.end();
  PENSTOCK_ASSIGN_OR_RETURN(const auto top,
                            GetOptionalInt(object, "top_logprobs", 0, sample::kTopLogprobsMax));
  if (options.logprobs) options.top_logprobs = top.value_or(0);
  return Status::Ok();
}

}  // namespace

Expected<ResponsesCall> ParseResponsesCall(const JsonObject& object,
                                           const RequestContext* context) {
  ResponsesCall call;
  api::TextRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(request.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.cache_salt, GetCacheSalt(object));
  PENSTOCK_ASSIGN_OR_RETURN(call.stream, object.GetBoolOr("stream", false));
  request.streams = call.stream;
  request.parses_reply = true;
  PENSTOCK_ASSIGN_OR_RETURN(request.parallel_calls, object.GetBoolOr("parallel_tool_calls", true));
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, &request.sampling));
  PENSTOCK_ASSIGN_OR_RETURN(request.sampling.options.max_tokens,
                            GetOptionalInt(object, "max_output_tokens", 1, INT32_MAX));
  PENSTOCK_RETURN_IF_ERROR(ReadAnswer(object, &request));
  PENSTOCK_RETURN_IF_ERROR(CheckSampling(request.sampling));
  call.names = {{"max_tokens", "max_output_tokens"}, {"messages", "input"}};
  ResponsesReader reader(object, context);
  PENSTOCK_RETURN_IF_ERROR(reader.Read());
  PENSTOCK_RETURN_IF_ERROR(ReadChoice(object, &reader, &request));
  PENSTOCK_RETURN_IF_ERROR(SetTools(std::move(reader.tools), &request));
  call.ignored = std::move(reader.ignored);
  int64_t echoed_bytes = 0;
  for (const auto& [key, none] : kEchoed) {
    call.echo.emplace_back(key, object.Has(key) ? object[key].Text() : none);
    echoed_bytes += static_cast<int64_t>(call.echo.back().second.size());
  }
  if (context != nullptr && context->memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(context->memory->Take(echoed_bytes));
  }
  request.prompts.push_back(PromptOf("input", std::move(reader.chat)));
  return call;
}

Expected<api::RenderRequest> ParseInputTokens(const JsonObject& object,
                                              const RequestContext* context) {
  api::RenderRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  ResponsesReader reader(object, context);
  PENSTOCK_RETURN_IF_ERROR(reader.Read());
  api::TextRequest unused;
  PENSTOCK_RETURN_IF_ERROR(ReadChoice(object, &reader, &unused));
  request.chat = std::move(reader.chat);
  request.counts_tokens = true;
  return request;
}

std::string PrintInputTokens(const api::RenderResponse& response) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("object", "response.input_tokens");
  json.Field("input_tokens", response.tokens).EndObject();
  return out;
}

}  // namespace penstock::dialects
