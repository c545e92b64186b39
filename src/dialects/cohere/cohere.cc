#include "dialects/cohere/cohere.h"

#include <algorithm>
#include <utility>

#include "dialects/openai/chat_messages.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr size_t kTypesMax = 6;

constexpr RefusedField kEmbedRefused[] = {
    {"images", "the models here read text"},
    {"image", "the models here read text"},
    {"max_tokens", "a text is cut at the model's own limit"},
};
constexpr RefusedField kCohereRefused[] = {
    {"documents", "put them into a message"},
    {"strict_tools", "calls cannot be enforced"},
    {"raw_prompting", "/v1/completions takes a prompt that is rendered already"},
    {"connectors", ""},
};

Status WrongField(const std::string& path, const std::string& what) {
  return Status::InvalidArgument("'" + path + "' " + what, path);
}

// The text of inputs[i]: parts of type "text" alone.
Expected<std::string> TextOf(JsonElement input, const std::string& path) {
  JsonObject members;
  if (!input.Get(&members)) return WrongField(path, "must be an object");
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray parts, JsonObject(members, path).GetArray("content"));
  std::string text;
  size_t index = 0;
  for (const JsonElement part : parts) {
    const std::string at = path + ".content[" + std::to_string(index++) + "]";
    if (!part.Get(&members)) return WrongField(at, "must be an object");
    const JsonObject object(members, at);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(object, "type"));
    if (type != "text") {
      return WrongField(at + ".type", "must be \"text\": the models here read text");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string piece, object.GetString("text"));
    text += (index > 1 ? "\n" : "") + piece;
  }
  return text;
}

Status ParseTexts(const JsonObject& object, const api::ServiceOptions& limits,
                  CohereEmbedCall* call) {
  std::vector<std::string> texts;
  const char* field = "texts";
  if (object.Has("inputs")) {
    if (object.Has("texts")) return WrongField("inputs", "and 'texts' exclude each other");
    field = "inputs";
    PENSTOCK_ASSIGN_OR_RETURN(const JsonArray items, object.GetArray("inputs"));
    PENSTOCK_RETURN_IF_ERROR(CheckEntries(items, "inputs", limits));
    for (const JsonElement item : items) {
      PENSTOCK_ASSIGN_OR_RETURN(std::string text,
                                TextOf(item, "inputs[" + std::to_string(texts.size()) + "]"));
      texts.push_back(std::move(text));
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(texts, ParseStrings(object, "texts", limits));
  }
  for (std::string& text : texts) call->request.inputs.push_back({.text = std::move(text)});
  call->names = {{"inputs", field}, {"dimensions", "output_dimension"}};
  return Status::Ok();
}

Status ParseTypes(const JsonObject& object, int version, std::vector<EmbeddingFormat>* types) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto names,
                            object.GetStringsOrEmpty("embedding_types", kTypesMax));
  EmbeddingFormat format;
  PENSTOCK_RETURN_IF_ERROR(ParseQuantizeRange(object, &format.range));
  for (const std::string& name : names) {
    EmbeddingFormat one = format;
    one.base64 = name == "base64";
    if (!one.base64 && !ParseEmbeddingType(name, &one.type)) {
      return WrongField("embedding_types",
                        "must hold \"float\", \"int8\", \"uint8\", \"binary\", \"ubinary\" or "
                        "\"base64\", has \"" +
                            name.substr(0, 40) + "\"");
    }
    const bool twice = std::any_of(types->begin(), types->end(), [&](const EmbeddingFormat& other) {
      return other.type == one.type && other.base64 == one.base64;
    });
    if (!twice) types->push_back(one);
  }
  if (types->empty() && version == 2) types->push_back(format);
  return Status::Ok();
}

// NONE leaves the tools out; REQUIRED: one is called.
Status ParseToolChoice(const JsonObject& object, api::ChatPrompt* chat,
                       std::vector<reply::ReplyTool>* tools, api::TextRequest* request) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string choice, GetName(object, "tool_choice"));
  if (choice.empty()) return Status::Ok();
  if (choice == "REQUIRED" && !tools->empty()) {
    request->requires_call = true;
    return Status::Ok();
  }
  if (choice != "NONE") {
    return WrongField("tool_choice", "must be \"NONE\", or \"REQUIRED\" where there are tools");
  }
  chat->tools = {};
  tools->clear();
  return Status::Ok();
}

// {"type": "enabled" | "disabled"}
Status ParseThinking(const JsonObject& object, api::ChatPrompt* chat) {
  if (!object.Has("thinking")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject thinking, object.GetObject("thinking"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(thinking, "type"));
  if (type != "enabled" && type != "disabled") {
    return WrongField("thinking.type", "must be \"enabled\" or \"disabled\"");
  }
  if (thinking.Has("token_budget")) return WrongField("thinking.token_budget", "is not supported");
  chat->kwargs.Set("enable_thinking", type == "enabled");
  if (type == "enabled") chat->thinking_field = "thinking";
  return Status::Ok();
}

// Cohere's names in messages, as chat templates have them: what the model planned before its calls
// is the message's content.
void FitMessages(chat::JsonValue* messages) {
  for (chat::JsonValue& message : *messages->array()) {
    const chat::JsonValue* const plan = message.Find("tool_plan");
    const chat::JsonValue* const content = message.Find("content");
    if (plan == nullptr || plan->string() == nullptr) continue;
    if (content == nullptr || content->string() == nullptr || content->string()->empty()) {
      message.Set("content", *plan->string());
    }
  }
}

Status ParseCohereSampling(const JsonObject& object, api::SamplingRequest* sampling) {
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, sampling));
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "p", &sampling->top_p));
  PENSTOCK_ASSIGN_OR_RETURN(const auto top_k, GetOptionalInt(object, "k", 0, INT32_MAX));
  if (top_k) sampling->top_k = top_k;
  sample::SamplingOptions& options = sampling->options;
  PENSTOCK_RETURN_IF_ERROR(ParseStop(object, "stop_sequences", &options.stop));
  PENSTOCK_ASSIGN_OR_RETURN(options.max_tokens, GetOptionalInt(object, "max_tokens", 1, INT32_MAX));
  PENSTOCK_ASSIGN_OR_RETURN(options.logprobs, object.GetBoolOr("logprobs", false));
  return Status::Ok();
}

void WriteMeta(const api::EmbedResponse& response, int version, JsonWriter* json) {
  json->Key("meta").BeginObject().Key("api_version").BeginObject();
  json->Field("version", std::to_string(version)).EndObject();
  json->Key("billed_units").BeginObject();
  json->Field("input_tokens", response.usage.prompt_tokens).EndObject().EndObject();
}

}  // namespace

Expected<CohereEmbedCall> ParseCohereEmbed(const JsonObject& object, int version,
                                           const api::ServiceOptions& limits) {
  CohereEmbedCall call;
  api::EmbedRequest& request = call.request;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kEmbedRefused));
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_RETURN_IF_ERROR(ParseTexts(object, limits, &call));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  if (!request.text.truncate) request.text.truncate = true;  // Cohere's default, "END"
  PENSTOCK_ASSIGN_OR_RETURN(request.dimensions,
                            GetOptionalInt(object, "output_dimension", 1, 1 << 20));
  PENSTOCK_RETURN_IF_ERROR(ParseTypes(object, version, &call.types));
  for (const EmbeddingFormat& type : call.types) {
    request.printed_value_bytes += PrintedNumberBytes(type);
  }
  return call;
}

std::string PrintCohereEmbed(const api::EmbedResponse& response,
                             const std::vector<EmbeddingFormat>& types,
                             const std::vector<std::string>& texts, std::string_view id,
                             int version) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  JsonWriter json(&out);
  const auto write_all = [&](EmbeddingWriter* writer) {
    json.BeginArray();
    for (size_t at = 0; at < response.values.size(); at += dimensions) {
      writer->Write(std::span(response.values).subspan(at, dimensions), &json, &out);
    }
    json.EndArray();
  };
  json.BeginObject().Field("id", id);
  json.Field("response_type", types.empty() ? "embeddings_floats" : "embeddings_by_type");
  std::vector<EmbeddingWriter> writers(types.begin(), types.end());
  json.Key("embeddings");
  if (types.empty()) {
    EmbeddingWriter floats{EmbeddingFormat()};
    write_all(&floats);
  } else {
    json.BeginObject();
    for (size_t i = 0; i < types.size(); ++i) {
      json.Key(types[i].base64 ? "base64" : EmbeddingTypeName(types[i].type));
      write_all(&writers[i]);
    }
    json.EndObject();
  }
  json.Key("texts").BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray();
  WriteMeta(response, version, &json);
  // int8 and uint8 alike.
  const auto ranged = std::find_if(types.begin(), types.end(), [](const EmbeddingFormat& type) {
    return type.type == EmbeddingType::kInt8 || type.type == EmbeddingType::kUint8;
  });
  if (ranged != types.end()) writers[static_cast<size_t>(ranged - types.begin())].WriteRange(&json);
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

Expected<TextCall> ParseCohereChat(const JsonObject& object, const RequestContext* context) {
  TextCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kCohereRefused));
  api::TextRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.grammar, ReadResponseFormat(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(request.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(call.stream, object.GetBoolOr("stream", false));
  request.streams = call.stream;
  request.parses_reply = true;
  PENSTOCK_RETURN_IF_ERROR(ParseCohereSampling(object, &request.sampling));
  call.names = {{"top_p", "p"}, {"top_k", "k"}, {"stop", "stop_sequences"}};
  PENSTOCK_RETURN_IF_ERROR(frontend::WithWireNames(CheckSampling(request.sampling), call.names));
  api::ChatPrompt chat;
  PENSTOCK_RETURN_IF_ERROR(ReadMessages(object, context, &chat));
  FitMessages(&chat.messages);
  std::vector<reply::ReplyTool> tools;
  PENSTOCK_RETURN_IF_ERROR(ReadTools(object, context, &chat, &tools));
  PENSTOCK_RETURN_IF_ERROR(ParseToolChoice(object, &chat, &tools, &request));
  PENSTOCK_RETURN_IF_ERROR(SetTools(std::move(tools), &request));
  PENSTOCK_RETURN_IF_ERROR(ParseThinking(object, &chat));
  request.prompts.push_back(PromptOf("messages", std::move(chat)));
  return call;
}

}  // namespace penstock::dialects
