#include "dialects/ollama/ollama_print.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "chat/json_value.h"
#include "dialects/shared/token_print.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using Kind = reply::ReplyDelta::Kind;

// What one object of an answer tells: a part of the text, or all of it.
struct Piece {
  std::string content, reasoning;
  std::vector<GeneratedChoice::Call> calls;
  std::span<const api::TokenInfo> tokens;
};

class OllamaPrinter final : public TextPrinter {
 public:
  OllamaPrinter(const OllamaTextCall& call, Clock::time_point begin)
      : chat_(call.chat),
        logprobs_(call.request.sampling.options.logprobs),
        begin_(begin),
        ignored_(call.ignored),
        model_(call.request.model) {}

  bool lines() const override { return true; }
  std::vector<std::pair<std::string, std::string>> headers() const override {
    std::vector<std::pair<std::string, std::string>> headers;
    ignored_.AddHeader(&headers);
    return headers;
  }
  void Error(const Status& status, const std::string& body, std::string* out) override {
    (void)status;
    out->append(body).append("\n");
  }

  std::string Whole(const GeneratedAnswer& answer) override {
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    std::string out;
    JsonWriter json(&out);
    WritePart({choice.content, choice.reasoning, choice.calls, choice.tokens}, &json);
    WriteDone(choice.reason, answer.usage, answer.times, &json);
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    (void)out;
    model_ = begun.model;
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    Line(part.deltas, part.token ? &*part.token : nullptr, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    reason_ = end.reason;
    Line(end.deltas, nullptr, out);
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override {
    JsonWriter json(out);
    WritePart({}, &json);
    WriteDone(reason_, end.usage, end.times, &json);
    *out += '\n';
  }

 private:
  void Line(const std::vector<reply::ReplyDelta>& deltas, const api::TokenInfo* token,
            std::string* out) {
    GeneratedAnswer joined;
    joined.Add(deltas, joined.At(0));
    GeneratedChoice& choice = joined.choices[0];
    const bool calls_to_tell =
        std::any_of(deltas.begin(), deltas.end(), [](const reply::ReplyDelta& delta) {
          return delta.kind == Kind::kCallBegin || delta.kind == Kind::kCallArguments;
        });
    if (choice.content.empty() && choice.reasoning.empty() && !calls_to_tell && token == nullptr) {
      return;
    }
    Piece piece{
        std::move(choice.content), std::move(choice.reasoning), std::move(choice.calls), {}};
    if (token != nullptr) piece.tokens = {token, 1};
    JsonWriter json(out);
    WritePart(piece, &json);
    json.Field("done", false).EndObject();
    *out += '\n';
  }

  // Leaves the object open.
  void WritePart(const Piece& part, JsonWriter* json) const {
    json->BeginObject().Field("model", model_);
    json->Field("created_at", Rfc3339(std::chrono::system_clock::now()));
    if (chat_) {
      json->Key("message").BeginObject().Field("role", "assistant");
      json->Field("content", part.content);
      if (!part.reasoning.empty()) json->Field("thinking", part.reasoning);
      WriteCalls(part.calls, json);
      json->EndObject();
    } else {
      json->Field("response", part.content);
      if (!part.reasoning.empty()) json->Field("thinking", part.reasoning);
    }
    if (logprobs_ && !part.tokens.empty()) {
      json->Key("logprobs").BeginArray();
      for (const api::TokenInfo& token : part.tokens) WriteTokenInfo(token, json);
      json->EndArray();
    }
  }

  // Closes the object.
  void WriteDone(generate::FinishReason reason, const api::GenerateUsage& usage,
                 const api::GenerateTimes& times, JsonWriter* json) const {
    const bool cut =
        reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext;
    const std::chrono::nanoseconds total = Clock::now() - begin_;
    const std::chrono::nanoseconds load = total - times.prompt - times.decode;
    json->Field("done", true).Field("done_reason", cut ? "length" : "stop");
    json->Field("total_duration", total.count());
    json->Field("load_duration", std::max<int64_t>(0, load.count()));
    json->Field("prompt_eval_count", usage.prompt_tokens);
    json->Field("prompt_eval_duration", times.prompt.count());
    json->Field("eval_count", usage.completion_tokens);
    json->Field("eval_duration", times.decode.count()).EndObject();
  }

  static void WriteCalls(const std::vector<GeneratedChoice::Call>& calls, JsonWriter* json) {
    if (calls.empty()) return;
    json->Key("tool_calls").BeginArray();
    for (const GeneratedChoice::Call& call : calls) {
      json->BeginObject().Field("id", call.id).Key("function").BeginObject();
      json->Field("name", call.name).Key("arguments");
      // Printed again, since the model's own may have line breaks.
      const auto arguments = chat::JsonValue::Parse(call.arguments);
      if (arguments.ok() && arguments->object() != nullptr) {
        arguments->Write(json);
      } else {
        json->BeginObject().EndObject();
      }
      json->EndObject().EndObject();
    }
    json->EndArray();
  }

  const bool chat_;
  const bool logprobs_;
  const Clock::time_point begin_;
  const IgnoredFields ignored_;
  std::string model_;
  generate::FinishReason reason_ = generate::FinishReason::kStop;
};

}  // namespace

std::string Rfc3339(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(time - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), rest);
}

std::unique_ptr<TextPrinter> NewOllamaPrinter(const OllamaTextCall& call, Clock::time_point begin) {
  return std::make_unique<OllamaPrinter>(call, begin);
}

std::string PrintOllamaLoaded(const OllamaTextCall& call, std::string_view reason) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("model", call.request.model);
  json.Field("created_at", Rfc3339(std::chrono::system_clock::now()));
  if (call.chat) {
    json.Key("message").BeginObject().Field("role", "assistant").Field("content", "").EndObject();
  } else {
    json.Field("response", "");
  }
  json.Field("done", true).Field("done_reason", reason).EndObject();
  return out;
}

}  // namespace penstock::dialects
