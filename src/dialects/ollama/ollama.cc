#include "dialects/ollama/ollama.h"

#include <algorithm>
#include <utility>

#include "dialects/openai/chat_messages.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr RefusedField kOllamaRefused[] = {
    {"adapters", ""},
};
constexpr RefusedField kGenerateRefused[] = {
    {"images", "the models here read text"},
    {"context", "send the conversation to /api/chat"},
    {"template", "the model's own is used; `raw` takes a prompt that is rendered already"},
    {"width", "the models here write text"},
    {"height", "the models here write text"},
    {"steps", "the models here write text"},
};
constexpr RefusedField kOptionsRefused[] = {{"mirostat", ""}};
// Options that are read, refused, or about Ollama's memory and threads.
constexpr std::string_view kOptions[] = {
    "draft_num_predict",
    "embedding_only",
    "f16_kv",
    "frequency_penalty",
    "ignore_eos",
    "include_stop_str_in_output",
    "logit_bias",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "min_tokens",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_gqa",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "rope_frequency_base",
    "rope_frequency_scale",
    "seed",
    "stop",
    "stop_token_ids",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
    "typical_p",
    "use_mlock",
    "use_mmap",
    "vocab_only",
};
// Which of a setting's values means that it is off.
constexpr std::pair<const char*, float> kOffAt[] = {{"typical_p", 1}, {"tfs_z", 1}};

// The names of options that mean nothing, such as a misspelled one; Ollama logs them.
IgnoredFields IgnoredOptions(const JsonObject& options) {
  IgnoredFields ignored;
  options.ForEach([&](std::string_view name, const auto&) {
    const bool known = std::binary_search(std::begin(kOptions), std::end(kOptions), name);
    if (!known) ignored.Add(name);
  });
  return ignored;
}

Status ParseOptions(const JsonObject& object, OllamaTextCall* call) {
  api::TextRequest* const request = &call->request;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject options, object.GetObjectOrEmpty("options"));
  call->ignored = IgnoredOptions(options);
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(options, kOptionsRefused));
  api::SamplingRequest& sampling = request->sampling;
  for (const auto& [key, off] : kOffAt) {
    std::optional<float> number;
    PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(options, key, &number));
    if (number.value_or(off) == off) continue;
    return Status::InvalidArgument("'" + options.PathOf(key) + "' is not supported, unless it is 1",
                                   options.PathOf(key));
  }
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(options, &sampling));
  PENSTOCK_RETURN_IF_ERROR(
      ParseOptionalNumber(options, "repeat_penalty", &sampling.repetition_penalty));
  PENSTOCK_ASSIGN_OR_RETURN(const auto window,
                            GetOptionalInt(options, "repeat_last_n", -1, INT32_MAX));
  sampling.options.repetition_window = window.value_or(-1);
  // 0 and below: until the context is full, as Ollama does where there is more to come.
  PENSTOCK_ASSIGN_OR_RETURN(const auto most,
                            GetOptionalInt(options, "num_predict", INT32_MIN, INT32_MAX));
  if (most) request->max_tokens_default = *most > 0 ? *most : INT32_MAX;
  return Status::Ok();
}

// think: true, false, or how hard.
Status ParseThink(const JsonObject& object, api::ChatPrompt* chat) {
  const auto think = object.Find("think");
  if (!think) return Status::Ok();
  bool truth = false;
  if (!think->Get(&truth)) {
    if (!think->is_string()) {
      return Status::InvalidArgument(
          std::string("'think' must be true, false or a string, is ") + JsonTypeName(*think),
          "think");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string effort, GetName(object, "think"));
    chat->kwargs.Set("reasoning_effort", effort);
    truth = true;
  }
  chat->kwargs.Set("enable_thinking", truth);
  if (truth) chat->thinking_field = "think";
  return Status::Ok();
}

// Reads `format`: "json" or a schema. An empty text leaves the answer free.
Status ReadFormat(const JsonObject& object, api::TextRequest* request) {
  std::string_view word;
  if (!object["format"].Get(&word)) {
    PENSTOCK_ASSIGN_OR_RETURN(request->grammar, ReadSchema(object, "format", "format"));
    return Status::Ok();
  }
  if (word == "json") request->grammar = {grammar::GrammarKind::kJson, "", {}, "format"};
  if (word.empty() || word == "json") return Status::Ok();
  return Status::InvalidArgument("'format' must be \"json\" or a JSON schema", "format");
}

// What both routes for text have.
Status ParseCommon(const JsonObject& object, OllamaTextCall* call) {
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kOllamaRefused));
  api::TextRequest& request = call->request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, OllamaModelOf(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(call->stream, object.GetBoolOr("stream", true));
  request.streams = call->stream;
  request.whole_calls = true;
  PENSTOCK_RETURN_IF_ERROR(ParseOptions(object, call));
  PENSTOCK_RETURN_IF_ERROR(ReadFormat(object, &request));
  sample::SamplingOptions& options = request.sampling.options;
  PENSTOCK_ASSIGN_OR_RETURN(options.logprobs, object.GetBoolOr("logprobs", false));
  PENSTOCK_ASSIGN_OR_RETURN(const auto top,
                            GetOptionalInt(object, "top_logprobs", 0, sample::kTopLogprobsMax));
  if (options.logprobs) options.top_logprobs = top.value_or(0);
  call->names = {{"max_tokens", "options.num_predict"},
                 {"temperature", "options.temperature"},
                 {"top_k", "options.top_k"},
                 {"top_p", "options.top_p"},
                 {"min_p", "options.min_p"},
                 {"presence_penalty", "options.presence_penalty"},
                 {"frequency_penalty", "options.frequency_penalty"},
                 {"repetition_penalty", "options.repeat_penalty"},
                 {"repetition_window", "options.repeat_last_n"},
                 {"min_tokens", "options.min_tokens"},
                 {"logit_bias", "options.logit_bias"},
                 {"stop_token_ids", "options.stop_token_ids"},
                 {"stop", "options.stop"}};
  return frontend::WithWireNames(CheckSampling(request.sampling), call->names);
}

// Names of Ollama's messages, as chat templates have them. Images are refused.
Status FitMessages(chat::JsonValue* messages) {
  chat::JsonValue::Array& all = *messages->array();
  for (size_t i = 0; i < all.size(); ++i) {
    chat::JsonValue& message = all[i];
    const std::string path = "messages[" + std::to_string(i) + "]";
    const chat::JsonValue* const images = message.Find("images");
    if (images != nullptr && images->array() != nullptr && !images->array()->empty()) {
      return Status::InvalidArgument(
          "'" + path + ".images' is not supported: the models here read text", path + ".images");
    }
    for (const auto& [from, to] :
         {std::pair("tool_name", "name"), std::pair("thinking", "reasoning_content"),
          std::pair("thinking", "reasoning")}) {
      const chat::JsonValue* const value = message.Find(from);
      if (value == nullptr || value->string() == nullptr || message.Find(to) != nullptr) continue;
      message.Set(to, *value->string());
    }
  }
  return Status::Ok();
}

chat::JsonValue Message(const char* role, std::string content) {
  chat::JsonValue message;
  message.Set("role", role);
  message.Set("content", std::move(content));
  return message;
}

}  // namespace

Expected<std::string> OllamaModelOf(const JsonObject& object) {
  // "name" is what older clients say.
  for (const char* const key : {"model", "name"}) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string name, GetName(object, key));
    if (!name.empty()) return name;
  }
  return Status::InvalidArgument("model is required", "model");
}

Expected<OllamaEmbedCall> ParseOllamaEmbed(const JsonObject& object,
                                           const api::ServiceOptions& limits) {
  OllamaEmbedCall call;
  api::EmbedRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, OllamaModelOf(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.text.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.text.truncate, object.GetBoolOr("truncate", true));
  PENSTOCK_ASSIGN_OR_RETURN(request.dimensions, GetOptionalInt(object, "dimensions", 1, 1 << 20));
  PENSTOCK_RETURN_IF_ERROR(object.GetObjectOrEmpty("options").status());
  request.normalize = true;
  std::vector<std::string> texts;
  bool single = false;
  if (const auto input = object.Find("input"); input && input->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string text, object.GetString("input"));
    single = true;
    if (!text.empty()) texts.push_back(std::move(text));
  } else if (input && !input->is_array()) {
    return Status::InvalidArgument(
        std::string("'input' must be a text or an array of texts, is ") + JsonTypeName(*input),
        "input");
  } else if (input) {
    PENSTOCK_ASSIGN_OR_RETURN(texts, ParseStrings(object, "input", limits));
  }
  call.loads = texts.empty();
  for (std::string& text : texts) {
    request.inputs.push_back({.text = std::move(text), .single = single});
  }
  return call;
}

Expected<OllamaEmbedCall> ParseOllamaEmbeddings(const JsonObject& object) {
  OllamaEmbedCall call;
  api::EmbedRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, OllamaModelOf(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.text.keep_alive, GetKeepAlive(object));
  PENSTOCK_RETURN_IF_ERROR(object.GetObjectOrEmpty("options").status());
  request.text.truncate = true;
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, object.GetStringOr("prompt", ""));
  call.loads = text.empty();
  if (!call.loads) request.inputs.push_back({.text = std::move(text), .single = true});
  return call;
}

std::string PrintOllamaEmbed(const api::EmbedResponse& response, std::chrono::nanoseconds total) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  out.reserve(256 + response.values.size() * 13);
  JsonWriter json(&out);
  json.BeginObject().Field("model", response.model).Key("embeddings").BeginArray();
  for (size_t at = 0; at < response.values.size(); at += dimensions) {
    json.Floats(std::span(response.values).subspan(at, dimensions));
  }
  json.EndArray().Field("total_duration", total.count());
  json.Field("prompt_eval_count", response.usage.prompt_tokens);
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

std::string PrintOllamaEmbeddings(const api::EmbedResponse& response) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("embedding").Floats(response.values).EndObject();
  return out;
}

Expected<OllamaTextCall> ParseOllamaGenerate(const JsonObject& object,
                                             const RequestContext* /*context*/) {
  OllamaTextCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kGenerateRefused));
  PENSTOCK_RETURN_IF_ERROR(ParseCommon(object, &call));
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, object.GetStringOr("prompt", ""));
  PENSTOCK_ASSIGN_OR_RETURN(std::string system, object.GetStringOr("system", ""));
  PENSTOCK_ASSIGN_OR_RETURN(const bool raw, object.GetBoolOr("raw", false));
  PENSTOCK_ASSIGN_OR_RETURN(std::string suffix, object.GetStringOr("suffix", ""));
  api::TextRequest& request = call.request;
  call.loads = text.empty() && suffix.empty();
  if (!suffix.empty()) {
    request.prompts.push_back(FillBetween(std::move(text), std::move(suffix)));
    return call;
  }
  if (raw) {
    if (!system.empty()) {
      return Status::InvalidArgument("'raw' takes the prompt as it is, and no 'system'", "raw");
    }
    api::GeneratePrompt prompt;
    prompt.value = std::move(text);
    request.prompts.push_back(std::move(prompt));
    return call;
  }
  request.parses_reply = true;
  if (system.empty()) call.plain = text;
  api::ChatPrompt chat;
  PENSTOCK_RETURN_IF_ERROR(ParseThink(object, &chat));
  chat::JsonValue::Array messages;
  if (!system.empty()) messages.push_back(Message("system", std::move(system)));
  messages.push_back(Message("user", std::move(text)));
  chat.messages = chat::JsonValue(std::move(messages));
  request.prompts.push_back(PromptOf("prompt", std::move(chat)));
  return call;
}

Expected<OllamaTextCall> ParseOllamaChat(const JsonObject& object, const RequestContext* context) {
  OllamaTextCall call;
  call.chat = true;
  PENSTOCK_RETURN_IF_ERROR(ParseCommon(object, &call));
  api::TextRequest& request = call.request;
  request.parses_reply = true;
  if (object.Has("messages")) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto messages, object.GetArray("messages", kMessagesMax));
    call.loads = messages.begin() == messages.end();
  } else {
    call.loads = true;
  }
  if (call.loads) return call;
  api::ChatPrompt chat;
  PENSTOCK_RETURN_IF_ERROR(ReadMessages(object, context, &chat));
  PENSTOCK_RETURN_IF_ERROR(FitMessages(&chat.messages));
  std::vector<reply::ReplyTool> tools;
  PENSTOCK_RETURN_IF_ERROR(ReadTools(object, context, &chat, &tools));
  PENSTOCK_RETURN_IF_ERROR(SetTools(std::move(tools), &request));
  PENSTOCK_RETURN_IF_ERROR(ParseThink(object, &chat));
  request.prompts.push_back(PromptOf("messages", std::move(chat)));
  return call;
}

}  // namespace penstock::dialects
