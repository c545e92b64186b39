#include "dialects/vllm/vllm.h"

#include <fmt/format.h>

#include <utility>

#include "dialects/shared/fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr RefusedField kScoreRefused[] = {
    {"instruction", ""},
    {"chat_template", "the model's own is used"},
    {"mm_processor_kwargs", "the models here read text"},
};
constexpr RefusedField kTokenizeRefused[] = {
    {"messages", "/apply-template makes their text, which can be the prompt"},
};

constexpr RefusedField kPoolingRefused[] = {
    {"messages", "/apply-template makes their text, which can be the input"},
};

Status NotOneOf(const char* field, std::string_view choices, const std::string& is) {
  return Status::InvalidArgument("'" + std::string(field) + "' must be one of " +
                                     std::string(choices) + ", is \"" + is.substr(0, 40) + "\"",
                                 field);
}

// The names of the two sides.
constexpr std::pair<const char*, const char*> kSides[] = {
    {"text_1", "text_2"}, {"queries", "documents"}, {"data_1", "data_2"}};

// A text, or a list of texts with at least one.
Expected<std::vector<std::string>> TextOrTexts(const JsonObject& object, const char* name,
                                               const api::ServiceOptions& limits) {
  const auto value = object.Find(name);
  if (value && !value->is_string()) return ParseStrings(object, name, limits);
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, object.GetString(name));
  return std::vector<std::string>{std::move(text)};
}

void WriteHead(std::string_view model, std::string_view id, int64_t created_unix_s,
               JsonWriter* json) {
  json->BeginObject().Field("id", id).Field("object", "list");
  json->Field("created", created_unix_s).Field("model", model).Key("data").BeginArray();
}

// Closes the array and the object.
void WriteEnd(const encode::Usage& usage, const encode::Truncation& truncation, JsonWriter* json) {
  json->EndArray().Key("usage").BeginObject().Field("prompt_tokens", usage.prompt_tokens);
  json->Field("total_tokens", usage.prompt_tokens).Field("completion_tokens", 0);
  json->Key("prompt_tokens_details").Null().EndObject();
  WriteTruncation(truncation, json);
  json->EndObject();
}

void BeginItem(size_t index, JsonWriter* json) {
  json->BeginObject().Field("index", index).Field("object", "pooling").Key("data");
}

}  // namespace

Expected<ScoreCall> ParseScore(const JsonObject& object, const api::ServiceOptions& limits) {
  ScoreCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kScoreRefused));
  PENSTOCK_ASSIGN_OR_RETURN(call.model, GetName(object, "model"));
  auto sides = kSides[0];
  for (const auto& each : kSides) {
    if (object.Has(each.first)) sides = each;
  }
  const auto& [first, second] = sides;
  PENSTOCK_ASSIGN_OR_RETURN(call.firsts, TextOrTexts(object, first, limits));
  PENSTOCK_ASSIGN_OR_RETURN(call.seconds, TextOrTexts(object, second, limits));
  if (call.firsts.size() != 1 && call.firsts.size() != call.seconds.size()) {
    return Status::InvalidArgument(
        fmt::format("'{}' has {} texts and '{}' {}; one text for all of them, or one for each",
                    first, call.firsts.size(), second, call.seconds.size()),
        first);
  }
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &call.text));
  PENSTOCK_ASSIGN_OR_RETURN(call.raw_scores, GetOptionalBool(object, "raw_scores"));
  call.names = {{"query", first},  {"queries", first}, {"documents", second},
                {"source", first}, {"sources", first}, {"sentences", second}};
  return call;
}

api::RerankRequest ScoreCall::ToRerank() && {
  api::RerankRequest request;
  request.model = std::move(model);
  request.documents = std::move(seconds);
  request.text = std::move(text);
  request.raw_scores = raw_scores;
  if (firsts.size() == 1) {
    request.query = std::move(firsts[0]);
  } else {
    request.queries = std::move(firsts);
  }
  return request;
}

api::SimilarityRequest ScoreCall::ToSimilarity() && {
  api::SimilarityRequest request;
  request.model = std::move(model);
  request.sentences = std::move(seconds);
  request.text = std::move(text);
  if (firsts.size() == 1) {
    request.source = std::move(firsts[0]);
  } else {
    request.sources = std::move(firsts);
  }
  return request;
}

std::string PrintScores(const Scores& scores, std::string_view id, int64_t created_unix_s) {
  std::string out;
  JsonWriter json(&out);
  WriteHead(scores.model, id, created_unix_s, &json);
  for (size_t i = 0; i < scores.scores.size(); ++i) {
    json.BeginObject().Field("index", i).Field("object", "score");
    json.Field("score", scores.scores[i]).EndObject();
  }
  WriteEnd(scores.usage, scores.truncation, &json);
  return out;
}

Expected<PoolingCall> ParsePooling(const JsonObject& object, const api::ServiceOptions& limits) {
  PoolingCall call;
  api::EmbedRequest& request = call.request;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kPoolingRefused));
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  bool single = false;
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "input", limits, &request.inputs, &single, true));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_ASSIGN_OR_RETURN(request.dimensions, GetOptionalInt(object, "dimensions", 1, 1 << 20));
  PENSTOCK_ASSIGN_OR_RETURN(request.normalize, GetOptionalBool(object, "normalize"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string task, GetName(object, "task"));
  if (task == "embed") {
    call.task = PoolingTask::kEmbed;
  } else if (task == "token_embed") {
    call.task = PoolingTask::kTokenEmbed;
  } else if (task == "classify") {
    call.task = PoolingTask::kClassify;
  } else if (!task.empty()) {
    return NotOneOf("task", "\"embed\", \"token_embed\", \"classify\"", task);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string format, GetName(object, "encoding_format"));
  if (!format.empty() && format != "float" && format != "base64") {
    return NotOneOf("encoding_format", "\"float\", \"base64\"", format);
  }
  call.base64 = format == "base64";
  return call;
}

PoolingTask PoolingTaskOf(std::string_view model_task) {
  const bool scores = model_task == "classification" || model_task == "reranking";
  return scores ? PoolingTask::kClassify : PoolingTask::kEmbed;
}

Expected<api::ClassifyRequest> ToClassify(api::EmbedRequest request) {
  api::ClassifyRequest classify;
  classify.model = std::move(request.model);
  classify.text = std::move(request.text);
  for (api::Input& input : request.inputs) {
    if (input.is_ids) {
      return Status::InvalidArgument("'input' must hold texts where labels are asked for", "input");
    }
    classify.inputs.push_back({std::move(input.text), std::nullopt});
  }
  return classify;
}

std::string PrintPooled(const api::EmbedResponse& response, std::string_view id,
                        int64_t created_unix_s, bool base64) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  JsonWriter json(&out);
  WriteHead(response.model, id, created_unix_s, &json);
  for (size_t at = 0; at < response.values.size(); at += dimensions) {
    const auto row = std::span(response.values).subspan(at, dimensions);
    BeginItem(at / dimensions, &json);
    if (base64) {
      std::string text;
      AppendBase64(row, &text);
      json.String(text);
    } else {
      json.Floats(row);
    }
    json.EndObject();
  }
  WriteEnd(response.usage, response.truncation, &json);
  return out;
}

std::string PrintPooled(const api::EmbedAllResponse& response, std::string_view id,
                        int64_t created_unix_s) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  JsonWriter json(&out);
  WriteHead(response.model, id, created_unix_s, &json);
  size_t at = 0;
  for (size_t i = 0; i < response.token_counts.size(); ++i) {
    BeginItem(i, &json);
    json.BeginArray();
    for (int32_t token = 0; token < response.token_counts[i]; ++token, at += dimensions) {
      json.Floats(std::span(response.values).subspan(at, dimensions));
    }
    json.EndArray().EndObject();
  }
  WriteEnd(response.usage, response.truncation, &json);
  return out;
}

std::string PrintPooled(const api::ClassifyResponse& response, std::string_view id,
                        int64_t created_unix_s) {
  std::string out;
  JsonWriter json(&out);
  WriteHead(response.model, id, created_unix_s, &json);
  for (size_t i = 0; i < response.inputs.size(); ++i) {
    std::vector<float> by_id(response.inputs[i].size());
    for (const auto& label : response.inputs[i]) {
      by_id.at(static_cast<size_t>(label.id)) = label.score;
    }
    BeginItem(i, &json);
    json.Floats(by_id).EndObject();
  }
  WriteEnd(response.usage, response.truncation, &json);
  return out;
}

Expected<VllmTokenizeCall> ParseVllmTokenize(const JsonObject& object) {
  VllmTokenizeCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kTokenizeRefused));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(std::string prompt, object.GetString("prompt"));
  call.request.inputs.push_back(std::move(prompt));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.add_special_tokens,
                            object.GetBoolOr("add_special_tokens", true));
  PENSTOCK_ASSIGN_OR_RETURN(call.texts, object.GetBoolOr("return_token_strs", false));
  return call;
}

std::string PrintVllmTokens(const api::TokenizeResponse& response, int32_t tokens_max, bool texts) {
  const auto& tokens = response.inputs.at(0);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("count", tokens.size()).Field("max_model_len", tokens_max);
  json.Key("tokens").BeginArray();
  for (const auto& token : tokens) json.Int(token.id);
  json.EndArray().Key("token_strs");
  if (texts) {
    json.BeginArray();
    for (const auto& token : tokens) json.String(token.text);
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return out;
}

}  // namespace penstock::dialects
