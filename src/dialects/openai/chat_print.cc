#include "dialects/openai/chat_print.h"

#include <utility>
#include <vector>

#include "dialects/shared/token_print.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using Kind = reply::ReplyDelta::Kind;

constexpr const char* kFingerprint = "penstock-" PENSTOCK_VERSION;

const char* ReasonName(generate::FinishReason reason, int calls, const char* called) {
  if (reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext)
    return "length";
  return calls > 0 ? called : "stop";
}

void WriteUsage(const api::GenerateUsage& usage, JsonWriter* json) {
  json->Key("usage").BeginObject().Field("prompt_tokens", usage.prompt_tokens);
  json->Field("completion_tokens", usage.completion_tokens);
  json->Field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json->Key("prompt_tokens_details").BeginObject();
  json->Field("cached_tokens", usage.cached_tokens).EndObject().EndObject();
}

// Both names that clients read.
void WriteReasoning(std::string_view text, JsonWriter* json) {
  json->Field("reasoning_content", text).Field("reasoning", text);
}

// What the two APIs share.
class OpenAiPrinter : public TextPrinter {
 public:
  OpenAiPrinter(const TextCall& call, const char* prefix, std::string_view id,
                int64_t created_unix_s)
      : logprobs_(call.request.sampling.options.logprobs),
        scores_(call.request.scores_prompt),
        samples_(call.request.samples),
        include_usage_(call.include_usage),
        id_(std::string(prefix) + std::string(id)),
        created_(created_unix_s) {}

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    (void)out;
    model_ = begun.model;
    prompts_ = begun.prompts;
  }
  void Finish(const api::GenerateEnd& end, std::string* out) override {
    if (include_usage_) {
      PrintEvent(out, [&](JsonWriter* json) {
        json->Key("choices").BeginArray().EndArray();
        WriteUsage(end.usage, json);
      });
    }
    http::AppendEvent("", "[DONE]", out);
  }

 protected:
  virtual const char* chunk_object() const = 0;

  void WriteHead(const char* object, const std::string& model, JsonWriter* json) const {
    json->BeginObject().Field("id", id_).Field("object", object).Field("created", created_);
    json->Field("model", model).Field("system_fingerprint", kFingerprint);
  }
  // An event; `write` adds its fields.
  template <typename Write>
  void PrintEvent(std::string* out, Write&& write) {
    text_.clear();
    JsonWriter json(&text_);
    WriteHead(chunk_object(), model_, &json);
    write(&json);
    json.EndObject();
    http::AppendEvent("", text_, out);
  }
  // An event with one choice.
  template <typename Write>
  void PrintChoice(int32_t choice, const char* reason, std::string* out, Write&& write) {
    PrintEvent(out, [&](JsonWriter* json) {
      json->Key("choices").BeginArray().BeginObject().Field("index", choice);
      write(json);
      json->Key("finish_reason");
      if (reason == nullptr) {
        json->Null();
      } else {
        json->String(reason);
      }
      json->EndObject().EndArray();
      if (include_usage_) json->Key("usage").Null();
    });
  }

  const bool logprobs_;
  const bool scores_;
  const int32_t samples_;
  const bool include_usage_;
  const std::string id_;
  const int64_t created_;
  std::string model_;
  std::vector<std::string> prompts_;

 private:
  std::string text_;
};

class ChatPrinter final : public OpenAiPrinter {
 public:
  ChatPrinter(const TextCall& call, std::string_view id, int64_t created_unix_s)
      : OpenAiPrinter(call, "chatcmpl-", id, created_unix_s), has_functions_(call.has_functions) {}

  std::string Whole(const GeneratedAnswer& answer) override {
    std::string out;
    JsonWriter json(&out);
    WriteHead("chat.completion", answer.model, &json);
    json.Key("choices").BeginArray();
    for (size_t i = 0; i < answer.choices.size(); ++i) {
      const GeneratedChoice& choice = answer.choices[i];
      json.BeginObject().Field("index", i).Key("message");
      WriteMessage(choice, &json);
      json.Key("logprobs");
      WriteLogprobs(logprobs_ ? &choice.tokens : nullptr, &json);
      json.Field("finish_reason", Reason(choice.reason, static_cast<int>(choice.calls.size())));
      json.EndObject();
    }
    json.EndArray();
    WriteUsage(answer.usage, &json);
    json.EndObject();
    return out;
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    Open(part.choice, out);
    Deltas(part.choice, part.deltas, part.token ? &*part.token : nullptr, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    Open(end.choice, out);
    Deltas(end.choice, end.deltas, nullptr, out);
    PrintChoice(end.choice, Reason(end.reason, end.calls), out, [](JsonWriter* json) {
      json->Key("delta").BeginObject().EndObject().Key("logprobs").Null();
    });
  }

 protected:
  const char* chunk_object() const override { return "chat.completion.chunk"; }

 private:
  const char* Reason(generate::FinishReason reason, int calls) const {
    return ReasonName(reason, calls, has_functions_ ? "function_call" : "tool_calls");
  }

  void WriteMessage(const GeneratedChoice& choice, JsonWriter* json) const {
    json->BeginObject().Field("role", "assistant").Key("content");
    if (choice.content.empty() && !choice.calls.empty()) {
      json->Null();
    } else {
      json->String(choice.content);
    }
    json->Key("refusal").Null();
    if (!choice.reasoning.empty()) WriteReasoning(choice.reasoning, json);
    if (!choice.calls.empty() && has_functions_) {
      json->Key("function_call").BeginObject().Field("name", choice.calls[0].name);
      json->Field("arguments", choice.calls[0].arguments).EndObject();
    } else if (!choice.calls.empty()) {
      json->Key("tool_calls").BeginArray();
      for (const GeneratedChoice::Call& call : choice.calls) {
        json->BeginObject().Field("id", call.id).Field("type", "function").Key("function");
        json->BeginObject().Field("name", call.name).Field("arguments", call.arguments);
        json->EndObject().EndObject();
      }
      json->EndArray();
    }
    json->EndObject();
  }

  // {"content": [token, ...], "refusal": null}; null for none.
  static void WriteLogprobs(const std::vector<api::TokenInfo>* tokens, JsonWriter* json) {
    if (tokens == nullptr) {
      json->Null();
      return;
    }
    json->BeginObject().Key("content").BeginArray();
    for (const api::TokenInfo& token : *tokens) WriteTokenInfo(token, json);
    json->EndArray().Key("refusal").Null().EndObject();
  }

  // The first event of a choice has its role.
  void Open(int32_t choice, std::string* out) {
    const auto index = static_cast<size_t>(choice);
    if (opened_.size() <= index) opened_.resize(index + 1);
    if (opened_[index]) return;
    opened_[index] = true;
    PrintChoice(choice, nullptr, out, [](JsonWriter* json) {
      json->Key("delta").BeginObject().Field("role", "assistant").Field("content", "");
      json->EndObject().Key("logprobs").Null();
    });
  }

  // An event for neighbours of a kind; the token's log-probability is in the first.
  void Deltas(int32_t choice, const std::vector<reply::ReplyDelta>& deltas,
              const api::TokenInfo* token, std::string* out) {
    for (size_t i = 0; i < deltas.size();) {
      const reply::ReplyDelta& first = deltas[i];
      std::string text = first.text;
      const bool joins = first.kind != Kind::kCallBegin;
      for (++i; joins && i < deltas.size() && deltas[i].kind == first.kind &&
                deltas[i].call == first.call;
           ++i) {
        text += deltas[i].text;
      }
      if (first.kind == Kind::kMarkup || first.kind == Kind::kCallEnd) continue;
      if (first.kind != Kind::kCallBegin && text.empty()) continue;
      Delta(choice, first, text, std::exchange(token, nullptr), out);
    }
    if (token != nullptr) Delta(choice, {}, "", token, out);
  }

  void Delta(int32_t choice, const reply::ReplyDelta& delta, std::string_view text,
             const api::TokenInfo* token, std::string* out) {
    PrintChoice(choice, nullptr, out, [&](JsonWriter* json) {
      json->Key("delta").BeginObject();
      if (delta.kind == Kind::kReasoning) {
        WriteReasoning(text, json);
      } else if (delta.kind == Kind::kContent) {
        json->Field("content", text);
      } else {
        WriteCall(delta, text, json);
      }
      json->EndObject().Key("logprobs");
      if (token == nullptr) {
        json->Null();
      } else {
        json->BeginObject().Key("content").BeginArray();
        WriteTokenInfo(*token, json);
        json->EndArray().Key("refusal").Null().EndObject();
      }
    });
  }

  void WriteCall(const reply::ReplyDelta& delta, std::string_view text, JsonWriter* json) const {
    if (has_functions_) {
      json->Key("function_call").BeginObject();
      if (delta.kind == Kind::kCallBegin) json->Field("name", delta.name);
      json->Field("arguments", text).EndObject();
      return;
    }
    json->Key("tool_calls").BeginArray().BeginObject().Field("index", delta.call);
    if (delta.kind == Kind::kCallBegin) {
      json->Field("id", delta.id).Field("type", "function").Key("function").BeginObject();
      json->Field("name", delta.name).Field("arguments", "");
    } else {
      json->Key("function").BeginObject().Field("arguments", text);
    }
    json->EndObject().EndObject().EndArray();
  }

  const bool has_functions_;  // a call is told in its old form
  std::vector<bool> opened_;  // by choice
};

class CompletionPrinter final : public OpenAiPrinter {
 public:
  using OpenAiPrinter::OpenAiPrinter;

  std::string Whole(const GeneratedAnswer& answer) override {
    std::string out;
    JsonWriter json(&out);
    WriteHead("text_completion", answer.model, &json);
    json.Key("choices").BeginArray();
    for (size_t i = 0; i < answer.choices.size(); ++i) {
      const GeneratedChoice& choice = answer.choices[i];
      const size_t prompt = i / static_cast<size_t>(samples_);
      const bool echoed = prompt < answer.prompts.size();
      json.BeginObject().Field("index", i);
      json.Field("text", (echoed ? answer.prompts[prompt] : "") + choice.content);
      json.Key("logprobs");
      CompletionLogprobs logprobs = {logprobs_, {}, {}, choice.tokens};
      if (prompt < answer.prompt_tokens.size()) {
        logprobs.prompt = answer.prompt_tokens[prompt];
        logprobs.prompt_text = answer.prompts[prompt];
      }
      size_t offset = 0;
      WriteCompletionLogprobs(logprobs, &offset, &json);
      json.Field("finish_reason", ReasonName(choice.reason, 0, "")).EndObject();
    }
    json.EndArray();
    WriteUsage(answer.usage, &json);
    json.EndObject();
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    OpenAiPrinter::Begin(begun, out);
    if (scores_) return;  // the prompts come with their tokens
    for (size_t i = 0; i < prompts_.size(); ++i) Echo(i, {}, out);
  }

  void Prompt(size_t prompt, const std::vector<api::TokenInfo>& tokens, std::string* out) override {
    if (prompt < prompts_.size()) Echo(prompt, tokens, out);
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    std::string text;
    for (const reply::ReplyDelta& delta : part.deltas) text += delta.text;
    if (text.empty() && !part.token) return;
    CompletionLogprobs logprobs;
    logprobs.wanted = part.token.has_value();
    if (part.token) logprobs.tokens = {&*part.token, 1};
    Text(part.choice, text, logprobs, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    std::string text;
    for (const reply::ReplyDelta& delta : end.deltas) text += delta.text;
    PrintChoice(end.choice, ReasonName(end.reason, 0, ""), out,
                [&](JsonWriter* json) { json->Field("text", text).Key("logprobs").Null(); });
  }

 protected:
  const char* chunk_object() const override { return "text_completion"; }

 private:
  // The prompt of each of its texts.
  void Echo(size_t prompt, std::span<const api::TokenInfo> tokens, std::string* out) {
    const auto samples = static_cast<size_t>(samples_);
    for (size_t i = prompt * samples; i < (prompt + 1) * samples; ++i) {
      Text(static_cast<int32_t>(i), prompts_[prompt],
           {!tokens.empty(), tokens, prompts_[prompt], {}}, out);
    }
  }
  void Text(int32_t choice, std::string_view text, const CompletionLogprobs& logprobs,
            std::string* out) {
    const auto index = static_cast<size_t>(choice);
    if (offsets_.size() <= index) offsets_.resize(index + 1);
    PrintChoice(choice, nullptr, out, [&](JsonWriter* json) {
      json->Field("text", text).Key("logprobs");
      WriteCompletionLogprobs(logprobs, &offsets_[index], json);
    });
  }

  std::vector<size_t> offsets_;  // by choice: characters of the tokens so far
};

}  // namespace

std::unique_ptr<TextPrinter> NewChatPrinter(const TextCall& call, std::string_view id,
                                            int64_t created_unix_s) {
  return std::make_unique<ChatPrinter>(call, id, created_unix_s);
}

std::unique_ptr<TextPrinter> NewCompletionPrinter(const TextCall& call, std::string_view id,
                                                  int64_t created_unix_s) {
  return std::make_unique<CompletionPrinter>(call, "cmpl-", id, created_unix_s);
}

}  // namespace penstock::dialects
