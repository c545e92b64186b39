#include "dialects/anthropic/messages.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "dialects/openai/chat_messages.h"
#include "dialects/openai/conversation.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

// Blocks of all messages together.
constexpr size_t kBlocksMax = 16384;

constexpr RefusedField kMessagesRefused[] = {
    {"mcp_servers", "the client calls its servers, and sends their tools"},
    {"container", "code is not run here"},
};

Status WrongAt(const std::string& path, const std::string& what) {
  return Status::InvalidArgument("'" + path + "' " + what, path);
}

// The text of a member, or null.
std::string* TextMember(chat::JsonValue* object, std::string_view key) {
  chat::JsonValue* const member = object->Find(key);
  return member == nullptr ? nullptr : member->string();
}

// What the two routes share: a conversation with its tools.
class MessagesReader {
 public:
  MessagesReader(const JsonObject& object, const RequestContext* context)
      : object_(object), context_(context) {}

  // The conversation, its tools and whether the model is to think.
  Status Read() {
    PENSTOCK_RETURN_IF_ERROR(RefuseFields(object_, kMessagesRefused));
    PENSTOCK_RETURN_IF_ERROR(ReadSystem());
    PENSTOCK_RETURN_IF_ERROR(ReadAll());
    if (!conversation_.HasTurns()) return WrongAt("messages", "has no content");
    chat.continue_final_message = conversation_.EndsWithAnswer();
    chat.add_generation_prompt = !chat.continue_final_message;
    chat.messages = conversation_.Take();
    PENSTOCK_RETURN_IF_ERROR(ReadMessagesTools());
    PENSTOCK_RETURN_IF_ERROR(ReadThinking());
    for (const char* key : {"cache_control", "context_management"}) {
      if (object_.Has(key)) ignored.Add(key);
    }
    return Status::Ok();
  }

  api::ChatPrompt chat;
  std::vector<reply::ReplyTool> tools;
  IgnoredFields ignored;

 private:
  Status ReadSystem();
  Status ReadAll();
  Status ReadMessage(chat::JsonValue* message, const std::string& path);
  Status ReadBlock(const std::string& role, chat::JsonValue* block, const std::string& path);
  Status ReadResult(chat::JsonValue* block, const std::string& path);
  Status ReadMessagesTools();
  Status ReadThinking();
  void Look(const chat::JsonValue& block) {
    if (block.Find("cache_control") != nullptr) ignored.Add("cache_control");
  }

  const JsonObject& object_;
  const RequestContext* const context_;
  Conversation conversation_;
  size_t blocks_ = 0;
};

Status MessagesReader::ReadSystem() {
  if (!object_.Has("system")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue system,
                            ToJsonValue(*object_.Find("system"), "system", context_, &chat));
  if (system.array() != nullptr) {
    for (const chat::JsonValue& block : *system.array()) Look(block);
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, TextOfContent(system, "system", nullptr));
  if (!text.empty()) conversation_.AddText("system", std::move(text));
  return Status::Ok();
}

Status MessagesReader::ReadAll() {
  PENSTOCK_RETURN_IF_ERROR(object_.GetArray("messages", kMessagesMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue messages,
                            ToJsonValue(*object_.Find("messages"), "messages", context_, &chat));
  if (messages.array()->empty()) return WrongAt("messages", "is empty");
  size_t index = 0;
  for (chat::JsonValue& message : *messages.array()) {
    PENSTOCK_RETURN_IF_ERROR(ReadMessage(&message, fmt::format("messages[{}]", index++)));
  }
  return Status::Ok();
}

Status MessagesReader::ReadMessage(chat::JsonValue* message, const std::string& path) {
  if (message->object() == nullptr) return WrongAt(path, "must be an object");
  const std::string* const role = TextMember(message, "role");
  if (role == nullptr || (*role != "user" && *role != "assistant" && *role != "system")) {
    return WrongAt(path + ".role", "must be \"user\" or \"assistant\"");
  }
  chat::JsonValue* const content = message->Find("content");
  if (content == nullptr) return WrongAt(path + ".content", "is missing");
  if (std::string* const text = content->string()) {
    conversation_.AddText(*role, std::move(*text));
    return Status::Ok();
  }
  if (content->array() == nullptr) {
    return WrongAt(path + ".content", "must be a string or an array of blocks");
  }
  blocks_ += content->array()->size();
  if (blocks_ > kBlocksMax) {
    return WrongAt("messages", fmt::format("has more than {} blocks, the limit", kBlocksMax));
  }
  size_t index = 0;
  for (chat::JsonValue& block : *content->array()) {
    const std::string at = fmt::format("{}.content[{}]", path, index++);
    PENSTOCK_RETURN_IF_ERROR(ReadBlock(*role, &block, at));
  }
  return Status::Ok();
}

Status MessagesReader::ReadBlock(const std::string& role, chat::JsonValue* block,
                                 const std::string& path) {
  const std::string* const type = TextMember(block, "type");
  if (type == nullptr) return WrongAt(path + ".type", "must be a string");
  Look(*block);
  if (*type == "tool_result") return ReadResult(block, path);
  if (*type == "redacted_thinking") return Status::Ok();
  const bool is_text = *type == "text" || *type == "document";
  if (is_text) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string text, TextOfBlock(*block, path));
    conversation_.AddText(role, std::move(text));
    return Status::Ok();
  }
  if (*type == "thinking") {
    std::string* const thinking = TextMember(block, "thinking");
    if (thinking == nullptr) return WrongAt(path + ".thinking", "must be a string");
    conversation_.AddReasoning(std::move(*thinking));
    return Status::Ok();
  }
  if (*type == "tool_use") {
    std::string* const id = TextMember(block, "id");
    std::string* const name = TextMember(block, "name");
    if (id == nullptr) return WrongAt(path + ".id", "must be a string");
    if (name == nullptr) return WrongAt(path + ".name", "must be a string");
    chat::JsonValue* const input = block->Find("input");
    if (input == nullptr || input->object() == nullptr) {
      return WrongAt(path + ".input", "must be an object");
    }
    conversation_.AddCall(std::move(*id), std::move(*name), std::move(*input));
    return Status::Ok();
  }
  return WrongAt(path + ".type", fmt::format("\"{}\" is not supported; the models here read text",
                                             type->substr(0, 40)));
}

Status MessagesReader::ReadResult(chat::JsonValue* block, const std::string& path) {
  std::string* const id = TextMember(block, "tool_use_id");
  if (id == nullptr) return WrongAt(path + ".tool_use_id", "must be a string");
  const chat::JsonValue* const content = block->Find("content");
  std::string text;
  if (content != nullptr && !content->is_null()) {
    if (content->array() != nullptr) {
      for (const chat::JsonValue& part : *content->array()) Look(part);
    }
    PENSTOCK_ASSIGN_OR_RETURN(text, TextOfContent(*content, path + ".content", nullptr));
  }
  conversation_.AddResult(std::move(*id), std::move(text));
  return Status::Ok();
}

Status MessagesReader::ReadMessagesTools() {
  if (!object_.Has("tools")) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(object_.GetArray("tools", kToolsMax).status());
  PENSTOCK_ASSIGN_OR_RETURN(chat::JsonValue all,
                            ToJsonValue(*object_.Find("tools"), "tools", context_, &chat));
  size_t index = 0;
  for (chat::JsonValue& tool : *all.array()) {
    const std::string path = fmt::format("tools[{}]", index++);
    if (tool.object() == nullptr) return WrongAt(path, "must be an object");
    Look(tool);
    const chat::JsonValue* const type = tool.Find("type");
    if (type != nullptr && type->string() == nullptr) {
      return WrongAt(path + ".type", "must be a string");
    }
    if (type != nullptr && *type->string() != "custom") {
      ignored.Add(*type->string());
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(reply::ReplyTool added,
                              AddFunction({&tool, "input_schema", path}, &chat));
    tools.push_back(std::move(added));
  }
  return Status::Ok();
}

// {"type": "enabled" | "adaptive" | "disabled"}. A model that does not think answers at once, which
// is within any budget.
Status MessagesReader::ReadThinking() {
  if (!object_.Has("thinking")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject thinking, object_.GetObject("thinking"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(thinking, "type"));
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return WrongAt("thinking.type", "must be \"enabled\", \"adaptive\" or \"disabled\"");
  }
  if (thinking.Has("budget_tokens")) ignored.Add("thinking.budget_tokens");
  chat.kwargs.Set("enable_thinking", type != "disabled");
  return Status::Ok();
}

// {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}
Status ReadToolChoice(const JsonObject& object, MessagesReader* reader, api::TextRequest* request) {
  if (!object.Has("tool_choice")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject choice, object.GetObject("tool_choice"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(choice, "type"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool single,
                            choice.GetBoolOr("disable_parallel_tool_use", false));
  request->parallel_calls = !single;
  if (type == "none") {
    reader->chat.tools = {};
    reader->tools.clear();
    return Status::Ok();
  }
  if (type == "auto") return Status::Ok();
  if (type != "any" && type != "tool") {
    return WrongAt("tool_choice.type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
  }
  if (reader->tools.empty()) {
    return WrongAt("tool_choice", "asks for a call, and there are no 'tools'");
  }
  request->requires_call = true;
  if (type == "tool") {
    PENSTOCK_ASSIGN_OR_RETURN(request->required_tool, choice.GetString("name"));
  }
  return Status::Ok();
}

// The schema that the answer is held to, and how hard the model thinks.
Status ReadOutput(const JsonObject& object, api::ChatPrompt* chat, api::TextRequest* request) {
  PENSTOCK_ASSIGN_OR_RETURN(request->grammar, ReadResponseFormat(object, "output_format"));
  if (!object.Has("output_config")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject config, object.GetObject("output_config"));
  PENSTOCK_ASSIGN_OR_RETURN(auto format, ReadResponseFormat(config, "format"));
  if (format) request->grammar = std::move(format);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string effort, GetName(config, "effort"));
  if (!effort.empty()) chat->kwargs.Set("reasoning_effort", effort);
  return Status::Ok();
}

}  // namespace

Expected<TextCall> ParseMessagesCall(const JsonObject& object, const RequestContext* context) {
  TextCall call;
  api::TextRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(request.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(call.stream, object.GetBoolOr("stream", false));
  request.streams = call.stream;
  request.parses_reply = true;
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, &request.sampling));
  sample::SamplingOptions& options = request.sampling.options;
  PENSTOCK_RETURN_IF_ERROR(ParseStop(object, "stop_sequences", &options.stop));
  // Clients send what a large model may write: it is cut to what the context leaves.
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t most, object.GetInt("max_tokens", 1, INT32_MAX));
  request.max_tokens_default = static_cast<int32_t>(most);
  call.names = {{"stop", "stop_sequences"}};
  PENSTOCK_RETURN_IF_ERROR(frontend::WithWireNames(CheckSampling(request.sampling), call.names));
  MessagesReader reader(object, context);
  PENSTOCK_RETURN_IF_ERROR(reader.Read());
  PENSTOCK_RETURN_IF_ERROR(ReadToolChoice(object, &reader, &request));
  PENSTOCK_RETURN_IF_ERROR(ReadOutput(object, &reader.chat, &request));
  PENSTOCK_RETURN_IF_ERROR(SetTools(std::move(reader.tools), &request));
  call.ignored = std::move(reader.ignored);
  request.prompts.push_back(PromptOf("messages", std::move(reader.chat)));
  return call;
}

Expected<api::RenderRequest> ParseCountTokens(const JsonObject& object,
                                              const RequestContext* context) {
  api::RenderRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  MessagesReader reader(object, context);
  PENSTOCK_RETURN_IF_ERROR(reader.Read());
  api::TextRequest unused;
  PENSTOCK_RETURN_IF_ERROR(ReadToolChoice(object, &reader, &unused));
  request.chat = std::move(reader.chat);
  request.counts_tokens = true;
  return request;
}

std::string PrintTokenCount(const api::RenderResponse& response) {
  std::string out;
  JsonWriter(&out).BeginObject().Field("input_tokens", response.tokens).EndObject();
  return out;
}

}  // namespace penstock::dialects
