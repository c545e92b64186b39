#include "remote_text.h"

#include "chat/json_value.h"
#include "load/chat_events.h"

namespace penstock::cli {
namespace {

class Reader {
 public:
  explicit Reader(const std::function<void(const reply::ReplyDelta&)>* on_delta)
      : on_delta_(on_delta) {}

  void Add(std::string_view bytes) {
    events_.Add(bytes);
    while (const auto data = events_.Next()) Take(*data);
  }
  Expected<RemoteText> Result() const {
    if (!failure_.ok()) return failure_;
    if (!ended_) return client::Garbled("the stream has no end");
    return text_;
  }

 private:
  void Take(const std::string& data) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const auto event = chat::JsonValue::Parse(data);
    if (!event.ok() || event->object() == nullptr) {
      failure_ = client::Garbled("an event is not a JSON object");
      return;
    }
    if (const chat::JsonValue* const error = event->Find("error"); error && !error->is_null()) {
      const chat::JsonValue* const message = error->object() ? error->Find("message") : error;
      const bool said = message != nullptr && message->string() != nullptr;
      failure_ = {StatusCode::kUnavailable,
                  "the server says: " + (said ? *message->string() : "an error")};
      return;
    }
    if (const chat::JsonValue* const usage = event->Find("usage")) TakeUsage(*usage);
    const chat::JsonValue* const choices = event->Find("choices");
    if (choices == nullptr || choices->array() == nullptr || choices->array()->empty()) return;
    TakeChoice(choices->array()->front());
  }

  void TakeUsage(const chat::JsonValue& usage) {
    TakeNumber(usage, "prompt_tokens", &text_.prompt_tokens);
    TakeNumber(usage, "completion_tokens", &text_.completion_tokens);
    if (usage.object() == nullptr) return;
    const chat::JsonValue* const details = usage.Find("prompt_tokens_details");
    if (details != nullptr) TakeNumber(*details, "cached_tokens", &text_.cached_tokens);
  }
  static void TakeNumber(const chat::JsonValue& object, const char* key, int64_t* number) {
    const chat::JsonValue* const found = object.object() == nullptr ? nullptr : object.Find(key);
    if (found != nullptr && found->integer() != nullptr) *number = *found->integer();
  }

  void TakeChoice(const chat::JsonValue& choice) {
    if (choice.object() == nullptr) return;
    TakeText(choice, "text", reply::ReplyDelta::Kind::kContent);
    if (const chat::JsonValue* const delta = choice.Find("delta"); delta && delta->object()) {
      // Some servers use the one name, some the other, some both.
      if (!TakeText(*delta, "reasoning_content", reply::ReplyDelta::Kind::kReasoning)) {
        TakeText(*delta, "reasoning", reply::ReplyDelta::Kind::kReasoning);
      }
      TakeText(*delta, "content", reply::ReplyDelta::Kind::kContent);
    }
    const chat::JsonValue* const reason = choice.Find("finish_reason");
    if (reason == nullptr || reason->string() == nullptr) return;
    if (*reason->string() == "length") text_.finish = generate::FinishReason::kLength;
  }

  bool TakeText(const chat::JsonValue& object, const char* key, reply::ReplyDelta::Kind kind) {
    const chat::JsonValue* const text = object.Find(key);
    if (text == nullptr || text->string() == nullptr || text->string()->empty()) return false;
    reply::ReplyDelta delta;
    delta.kind = kind;
    delta.text = *text->string();
    (*on_delta_)(delta);
    return true;
  }

  const std::function<void(const reply::ReplyDelta&)>* const on_delta_;
  load::EventReader events_;
  RemoteText text_;
  Status failure_;
  bool ended_ = false;
};

}  // namespace

Expected<RemoteText> StreamText(client::ServerClient* client, const std::string& path,
                                const std::string& body,
                                const std::function<void(const reply::ReplyDelta&)>& on_delta) {
  Reader reader(&on_delta);
  PENSTOCK_ASSIGN_OR_RETURN(
      const client::PostAnswer answer,
      client->PostStream(path, body, [&reader](std::string_view bytes) { reader.Add(bytes); }));
  if (answer.status != 200) return client::StatusOfAnswer(answer);
  return reader.Result();
}

void WriteSampling(const SamplingFlags& flags, JsonWriter* json) {
  const sample::SamplingOptions& options = flags.options;
  const auto write = [&](const char* key, const auto& value) {
    if (value) json->Field(key, *value);
  };
  write("temperature", flags.temperature);
  write("top_k", flags.top_k);
  write("top_p", flags.top_p);
  write("min_p", flags.min_p);
  write("repetition_penalty", flags.repetition_penalty);
  if (options.max_tokens && *options.max_tokens > 0) write("max_tokens", options.max_tokens);
  write("seed", options.seed);
  if (options.presence_penalty != 0) json->Field("presence_penalty", options.presence_penalty);
  if (options.frequency_penalty != 0) json->Field("frequency_penalty", options.frequency_penalty);
  if (options.min_tokens > 0) json->Field("min_tokens", options.min_tokens);
  if (options.ignore_eos) json->Field("ignore_eos", true);
  if (!options.stop.empty()) {
    json->Key("stop").BeginArray();
    for (const std::string& stop : options.stop) json->String(stop);
    json->EndArray();
  }
  if (options.logit_bias.empty()) return;
  json->Key("logit_bias").BeginObject();
  for (const sample::LogitBias& one : options.logit_bias)
    json->Field(std::to_string(one.id), one.bias);
  json->EndObject();
}

}  // namespace penstock::cli
