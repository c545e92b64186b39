// The answers of OpenAI's responses: items, and the events that build them.

#include <fmt/format.h>

#include "dialects/openai/responses.h"
#include "dialects/shared/token_print.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using Kind = reply::ReplyDelta::Kind;

// One item of the output.
struct OutputItem {
  enum class Type { kReasoning, kMessage, kCall };
  Type type = Type::kMessage;
  std::string id;
  std::string text;           // of a call, its arguments
  std::string call_id, name;  // of a call
  std::vector<api::TokenInfo> tokens;
  bool complete = true;  // else the answer ended inside
};

bool IsCut(generate::FinishReason reason) {
  return reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext;
}

class ResponsesPrinter final : public TextPrinter {
 public:
  ResponsesPrinter(ResponsesCall* call, std::string_view id, int64_t created_unix_s)
      : id_(id),
        created_(created_unix_s),
        logprobs_(call->request.sampling.options.logprobs),
        ignored_(call->ignored),
        echo_(std::move(call->echo)) {}

  std::vector<std::pair<std::string, std::string>> headers() const override {
    std::vector<std::pair<std::string, std::string>> headers;
    ignored_.AddHeader(&headers);
    return headers;
  }

  bool content_tokens_alone() const override { return true; }

  std::string Whole(const GeneratedAnswer& answer) override {
    model_ = answer.model;
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    if (!choice.reasoning.empty()) {
      New(OutputItem::Type::kReasoning)->text = choice.reasoning;
    }
    // Clients want an answer: one without any has an empty message, here as in a stream.
    if (!choice.content.empty() || (choice.calls.empty() && items_.empty())) {
      OutputItem* const message = New(OutputItem::Type::kMessage);
      message->text = choice.content;
      message->tokens = choice.tokens;
    }
    for (const GeneratedChoice::Call& call : choice.calls) {
      OutputItem* const item = New(OutputItem::Type::kCall);
      item->call_id = call.id;
      item->name = call.name;
      item->text = call.arguments;
    }
    if (IsCut(choice.reason) && choice.calls.empty()) items_.back().complete = false;
    std::string out;
    JsonWriter json(&out);
    WriteResponse(IsCut(choice.reason) ? "incomplete" : "completed", &answer.usage,
                  choice.reasoning_tokens, &json);
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    model_ = begun.model;
    for (const char* const type : {"response.created", "response.in_progress"}) {
      ResponseEvent(type, "in_progress", nullptr, out);
    }
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    new_tokens_.clear();
    if (logprobs_) content_tokens_.Add(part, &new_tokens_);
    for (const reply::ReplyDelta& delta : part.deltas) Take(delta, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    for (const reply::ReplyDelta& delta : end.deltas) Take(delta, out);
    if (items_.empty()) Open(OutputItem::Type::kMessage, {}, out);  // clients want an answer
    Close(!IsCut(end.reason), out);
    reasoning_tokens_ = end.reasoning_tokens;
    cut_ = IsCut(end.reason);
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override {
    const std::string status = cut_ ? "incomplete" : "completed";
    ResponseEvent(("response." + status).c_str(), status, &end.usage, out);
  }

  void Error(const Status& status, const std::string& body, std::string* out) override {
    (void)body;
    Close(false, out);
    error_ = status;
    ResponseEvent("response.failed", "failed", nullptr, out);
  }

 private:
  OutputItem* New(OutputItem::Type type) {
    static constexpr const char* kPrefixes[] = {"rs", "msg", "fc"};
    OutputItem item;
    item.type = type;
    item.id = fmt::format("{}_{}_{}", kPrefixes[static_cast<size_t>(type)], id_, items_.size());
    items_.push_back(std::move(item));
    return &items_.back();
  }

  void WritePart(const OutputItem& item, bool whole, JsonWriter* json) const {
    json->BeginObject();
    if (item.type == OutputItem::Type::kReasoning) {
      json->Field("type", "reasoning_text").Field("text", whole ? item.text : "");
    } else {
      json->Field("type", "output_text").Field("text", whole ? item.text : "");
      json->Key("annotations").BeginArray().EndArray();
      json->Key("logprobs").BeginArray();
      if (whole) {
        for (const api::TokenInfo& token : item.tokens) WriteTokenInfo(token, json);
      }
      json->EndArray();
    }
    json->EndObject();
  }

  // An item as it stands; one that is not whole yet is without its text.
  void WriteItem(const OutputItem& item, bool whole, JsonWriter* json) const {
    const char* const status = !whole ? "in_progress" : item.complete ? "completed" : "incomplete";
    json->BeginObject().Field("id", item.id);
    if (item.type == OutputItem::Type::kCall) {
      json->Field("type", "function_call").Field("status", status);
      json->Field("call_id", item.call_id).Field("name", item.name);
      json->Field("arguments", whole ? item.text : "").EndObject();
      return;
    }
    if (item.type == OutputItem::Type::kReasoning) {
      json->Field("type", "reasoning").Key("summary").BeginArray().EndArray();
      json->Key("encrypted_content").Null();
    } else {
      json->Field("type", "message").Field("role", "assistant");
    }
    json->Field("status", status).Key("content").BeginArray();
    if (whole) WritePart(item, true, json);
    json->EndArray().EndObject();
  }

  void WriteResponse(std::string_view status, const api::GenerateUsage* usage,
                     int32_t reasoning_tokens, JsonWriter* json) const {
    json->BeginObject().Field("id", "resp_" + id_).Field("object", "response");
    json->Field("created_at", created_).Field("status", status).Field("background", false);
    json->Key("error");
    if (error_.ok()) {
      json->Null();
    } else {
      json->BeginObject().Field("code", "server_error");
      json->Field("message", error_.message()).EndObject();
    }
    json->Key("incomplete_details");
    if (status == "incomplete") {
      json->BeginObject().Field("reason", "max_output_tokens").EndObject();
    } else {
      json->Null();
    }
    json->Field("model", model_).Key("output").BeginArray();
    for (const OutputItem& item : items_) WriteItem(item, true, json);
    json->EndArray().Key("previous_response_id").Null();
    json->Field("service_tier", "default").Field("store", false).Field("truncation", "disabled");
    for (const auto& [key, value] : echo_) json->Key(key).Raw(value);
    json->Key("usage");
    if (usage == nullptr) {
      json->Null();
    } else {
      json->BeginObject().Field("input_tokens", usage->prompt_tokens);
      json->Key("input_tokens_details").BeginObject();
      json->Field("cached_tokens", usage->cached_tokens).EndObject();
      json->Field("output_tokens", usage->completion_tokens);
      json->Key("output_tokens_details").BeginObject();
      json->Field("reasoning_tokens", reasoning_tokens).EndObject();
      json->Field("total_tokens", usage->prompt_tokens + usage->completion_tokens).EndObject();
    }
    json->EndObject();
  }

  template <typename Write>
  void Event(const char* type, std::string* out, Write&& write) {
    data_.clear();
    JsonWriter json(&data_);
    json.BeginObject().Field("type", type).Field("sequence_number", sequence_++);
    write(&json);
    json.EndObject();
    http::AppendEvent(type, data_, out);
  }

  void ResponseEvent(const char* type, std::string_view status, const api::GenerateUsage* usage,
                     std::string* out) {
    Event(type, out, [&](JsonWriter* json) {
      json->Key("response");
      WriteResponse(status, usage, reasoning_tokens_, json);
    });
  }

  // An event of the open item.
  template <typename Write>
  void ItemEvent(const char* type, std::string* out, Write&& write) {
    Event(type, out, [&](JsonWriter* json) {
      json->Field("item_id", items_.back().id).Field("output_index", items_.size() - 1);
      if (items_.back().type != OutputItem::Type::kCall) json->Field("content_index", 0);
      write(json);
    });
  }

  bool IsOpen(OutputItem::Type type) const { return open_ && items_.back().type == type; }

  void Open(OutputItem::Type type, const reply::ReplyDelta& call, std::string* out) {
    Close(true, out);
    OutputItem* const item = New(type);
    open_ = true;
    item->call_id = call.id;
    item->name = call.name;
    Event("response.output_item.added", out, [&](JsonWriter* json) {
      json->Field("output_index", items_.size() - 1).Key("item");
      WriteItem(*item, false, json);
    });
    if (type == OutputItem::Type::kCall) return;
    ItemEvent("response.content_part.added", out, [&](JsonWriter* json) {
      json->Key("part");
      WritePart(*item, false, json);
    });
  }

  void Close(bool complete, std::string* out) {
    if (!open_) return;
    open_ = false;
    OutputItem& item = items_.back();
    item.complete = complete;
    if (item.type == OutputItem::Type::kCall) {
      ItemEvent("response.function_call_arguments.done", out, [&](JsonWriter* json) {
        json->Field("name", item.name).Field("arguments", item.text);
      });
    } else {
      const bool reasons = item.type == OutputItem::Type::kReasoning;
      ItemEvent(reasons ? "response.reasoning_text.done" : "response.output_text.done", out,
                [&](JsonWriter* json) {
                  json->Field("text", item.text);
                  if (reasons) return;
                  json->Key("logprobs").BeginArray();
                  for (const api::TokenInfo& token : item.tokens) WriteTokenInfo(token, json);
                  json->EndArray();
                });
      ItemEvent("response.content_part.done", out, [&](JsonWriter* json) {
        json->Key("part");
        WritePart(item, true, json);
      });
    }
    Event("response.output_item.done", out, [&](JsonWriter* json) {
      json->Field("output_index", items_.size() - 1).Key("item");
      WriteItem(item, true, json);
    });
  }

  void Take(const reply::ReplyDelta& delta, std::string* out) {
    switch (delta.kind) {
      case Kind::kContent:
        return TakeText(OutputItem::Type::kMessage, "response.output_text.delta", delta, out);
      case Kind::kReasoning:
        return TakeText(OutputItem::Type::kReasoning, "response.reasoning_text.delta", delta, out);
      case Kind::kCallBegin:
        return Open(OutputItem::Type::kCall, delta, out);
      case Kind::kCallArguments:
        items_.back().text += delta.text;
        return ItemEvent("response.function_call_arguments.delta", out,
                         [&](JsonWriter* json) { json->Field("delta", delta.text); });
      case Kind::kCallEnd:
        return Close(delta.complete, out);
      case Kind::kMarkup:
        return;
    }
  }

  void TakeText(OutputItem::Type type, const char* event, const reply::ReplyDelta& delta,
                std::string* out) {
    if (delta.text.empty()) return;
    if (!IsOpen(type)) Open(type, {}, out);
    OutputItem& item = items_.back();
    item.text += delta.text;
    ItemEvent(event, out, [&](JsonWriter* json) {
      json->Field("delta", delta.text);
      if (type != OutputItem::Type::kMessage) return;
      json->Key("logprobs").BeginArray();
      for (const api::TokenInfo& token : new_tokens_) WriteTokenInfo(token, json);
      json->EndArray();
    });
    if (type != OutputItem::Type::kMessage) return;
    for (api::TokenInfo& token : new_tokens_) item.tokens.push_back(std::move(token));
    new_tokens_.clear();
  }

  const std::string id_;
  const int64_t created_;
  const bool logprobs_;
  const IgnoredFields ignored_;
  const std::vector<std::pair<const char*, std::string>> echo_;
  std::string model_;
  std::vector<OutputItem> items_;
  bool open_ = false;  // the last of them
  ContentTokens content_tokens_;
  std::vector<api::TokenInfo> new_tokens_;  // of the part at hand, until an event has them
  int32_t reasoning_tokens_ = 0;
  bool cut_ = false;
  Status error_;
  int64_t sequence_ = 0;
  std::string data_;
};

}  // namespace

std::unique_ptr<TextPrinter> NewResponsesPrinter(ResponsesCall* call, std::string_view id,
                                                 int64_t created_unix_s) {
  return std::make_unique<ResponsesPrinter>(call, id, created_unix_s);
}

}  // namespace penstock::dialects
