#include "dialects/tgi/tgi.h"

#include <algorithm>

#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"
#include "dialects/shared/token_print.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

// TGI's, where max_new_tokens is absent.
constexpr int32_t kNewTokensDefault = 100;

constexpr RefusedField kTgiRefused[] = {
    {"truncate", "a prompt is never cut"},
    {"watermark", ""},
    {"adapter_id", ""},
    {"decoder_input_details", ""},
};

const char* ReasonName(generate::FinishReason reason, int stop_string) {
  if (reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext)
    return "length";
  return stop_string >= 0 ? "stop_sequence" : "eos_token";
}

// grammar: {"type": "json" | "regex", "value": a schema | a pattern}
Status ReadTgiGrammar(const JsonObject& object, api::TextRequest* request) {
  if (!object.Has("grammar")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject form, object.GetObject("grammar"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(form, "type"));
  const std::string field = form.PathOf("value");
  if (type == "json" || type == "json_schema") {
    PENSTOCK_ASSIGN_OR_RETURN(request->grammar, ReadSchema(form, "value", field));
  } else if (type == "regex") {
    request->grammar = {grammar::GrammarKind::kRegex, "", {}, field};
    PENSTOCK_ASSIGN_OR_RETURN(request->grammar->text, form.GetString("value"));
  }
  if (request->grammar) return Status::Ok();
  const std::string path = form.PathOf("type");
  return Status::InvalidArgument("'" + path + "' must be \"json\" or \"regex\", with a 'value'",
                                 path);
}

Status ParseParameters(const JsonObject& object, TgiCall* call) {
  api::TextRequest& request = call->request;
  api::SamplingRequest& sampling = request.sampling;
  sample::SamplingOptions& options = sampling.options;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kTgiRefused));
  PENSTOCK_RETURN_IF_ERROR(ReadTgiGrammar(object, &request));
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, &sampling));
  PENSTOCK_ASSIGN_OR_RETURN(const bool samples, object.GetBoolOr("do_sample", false));
  if (!samples && !sampling.temperature && !sampling.top_k && !sampling.top_p) {
    sampling.temperature = 0;
  }
  std::optional<float> typical;
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "typical_p", &typical));
  if (typical.value_or(1) != 1) {
    const std::string path = object.PathOf("typical_p");
    return Status::InvalidArgument("'" + path + "' is not supported, unless it is 1", path);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto best_of, GetOptionalInt(object, "best_of", 0, INT32_MAX));
  if (best_of.value_or(1) > 1) {
    const std::string path = object.PathOf("best_of");
    return Status::InvalidArgument("'" + path + "' is not supported, unless it is 1", path);
  }
  PENSTOCK_ASSIGN_OR_RETURN(options.max_tokens,
                            GetOptionalInt(object, "max_new_tokens", 1, INT32_MAX));
  PENSTOCK_ASSIGN_OR_RETURN(request.echoes_prompt, object.GetBoolOr("return_full_text", false));
  PENSTOCK_ASSIGN_OR_RETURN(call->details, object.GetBoolOr("details", false));
  PENSTOCK_ASSIGN_OR_RETURN(const auto top,
                            GetOptionalInt(object, "top_n_tokens", 0, sample::kTopLogprobsMax));
  options.top_logprobs = top.value_or(0);
  return Status::Ok();
}

void WriteToken(const api::TokenInfo& token, const std::string& text, JsonWriter* json) {
  json->BeginObject().Field("id", token.id).Field("text", text);
  json->Field("logprob", token.logprob).Field("special", token.special).EndObject();
}

void WriteTopToken(const api::TokenInfo& token, JsonWriter* json) {
  json->BeginArray();
  for (const api::TokenText& one : token.top) {
    json->BeginObject().Field("id", one.id).Field("text", TokenName(one.bytes));
    json->Field("logprob", one.logprob).Field("special", one.special).EndObject();
  }
  json->EndArray();
}

class TgiPrinter final : public TextPrinter {
 public:
  explicit TgiPrinter(const TgiCall& call)
      : details_(call.details),
        top_(call.request.sampling.options.top_logprobs > 0),
        seed_(call.request.sampling.options.seed) {}

  std::string Whole(const GeneratedAnswer& answer) override {
    std::string out;
    JsonWriter json(&out);
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    json.BeginObject();
    json.Field("generated_text",
               (answer.prompts.empty() ? "" : answer.prompts[0]) + choice.content);
    if (details_) {
      json.Key("details");
      WriteDetails(choice.reason, choice.stop_string, choice.token_count, &json);
      json.Key("prefill").BeginArray().EndArray().Key("tokens").BeginArray();
      for (const api::TokenInfo& token : choice.tokens) {
        WriteToken(token, TokenName(token.bytes), &json);
      }
      json.EndArray();
      if (top_) {
        json.Key("top_tokens").BeginArray();
        for (const api::TokenInfo& token : choice.tokens) WriteTopToken(token, &json);
        json.EndArray();
      }
      json.EndObject();
    }
    json.EndObject();
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    (void)out;
    if (!begun.prompts.empty()) text_ = begun.prompts[0];
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    std::string text;
    for (const reply::ReplyDelta& delta : part.deltas) text += delta.text;
    text_ += text;
    last_ = part.token.value_or(api::TokenInfo());
    Event(last_, text, nullptr, out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    std::string text;
    for (const reply::ReplyDelta& delta : end.deltas) text += delta.text;
    text_ += text;
    last_.special = text.empty();
    last_.top.clear();
    Event(last_, text, &end, out);
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override { (void)end, (void)out; }

 private:
  // Leaves the object open.
  void WriteDetails(generate::FinishReason reason, int stop_string, int32_t tokens,
                    JsonWriter* json) const {
    json->BeginObject().Field("finish_reason", ReasonName(reason, stop_string));
    json->Field("generated_tokens", tokens).Key("seed");
    if (seed_) {
      json->Uint(*seed_);
    } else {
      json->Null();
    }
  }

  void Event(const api::TokenInfo& token, const std::string& text, const api::ChoiceEnd* end,
             std::string* out) {
    std::string data;
    JsonWriter json(&data);
    json.BeginObject().Field("index", ++index_).Key("token");
    WriteToken(token, text, &json);
    if (top_) {
      json.Key("top_tokens");
      WriteTopToken(token, &json);
    }
    json.Key("generated_text");
    if (end == nullptr) {
      json.Null().Key("details").Null();
    } else {
      json.String(text_).Key("details");
      WriteDetails(end->reason, end->stop_string, end->tokens, &json);
      json.EndObject();
    }
    json.EndObject();
    http::AppendEvent("", data, out);
  }

  const bool details_;
  const bool top_;
  const std::optional<uint64_t> seed_;
  int64_t index_ = 0;
  std::string text_;  // so far
  api::TokenInfo last_;
};

}  // namespace

Expected<TgiCall> ParseTgiCall(const JsonObject& object, bool streams) {
  TgiCall call;
  api::TextRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(call.stream, object.GetBoolOr("stream", false));
  api::GeneratePrompt prompt;
  prompt.field = "inputs";
  PENSTOCK_ASSIGN_OR_RETURN(prompt.value, object.GetString("inputs"));
  request.prompts.push_back(std::move(prompt));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject parameters, object.GetObjectOrEmpty("parameters"));
  PENSTOCK_RETURN_IF_ERROR(ParseParameters(parameters, &call));
  PENSTOCK_RETURN_IF_ERROR(CheckSampling(request.sampling));
  request.max_tokens_default = kNewTokensDefault;
  request.streams = streams || call.stream;
  // Each token of an answer has its log-probability.
  request.sampling.options.logprobs = request.streams || call.details;
  if (!request.sampling.options.logprobs) request.sampling.options.top_logprobs = 0;
  return call;
}

bool AsksTgi(const JsonObject& object) {
  if (object.Has("stream")) return true;
  const auto parameters = object.GetObjectOrEmpty("parameters");
  if (!parameters.ok()) return false;
  // top_k and truncation are of classifiers, too.
  constexpr const char* kOfText[] = {"max_new_tokens", "do_sample",         "temperature",
                                     "top_p",          "typical_p",         "details",
                                     "stop",           "top_n_tokens",      "return_full_text",
                                     "best_of",        "repetition_penalty"};
  return std::any_of(std::begin(kOfText), std::end(kOfText),
                     [&](const char* key) { return parameters->Has(key); });
}

std::unique_ptr<TextPrinter> NewTgiPrinter(const TgiCall& call) {
  return std::make_unique<TgiPrinter>(call);
}

}  // namespace penstock::dialects
