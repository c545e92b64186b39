// The answers of Cohere's chat.

#include "dialects/cohere/cohere.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using Kind = reply::ReplyDelta::Kind;

const char* ReasonName(generate::FinishReason reason, int stop_string, size_t calls) {
  if (reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext)
    return "MAX_TOKENS";
  if (calls > 0) return "TOOL_CALL";
  return stop_string >= 0 ? "STOP_SEQUENCE" : "COMPLETE";
}

void WriteCohereUsage(const api::GenerateUsage& usage, JsonWriter* json) {
  json->Key("usage").BeginObject();
  for (const char* const key : {"billed_units", "tokens"}) {
    json->Key(key).BeginObject().Field("input_tokens", usage.prompt_tokens);
    json->Field("output_tokens", usage.completion_tokens).EndObject();
  }
  json->Field("cached_tokens", usage.cached_tokens).EndObject();
}

// {"text", "token_ids", "logprobs"} of one token.
void WriteLogprob(const api::TokenInfo& token, JsonWriter* json) {
  const float logprob = token.logprob;
  json->BeginObject().Field("text", token.bytes).Key("token_ids").BeginArray().Int(token.id);
  json->EndArray().Key("logprobs").Floats({&logprob, 1}).EndObject();
}

class CohereChatPrinter final : public TextPrinter {
 public:
  CohereChatPrinter(const TextCall& call, std::string_view id)
      : logprobs_(call.request.sampling.options.logprobs), id_(id) {}

  std::string Whole(const GeneratedAnswer& answer) override {
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    std::string out;
    JsonWriter json(&out);
    json.BeginObject().Field("id", id_);
    json.Field("finish_reason", ReasonName(choice.reason, choice.stop_string, choice.calls.size()));
    json.Key("message").BeginObject().Field("role", "assistant");
    if (!choice.calls.empty()) {
      json.Field("tool_plan", choice.content).Key("tool_calls").BeginArray();
      for (const GeneratedChoice::Call& call : choice.calls) {
        WriteCall(call.id, call.name, call.arguments, &json);
      }
      json.EndArray();
    }
    json.Key("content").BeginArray();
    if (!choice.reasoning.empty()) {
      json.BeginObject().Field("type", "thinking").Field("thinking", choice.reasoning).EndObject();
    }
    if (choice.calls.empty()) {
      json.BeginObject().Field("type", "text").Field("text", choice.content).EndObject();
    }
    json.EndArray().EndObject();
    if (logprobs_) {
      json.Key("logprobs").BeginArray();
      for (const api::TokenInfo& token : choice.tokens) WriteLogprob(token, &json);
      json.EndArray();
    }
    WriteCohereUsage(answer.usage, &json);
    json.EndObject();
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    (void)begun;
    Event("message-start", out, [&](JsonWriter* json) {
      json->Field("id", id_).Key("delta").BeginObject().Key("message").BeginObject();
      json->Field("role", "assistant").Key("content").BeginArray().EndArray();
      json->Field("tool_plan", "").Key("tool_calls").BeginArray().EndArray();
      json->Key("citations").BeginArray().EndArray().EndObject().EndObject();
    });
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    const api::TokenInfo* token = part.token ? &*part.token : nullptr;
    for (const reply::ReplyDelta& delta : part.deltas) {
      if (Take(delta, token, out)) token = nullptr;
    }
    // A token that shows nothing, such as markup, has its log-probability all the same.
    if (logprobs_ && token != nullptr) PrintEmpty(token, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    for (const reply::ReplyDelta& delta : end.deltas) Take(delta, nullptr, out);
    Close(out);
    reason_ = ReasonName(end.reason, end.stop_string, static_cast<size_t>(end.calls));
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override {
    Event("message-end", out, [&](JsonWriter* json) {
      json->Field("id", id_).Key("delta").BeginObject().Field("finish_reason", reason_);
      WriteCohereUsage(end.usage, json);
      json->EndObject();
    });
  }

  void Error(const Status& status, const std::string& body, std::string* out) override {
    (void)body;
    Event("message-end", out, [&](JsonWriter* json) {
      json->Field("id", id_).Key("delta").BeginObject().Field("finish_reason", "ERROR");
      json->Field("error", status.message()).EndObject();
    });
  }

 private:
  // What is open: a content block, of text or of thinking, or a call.
  enum class Block { kNone, kText, kThinking, kCall };

  static void WriteCall(std::string_view id, std::string_view name, std::string_view arguments,
                        JsonWriter* json) {
    json->BeginObject().Field("id", id).Field("type", "function").Key("function").BeginObject();
    json->Field("name", name).Field("arguments", arguments).EndObject().EndObject();
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

  // An event of the block at `index_`; `write` adds the fields of delta.message.
  template <typename Write>
  void Delta(const char* type, std::string* out, const api::TokenInfo* token, Write&& write) {
    Event(type, out, [&](JsonWriter* json) {
      json->Field("index", index_).Key("delta").BeginObject().Key("message").BeginObject();
      write(json);
      json->EndObject().EndObject();
      if (!logprobs_ || token == nullptr) return;
      json->Key("logprobs");
      WriteLogprob(*token, json);
    });
  }

  void Open(Block block, std::string* out) {
    if (block_ == block) return;
    Close(out);
    block_ = block;
    const char* const key = block == Block::kText ? "text" : "thinking";
    Delta("content-start", out, nullptr, [&](JsonWriter* json) {
      json->Key("content").BeginObject().Field("type", key).Field(key, "").EndObject();
    });
  }

  void Close(std::string* out) {
    if (block_ == Block::kNone) return;
    const char* const type = block_ == Block::kCall ? "tool-call-end" : "content-end";
    Event(type, out, [&](JsonWriter* json) { json->Field("index", index_); });
    ++index_;
    block_ = Block::kNone;
  }

  void PrintContent(Block block, std::string_view text, const api::TokenInfo* token,
                    std::string* out) {
    Open(block, out);
    Delta("content-delta", out, token, [&](JsonWriter* json) {
      json->Key("content").BeginObject();
      json->Field(block == Block::kText ? "text" : "thinking", text).EndObject();
    });
  }

  void PrintArguments(std::string_view text, const api::TokenInfo* token, std::string* out) {
    Delta("tool-call-delta", out, token, [&](JsonWriter* json) {
      json->Key("tool_calls").BeginObject().Key("function").BeginObject();
      json->Field("arguments", text).EndObject().EndObject();
    });
  }

  void PrintEmpty(const api::TokenInfo* token, std::string* out) {
    if (block_ == Block::kCall) return PrintArguments("", token, out);
    PrintContent(block_ == Block::kNone ? Block::kText : block_, "", token, out);
  }

  // Whether an event has the token.
  bool Take(const reply::ReplyDelta& delta, const api::TokenInfo* token, std::string* out) {
    switch (delta.kind) {
      case Kind::kContent:
      case Kind::kReasoning:
        if (delta.text.empty()) return false;
        PrintContent(delta.kind == Kind::kContent ? Block::kText : Block::kThinking, delta.text,
                     token, out);
        return true;
      case Kind::kCallBegin:
        Close(out);
        block_ = Block::kCall;
        Delta("tool-call-start", out, token, [&](JsonWriter* json) {
          json->Key("tool_calls");
          WriteCall(delta.id, delta.name, "", json);
        });
        return true;
      case Kind::kCallArguments:
        PrintArguments(delta.text, token, out);
        return true;
      case Kind::kCallEnd:
        Close(out);
        return false;
      case Kind::kMarkup:
        return false;
    }
    return false;
  }

  const bool logprobs_;
  const std::string id_;
  std::string data_;
  const char* reason_ = "COMPLETE";
  Block block_ = Block::kNone;
  int index_ = 0;  // of the open block, or the next
};

}  // namespace

std::unique_ptr<TextPrinter> NewCohereChatPrinter(const TextCall& call, std::string_view id) {
  return std::make_unique<CohereChatPrinter>(call, id);
}

}  // namespace penstock::dialects
