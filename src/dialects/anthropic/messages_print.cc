// The answers of Anthropic's messages.

#include "dialects/anthropic/messages.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using Kind = reply::ReplyDelta::Kind;

// `stop`: the sequence that ended the text, or null.
const char* ReasonName(generate::FinishReason reason, const std::string* stop, size_t calls) {
  if (reason == generate::FinishReason::kLength) return "max_tokens";
  if (reason == generate::FinishReason::kContext) return "model_context_window_exceeded";
  if (calls > 0) return "tool_use";
  return stop != nullptr ? "stop_sequence" : "end_turn";
}

class MessagesPrinter final : public TextPrinter {
 public:
  MessagesPrinter(const TextCall& call, std::string_view id)
      : id_("msg_" + std::string(id)),
        stops_(call.request.sampling.options.stop),
        ignored_(call.ignored) {}

  std::vector<std::pair<std::string, std::string>> headers() const override {
    std::vector<std::pair<std::string, std::string>> headers;
    ignored_.AddHeader(&headers);
    return headers;
  }

  std::string Whole(const GeneratedAnswer& answer) override {
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    std::string out;
    JsonWriter json(&out);
    json.BeginObject();
    WriteHead(answer.model, &json);
    json.Key("content").BeginArray();
    if (!choice.reasoning.empty()) {
      json.BeginObject().Field("type", "thinking").Field("thinking", choice.reasoning);
      json.Field("signature", "").EndObject();
    }
    if (!choice.content.empty()) {
      json.BeginObject().Field("type", "text").Field("text", choice.content).EndObject();
    }
    for (const GeneratedChoice::Call& call : choice.calls) {
      json.BeginObject().Field("type", "tool_use").Field("id", call.id).Field("name", call.name);
      json.Key("input").Raw(call.arguments.empty() ? "{}" : call.arguments).EndObject();
    }
    json.EndArray();
    WriteReason(choice.reason, choice.stop_string, choice.calls.size(), &json);
    WriteMessagesUsage(answer.usage, &json);
    json.EndObject();
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    Event("message_start", out, [&](JsonWriter* json) {
      json->Key("message").BeginObject();
      WriteHead(begun.model, json);
      json->Key("content").BeginArray().EndArray();
      json->Key("stop_reason").Null().Key("stop_sequence").Null();
      WriteMessagesUsage({begun.prompt_tokens, 0, 0}, json);
      json->EndObject();
    });
    Event("ping", out, [](JsonWriter*) {});
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    for (const reply::ReplyDelta& delta : part.deltas) Take(delta, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    for (const reply::ReplyDelta& delta : end.deltas) Take(delta, out);
    Close(out);
    end_ = end;
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override {
    Event("message_delta", out, [&](JsonWriter* json) {
      json->Key("delta").BeginObject();
      WriteReason(end_.reason, end_.stop_string, static_cast<size_t>(end_.calls), json);
      json->EndObject();
      WriteMessagesUsage(end.usage, json);
    });
    Event("message_stop", out, [](JsonWriter*) {});
  }

  void Error(const Status& status, const std::string& body, std::string* out) override {
    (void)status;
    http::AppendEvent("error", body, out);
  }

 private:
  enum class Block { kNone, kText, kThinking, kCall };

  void WriteHead(std::string_view model, JsonWriter* json) const {
    json->Field("id", id_).Field("type", "message").Field("role", "assistant");
    json->Field("model", model);
  }

  void WriteReason(generate::FinishReason reason, int stop_string, size_t calls,
                   JsonWriter* json) const {
    const auto index = static_cast<size_t>(stop_string);
    const std::string* const stop =
        stop_string >= 0 && index < stops_.size() ? &stops_[index] : nullptr;
    const char* const name = ReasonName(reason, stop, calls);
    json->Field("stop_reason", name).Key("stop_sequence");
    if (stop != nullptr && std::string_view(name) == "stop_sequence") {
      json->String(*stop);
    } else {
      json->Null();
    }
  }

  // What came from the cache is not among the input_tokens.
  static void WriteMessagesUsage(const api::GenerateUsage& usage, JsonWriter* json) {
    json->Key("usage").BeginObject();
    json->Field("input_tokens", usage.prompt_tokens - usage.cached_tokens);
    json->Field("cache_creation_input_tokens", 0);
    json->Field("cache_read_input_tokens", usage.cached_tokens);
    json->Field("output_tokens", usage.completion_tokens).EndObject();
  }

  template <typename Write>
  void Event(const char* type, std::string* out, Write&& write) {
    data_.clear();
    JsonWriter json(&data_);
    json.BeginObject().Field("type", type);
    write(&json);
    json.EndObject();
    http::AppendEvent(type, data_, out);
  }

  // Opens a block, unless it is open; `write` adds the fields of the empty block.
  template <typename Write>
  void Open(Block block, std::string* out, Write&& write) {
    if (block_ == block && block != Block::kCall) return;
    Close(out);
    block_ = block;
    Event("content_block_start", out, [&](JsonWriter* json) {
      json->Field("index", index_).Key("content_block").BeginObject();
      write(json);
      json->EndObject();
    });
  }

  void Delta(const char* type, const char* key, std::string_view text, std::string* out) {
    Event("content_block_delta", out, [&](JsonWriter* json) {
      json->Field("index", index_).Key("delta").BeginObject();
      json->Field("type", type).Field(key, text).EndObject();
    });
  }

  void Close(std::string* out) {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking) Delta("signature_delta", "signature", "", out);
    Event("content_block_stop", out, [&](JsonWriter* json) { json->Field("index", index_); });
    ++index_;
    block_ = Block::kNone;
  }

  void Take(const reply::ReplyDelta& delta, std::string* out) {
    switch (delta.kind) {
      case Kind::kContent:
        if (delta.text.empty()) return;
        Open(Block::kText, out,
             [](JsonWriter* json) { json->Field("type", "text").Field("text", ""); });
        return Delta("text_delta", "text", delta.text, out);
      case Kind::kReasoning:
        if (delta.text.empty()) return;
        Open(Block::kThinking, out, [](JsonWriter* json) {
          json->Field("type", "thinking").Field("thinking", "").Field("signature", "");
        });
        return Delta("thinking_delta", "thinking", delta.text, out);
      case Kind::kCallBegin:
        return Open(Block::kCall, out, [&](JsonWriter* json) {
          json->Field("type", "tool_use").Field("id", delta.id).Field("name", delta.name);
          json->Key("input").BeginObject().EndObject();
        });
      case Kind::kCallArguments:
        return Delta("input_json_delta", "partial_json", delta.text, out);
      case Kind::kCallEnd:
        return Close(out);
      case Kind::kMarkup:
        return;
    }
  }

  const std::string id_;
  const std::vector<std::string> stops_;
  const IgnoredFields ignored_;
  std::string data_;
  api::ChoiceEnd end_;
  Block block_ = Block::kNone;
  int index_ = 0;  // of the open block, or the next
};

}  // namespace

std::unique_ptr<TextPrinter> NewMessagesPrinter(const TextCall& call, std::string_view id) {
  return std::make_unique<MessagesPrinter>(call, id);
}

}  // namespace penstock::dialects
