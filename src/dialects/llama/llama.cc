#include "dialects/llama/llama.h"

#include <utility>

#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"
#include "dialects/shared/token_print.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

// llama.cpp's seed for "draw one", besides negative ones.
constexpr uint64_t kNoSeed = 0xFFFFFFFF;

constexpr RefusedField kLlamaRefused[] = {
    {"mirostat", ""},
    {"dry_multiplier", ""},
    {"xtc_probability", ""},
    {"dynatemp_range", ""},
    {"samplers", "the order of samplers is fixed"},
    {"lora", ""},
    {"image_data", "the models here read text"},
    {"multimodal_data", "the models here read text"},
    {"response_fields", ""},
    {"t_max_predict_ms", "X-Request-Timeout-Ms bounds the time"},
};
constexpr RefusedField kTokenizeRefused[] = {
    {"with_pieces", "the form with \"inputs\" tells the pieces"},
};

Status ParsePrompt(const JsonObject& object, const api::ServiceOptions& limits,
                   api::TextRequest* request) {
  std::vector<api::Input> inputs;
  bool single = false;
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "prompt", limits, &inputs, &single));
  if (inputs.size() != 1) {
    return Status::InvalidArgument("'prompt' must be one prompt; /v1/completions takes several",
                                   "prompt");
  }
  api::GeneratePrompt prompt;
  if (inputs[0].is_ids) {
    prompt.value = std::move(inputs[0].ids);
  } else {
    prompt.value = std::move(inputs[0].text);
  }
  request->prompts.push_back(std::move(prompt));
  return Status::Ok();
}

constexpr size_t kExtraFilesMax = 256;

// What stands around the text to be written, and before.
Status ParseFill(const JsonObject& object, api::TextRequest* request) {
  api::FillPrompt fill;
  PENSTOCK_ASSIGN_OR_RETURN(fill.prefix, object.GetStringOr("input_prefix", ""));
  PENSTOCK_ASSIGN_OR_RETURN(fill.suffix, object.GetStringOr("input_suffix", ""));
  PENSTOCK_ASSIGN_OR_RETURN(fill.begun, object.GetStringOr("prompt", ""));
  if (fill.prefix.empty() && fill.suffix.empty()) {
    return Status::InvalidArgument("'input_prefix' and 'input_suffix' are both empty",
                                   "input_prefix");
  }
  if (object.Has("input_extra")) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonArray files,
                              object.GetArray("input_extra", kExtraFilesMax));
    size_t index = 0;
    for (const JsonElement file : files) {
      const std::string path = "input_extra[" + std::to_string(index++) + "]";
      JsonObject members;
      if (!file.Get(&members)) {
        return Status::InvalidArgument("'" + path + "' must be an object", path);
      }
      const JsonObject named(members, path);
      api::FillPrompt::File added;
      PENSTOCK_ASSIGN_OR_RETURN(added.name, named.GetStringOr("filename", ""));
      PENSTOCK_ASSIGN_OR_RETURN(added.text, named.GetString("text"));
      fill.files.push_back(std::move(added));
    }
  }
  api::GeneratePrompt prompt;
  prompt.value = std::move(fill);
  prompt.field = "input_prefix";
  request->prompts.push_back(std::move(prompt));
  return Status::Ok();
}

const char* StopType(generate::FinishReason reason, int stop_string) {
  if (reason == generate::FinishReason::kLength || reason == generate::FinishReason::kContext)
    return "limit";
  return stop_string >= 0 ? "word" : "eos";
}

double Ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"; the same of "predicted".
void WriteTimes(const std::string& name, int64_t tokens, std::chrono::nanoseconds time,
                JsonWriter* json) {
  const double ms = Ms(time);
  const auto count = static_cast<double>(tokens);
  json->Field(name + "_n", tokens).Field(name + "_ms", ms);
  json->Field(name + "_per_token_ms", tokens > 0 ? ms / count : 0.0);
  json->Field(name + "_per_second", ms > 0 ? count / ms * 1000 : 0.0);
}

class LlamaPrinter final : public TextPrinter {
 public:
  explicit LlamaPrinter(const LlamaCall& call)
      : tokens_(call.tokens),
        probabilities_(call.probabilities),
        stop_(call.request.sampling.options.stop),
        model_(call.request.model) {}

  std::string Whole(const GeneratedAnswer& answer) override {
    const GeneratedChoice none;
    const GeneratedChoice& choice = answer.choices.empty() ? none : answer.choices[0];
    model_ = answer.model;
    if (!answer.prompts.empty()) prompt_ = answer.prompts[0];
    has_line_ = choice.content.find('\n') != std::string::npos;
    std::string out;
    JsonWriter json(&out);
    WritePart(choice.content, choice.tokens, &json);
    WriteEnd({0, choice.reason, 0, choice.stop_string, choice.token_count, {}}, answer.usage,
             answer.times, &json);
    return out;
  }

  void Begin(const api::GenerateBegun& begun, std::string* out) override {
    (void)out;
    model_ = begun.model;
    if (!begun.prompts.empty()) prompt_ = begun.prompts[0];
  }

  void Part(const api::GeneratedPart& part, std::string* out) override {
    Event(part.deltas, part.token ? std::span(&*part.token, 1) : std::span<const api::TokenInfo>(),
          out);
  }

  void End(const api::ChoiceEnd& end, std::string* out) override {
    end_ = end;
    end_.deltas.clear();
    if (!end.deltas.empty()) Event(end.deltas, {}, out);
  }

  void Finish(const api::GenerateEnd& end, std::string* out) override {
    std::string data;
    JsonWriter json(&data);
    WritePart("", {}, &json);
    WriteEnd(end_, end.usage, end.times, &json);
    http::AppendEvent("", data, out);
  }

 private:
  void Event(const std::vector<reply::ReplyDelta>& deltas, std::span<const api::TokenInfo> tokens,
             std::string* out) {
    std::string text;
    for (const reply::ReplyDelta& delta : deltas) text += delta.text;
    if (text.empty() && tokens.empty()) return;
    has_line_ = has_line_ || text.find('\n') != std::string::npos;
    std::string data;
    JsonWriter json(&data);
    WritePart(text, tokens, &json);
    json.Field("stop", false).EndObject();
    http::AppendEvent("", data, out);
  }

  // Leaves the object open.
  void WritePart(const std::string& text, std::span<const api::TokenInfo> tokens,
                 JsonWriter* json) const {
    json->BeginObject().Field("index", 0).Field("content", text).Key("tokens").BeginArray();
    if (tokens_) {
      for (const api::TokenInfo& token : tokens) json->Int(token.id);
    }
    json->EndArray();
    if (!probabilities_ || tokens.empty()) return;
    json->Key("completion_probabilities").BeginArray();
    for (const api::TokenInfo& token : tokens) WriteTokenInfo(token, json);
    json->EndArray();
  }

  // Closes the object.
  void WriteEnd(const api::ChoiceEnd& end, const api::GenerateUsage& usage,
                const api::GenerateTimes& times, JsonWriter* json) const {
    const auto stop = static_cast<size_t>(end.stop_string);
    json->Field("stop", true).Field("model", model_).Field("prompt", prompt_);
    json->Field("tokens_predicted", usage.completion_tokens);
    json->Field("tokens_evaluated", usage.prompt_tokens);
    json->Field("tokens_cached", usage.cached_tokens).Field("has_new_line", has_line_);
    json->Field("truncated", false).Field("stop_type", StopType(end.reason, end.stop_string));
    json->Field("stopping_word", end.stop_string >= 0 && stop < stop_.size() ? stop_[stop] : "");
    json->Key("timings").BeginObject().Field("cache_n", usage.cached_tokens);
    WriteTimes("prompt", usage.prompt_tokens - usage.cached_tokens, times.prompt, json);
    WriteTimes("predicted", usage.completion_tokens, times.decode, json);
    json->EndObject().EndObject();
  }

  const bool tokens_;
  const bool probabilities_;
  const std::vector<std::string> stop_;
  std::string model_;
  std::string prompt_;
  bool has_line_ = false;  // the text so far
  api::ChoiceEnd end_;
};

}  // namespace

namespace {

// `prompt`: which the call has.
Expected<LlamaCall> ParseLlamaCall(const JsonObject& object, api::TextRequest prompt) {
  LlamaCall call;
  call.request = std::move(prompt);
  api::TextRequest& request = call.request;
  api::SamplingRequest& sampling = request.sampling;
  sample::SamplingOptions& options = sampling.options;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kLlamaRefused));
  std::optional<float> typical;
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "typical_p", &typical));
  if (typical.value_or(1) != 1) {
    return Status::InvalidArgument("'typical_p' is not supported, unless it is 1", "typical_p");
  }
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(request.grammar, ReadGrammar(object));
  PENSTOCK_ASSIGN_OR_RETURN(call.stream, object.GetBoolOr("stream", false));
  request.streams = call.stream;
  request.echoes_prompt = true;  // the answer has it in a field
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, &sampling));
  PENSTOCK_RETURN_IF_ERROR(
      ParseOptionalNumber(object, "repeat_penalty", &sampling.repetition_penalty));
  PENSTOCK_ASSIGN_OR_RETURN(const auto window,
                            GetOptionalInt(object, "repeat_last_n", -1, INT32_MAX));
  options.repetition_window = window.value_or(-1);
  const bool drawn =
      options.seed && (static_cast<int64_t>(*options.seed) < 0 || *options.seed == kNoSeed);
  if (drawn) options.seed.reset();
  PENSTOCK_ASSIGN_OR_RETURN(const auto most,
                            GetOptionalInt(object, "n_predict", INT32_MIN, INT32_MAX));
  if (most.value_or(-1) > 0) request.max_tokens_default = most;
  request.prompt_only = most == 0;
  PENSTOCK_ASSIGN_OR_RETURN(const auto top,
                            GetOptionalInt(object, "n_probs", 0, sample::kTopLogprobsMax));
  PENSTOCK_ASSIGN_OR_RETURN(call.tokens, object.GetBoolOr("return_tokens", false));
  call.probabilities = top.value_or(0) > 0;
  options.logprobs = call.tokens || call.probabilities;  // parts have their tokens then
  options.top_logprobs = top.value_or(0);
  call.names = {{"max_tokens", "n_predict"},
                {"repetition_penalty", "repeat_penalty"},
                {"repetition_window", "repeat_last_n"},
                {"top_logprobs", "n_probs"}};
  PENSTOCK_RETURN_IF_ERROR(frontend::WithWireNames(CheckSampling(sampling), call.names));
  return call;
}

}  // namespace

Expected<LlamaCall> ParseLlamaCompletion(const JsonObject& object,
                                         const api::ServiceOptions& limits) {
  api::TextRequest prompt;
  PENSTOCK_RETURN_IF_ERROR(ParsePrompt(object, limits, &prompt));
  return ParseLlamaCall(object, std::move(prompt));
}

Expected<LlamaCall> ParseLlamaInfill(const JsonObject& object) {
  api::TextRequest prompt;
  PENSTOCK_RETURN_IF_ERROR(ParseFill(object, &prompt));
  auto call = ParseLlamaCall(object, std::move(prompt));
  if (call.ok()) call->names.emplace_back("suffix", "input_suffix");
  return call;
}

std::unique_ptr<TextPrinter> NewLlamaPrinter(const LlamaCall& call) {
  return std::make_unique<LlamaPrinter>(call);
}

Expected<api::TokenizeRequest> ParseLlamaTokenize(const JsonObject& object) {
  api::TokenizeRequest request;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kTokenizeRefused));
  PENSTOCK_ASSIGN_OR_RETURN(const bool special, object.GetBoolOr("parse_special", true));
  if (!special) {
    return Status::InvalidArgument("'parse_special' is not supported, unless it is true",
                                   "parse_special");
  }
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(std::string content, object.GetString("content"));
  request.inputs.push_back(std::move(content));
  PENSTOCK_ASSIGN_OR_RETURN(request.add_special_tokens, object.GetBoolOr("add_special", false));
  return request;
}

std::string PrintLlamaTokens(const api::TokenizeResponse& response) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("tokens").BeginArray();
  for (const auto& token : response.inputs.at(0)) json.Int(token.id);
  json.EndArray().EndObject();
  return out;
}

Expected<api::DecodeRequest> ParseDetokenize(const JsonObject& object,
                                             const api::ServiceOptions& limits) {
  api::DecodeRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto tokens, object.GetArray("tokens"));
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ParseIds(tokens, "tokens", limits));
  request.inputs.push_back(std::move(ids));
  request.skip_special_tokens = false;
  return request;
}

std::string PrintDetokenized(const api::DecodeResponse& response) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("content", response.texts.at(0));
  json.Field("prompt", response.texts.at(0)).EndObject();
  return out;
}

std::string PrintLlamaProps(const api::ModelInfo& model) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("default_generation_settings").BeginObject();
  json.Field("n_ctx", model.context).EndObject();
  json.Field("total_slots", model.sequences_max).Field("model_alias", model.name);
  json.Field("model_path", model.name).Key("modalities").BeginObject();
  json.Field("vision", false).Field("audio", false).EndObject();
  json.Field("chat_template", model.chat_template);
  json.Field("build_info", "penstock " PENSTOCK_VERSION).EndObject();
  return out;
}

std::string PrintLlamaSlots(const api::ModelInfo& model, int32_t running) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (int32_t slot = 0; slot < model.sequences_max; ++slot) {
    json.BeginObject().Field("id", slot).Field("n_ctx", model.context);
    json.Field("speculative", false).Field("is_processing", slot < running).EndObject();
  }
  json.EndArray();
  return out;
}

}  // namespace penstock::dialects
