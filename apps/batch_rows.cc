#include "batch_rows.h"

#include <utility>

#include "json/json.h"
#include "remote_text.h"

namespace penstock::cli {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kPromptFields[] = {"prompt", "text", "input", "content"};

// The first of the default fields that is a text, or those that were named, put together.
Expected<std::string> PromptOf(const JsonObject& object, const BatchSettings& settings) {
  if (settings.text_fields.empty()) {
    for (const char* field : kPromptFields) {
      std::string text;
      if (object[field].Get(&text)) return text;
    }
    return Status::InvalidArgument(
        "the row has none of the fields prompt, text, input, content and messages");
  }
  std::string prompt;
  bool found = false;
  for (const std::string& field : settings.text_fields) {
    if (!object.Has(field)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string text, object.GetString(field));
    if (text.empty()) continue;
    prompt += (found ? settings.join : "") + text;
    found = true;
  }
  if (found) return prompt;
  return Status::InvalidArgument("the row has no text in field " + settings.text_fields.front());
}

void WriteMessage(const char* role, const std::string& content, JsonWriter* json) {
  json->BeginObject().Field("role", role).Field("content", content).EndObject();
}

void BeginBody(const BatchSettings& settings, JsonWriter* json) {
  json->BeginObject();
  if (!settings.model.empty()) json->Field("model", settings.model);
}

void EndBody(const BatchSettings& settings, JsonWriter* json) {
  WriteSampling(settings.sampling, json);
  json->EndObject();
}

void AskPrompt(const std::string& prompt, const BatchSettings& settings, BatchAsk* ask) {
  ask->path = settings.raw ? kCompletions : kChat;
  JsonWriter json(&ask->body);
  BeginBody(settings, &json);
  if (settings.raw) {
    json.Field("prompt", prompt);
  } else {
    json.Key("messages").BeginArray();
    if (!settings.system.empty()) WriteMessage("system", settings.system, &json);
    WriteMessage("user", prompt, &json);
    json.EndArray();
  }
  EndBody(settings, &json);
}

// A request of OpenAI's batches.
Status AskAsItIs(const JsonObject& object, BatchAsk* ask) {
  ask->as_it_is = true;
  PENSTOCK_ASSIGN_OR_RETURN(ask->custom_id, object.GetStringOr("custom_id", ""));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string method, object.GetStringOr("method", "POST"));
  if (method != "POST") return Status::InvalidArgument("'method' must be \"POST\"", "method");
  PENSTOCK_ASSIGN_OR_RETURN(ask->path, object.GetString("url"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject body, object.GetObject("body"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool streams, body.GetBoolOr("stream", false));
  if (streams) {
    return Status::InvalidArgument("'body.stream' must be false: answers are whole", "body.stream");
  }
  ask->body = object["body"].Text();
  return Status::Ok();
}

Status AskOfObject(const std::string& text, const BatchSettings& settings, BatchAsk* ask) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  if (object.Has("url") && object.Has("body")) return AskAsItIs(object, ask);
  if (!object.Has("messages")) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string prompt, PromptOf(object, settings));
    AskPrompt(prompt, settings, ask);
    return Status::Ok();
  }
  ask->path = kChat;
  JsonWriter json(&ask->body);
  BeginBody(settings, &json);
  json.Key("messages").Raw(object["messages"].Text());
  EndBody(settings, &json);
  return Status::Ok();
}

void BeginLine(const BatchAsk& ask, int64_t index, JsonWriter* json) {
  json->BeginObject();
  if (ask.as_it_is) {
    json->Field("id", "batch_req_" + std::to_string(index)).Field("custom_id", ask.custom_id);
    return;
  }
  json->Field("index", index);
  if (ask.id) json->Field("id", *ask.id);
}

// What an answer to a prompt or a conversation says. Texts are JSON; "": absent.
struct Answer {
  std::string text;
  std::string reasoning, tool_calls, finish_reason;
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

Expected<Answer> ReadAnswer(const JsonElement& body) {
  JsonArray choices;
  body["choices"].Get(&choices);
  const JsonElement choice = choices[0];
  if (!choice.is_object()) return Status::Internal("the answer has no text");
  const JsonElement message = choice["message"];
  Answer answer;
  // Null where the message is calls of tools alone.
  (message.missing() ? choice["text"] : message["content"]).Get(&answer.text);
  const auto take = [&message](const char* key, std::string* to) {
    if (!message[key].missing() && !message[key].is_null()) *to = message[key].Text();
  };
  take("reasoning_content", &answer.reasoning);
  take("tool_calls", &answer.tool_calls);
  answer.finish_reason =
      choice["finish_reason"].missing() ? "null" : choice["finish_reason"].Text();
  body["usage"]["prompt_tokens"].Get(&answer.prompt_tokens);
  body["usage"]["completion_tokens"].Get(&answer.completion_tokens);
  return answer;
}

void WriteAnswer(const Answer& answer, JsonWriter* json) {
  if (!answer.reasoning.empty()) json->Key("reasoning_content").Raw(answer.reasoning);
  json->Field("text", answer.text);
  if (!answer.tool_calls.empty()) json->Key("tool_calls").Raw(answer.tool_calls);
  json->Key("finish_reason").Raw(answer.finish_reason).Key("usage").BeginObject();
  json->Field("prompt_tokens", answer.prompt_tokens);
  json->Field("completion_tokens", answer.completion_tokens).EndObject();
}

}  // namespace

BatchAsk AskOfRow(const corpus::Row& row, const BatchSettings& settings) {
  BatchAsk ask;
  ask.id = row.id;
  ask.status = row.status;
  if (!ask.status.ok()) return ask;
  if (row.object.empty()) {
    AskPrompt(row.text, settings, &ask);
    return ask;
  }
  ask.status = AskOfObject(row.object, settings, &ask);
  if (!ask.status.ok()) ask.status = ask.status.Annotate(row.where);
  return ask;
}

std::string PrintAnswer(const BatchAsk& ask, int64_t index, int http_status,
                        const std::string& body, bool* failed) {
  *failed = http_status != 200;
  const auto document = JsonDocument::Parse(body);
  const JsonElement root = document.ok() ? document->root() : JsonElement();
  const std::string whole = root.missing() ? "null" : root.Text();
  std::string line;
  JsonWriter json(&line);
  if (ask.as_it_is) {
    BeginLine(ask, index, &json);
    json.Key("response").BeginObject().Field("status_code", http_status);
    json.Key("body").Raw(whole).EndObject().Key("error").Null().EndObject();
    return line + "\n";
  }
  if (*failed) {
    BeginLine(ask, index, &json);
    const JsonElement error = root["error"];
    json.Key("error");
    if (error.missing() || error.is_null()) {
      json.BeginObject().Field("message", "status " + std::to_string(http_status)).EndObject();
    } else {
      json.Raw(error.Text());
    }
    json.EndObject();
    return line + "\n";
  }
  const auto answer = ReadAnswer(root);
  if (!answer.ok()) {
    *failed = true;
    return PrintFailure(ask, index, answer.status());
  }
  BeginLine(ask, index, &json);
  WriteAnswer(*answer, &json);
  json.EndObject();
  return line + "\n";
}

std::string PrintFailure(const BatchAsk& ask, int64_t index, const Status& status) {
  std::string line;
  JsonWriter json(&line);
  BeginLine(ask, index, &json);
  if (ask.as_it_is) json.Key("response").Null();
  json.Key("error").BeginObject().Field("message", status.message());
  if (!status.field().empty()) json.Field("param", status.field());
  json.EndObject().EndObject();
  return line + "\n";
}

}  // namespace penstock::cli
