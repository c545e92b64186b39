#include "dialects/tei/tei.h"

#include "api/tei_rules.h"
#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

// ["a"] or ["a", "b"].
Expected<api::ClassifyInput> ParseTexts(JsonArray texts, const std::string& path) {
  std::vector<std::string> strings;
  for (const JsonElement item : texts) {
    std::string_view text;
    // Refused as none; one text over a pair is enough to refuse it for their number.
    if (!item.Get(&text)) return api::TeiPredictInput({}, path);
    strings.emplace_back(text);
    if (strings.size() > 2) break;
  }
  return api::TeiPredictInput(std::move(strings), path);
}

Status ParsePredictInputs(const JsonObject& object, const api::ServiceOptions& limits,
                          TeiPredictCall* call) {
  std::vector<api::ClassifyInput>& inputs = call->request.inputs;
  const auto value = object.Find("inputs");
  if (!value) return Status::InvalidArgument("'inputs' is missing", "inputs");
  std::string_view text;
  JsonArray items;
  if (value->Get(&text)) {
    call->single = true;
    inputs.push_back({std::string(text), std::nullopt});
    return Status::Ok();
  }
  if (!value->Get(&items)) {
    return Status::InvalidArgument(
        "'inputs' must be a string, a pair of strings, or an array of "
        "such pairs, is " +
            std::string(JsonTypeName(*value)),
        "inputs");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckEntries(items, "inputs", limits));
  bool nested = false;
  for (const JsonElement item : items) nested = nested || item.is_array();
  if (!nested && items.begin() != items.end()) {
    auto pair = ParseTexts(items, "inputs");
    if (!pair.ok()) {
      return Status::InvalidArgument(
          "'inputs' must be a string, a pair of strings, or an array of "
          "arrays of one or two strings",
          "inputs");
    }
    call->single = true;
    inputs.push_back(*std::move(pair));
    return Status::Ok();
  }
  for (const JsonElement item : items) {
    const std::string path = "inputs[" + std::to_string(inputs.size()) + "]";
    JsonArray texts;
    if (item.Get(&text)) {
      inputs.push_back({std::string(text), std::nullopt});
    } else if (item.Get(&texts)) {
      PENSTOCK_ASSIGN_OR_RETURN(api::ClassifyInput input, ParseTexts(texts, path));
      inputs.push_back(std::move(input));
    } else {
      return api::TeiPredictInput({}, path).status();
    }
  }
  return Status::Ok();
}

void WriteLabels(const api::ClassifyResponse& response, size_t input, JsonWriter* json) {
  json->BeginArray();
  for (const auto& label : response.inputs[input]) {
    json->BeginObject().Field("score", label.score);
    json->Field("label", response.labels.at(static_cast<size_t>(label.id))).EndObject();
  }
  json->EndArray();
}

void WriteModelType(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("model_type").BeginObject();
  if (model.task == "embedding") {
    json->Key("embedding").BeginObject().Field("pooling", model.pooling).EndObject();
  } else if (model.task == api::kGenerationTask) {
    json->Key("generation").BeginObject().Field("context_length", model.context).EndObject();
  } else if (model.task == api::kTensorTask) {
    json->Key("tensors").BeginObject().Field("platform", model.platform).EndObject();
  } else {
    json->Key(model.task == "reranking" ? "reranker" : "classifier").BeginObject();
    json->Key("id2label").BeginObject();
    for (size_t i = 0; i < model.labels.size(); ++i) {
      json->Field(std::to_string(i), model.labels[i]);
    }
    json->EndObject().Key("label2id").BeginObject();
    for (size_t i = 0; i < model.labels.size(); ++i) json->Field(model.labels[i], i);
    json->EndObject().EndObject();
  }
  json->EndObject();
}

}  // namespace

Expected<api::EmbedRequest> ParseTeiEmbed(const JsonObject& object,
                                          const api::ServiceOptions& limits) {
  api::EmbedRequest request;
  bool single = false;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "inputs", limits, &request.inputs, &single));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_ASSIGN_OR_RETURN(request.normalize, GetOptionalBool(object, "normalize"));
  PENSTOCK_ASSIGN_OR_RETURN(request.dimensions, GetOptionalInt(object, "dimensions", 1, 1 << 20));
  return request;
}

std::string PrintTeiEmbed(const api::EmbedResponse& response) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  out.reserve(64 + response.values.size() * 13);
  JsonWriter json(&out);
  json.BeginArray();
  for (size_t at = 0; at < response.values.size(); at += dimensions) {
    json.Floats({response.values.data() + at, dimensions});
  }
  json.EndArray();
  return out;
}

std::string PrintTeiEmbedAll(const api::EmbedAllResponse& response) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  std::string out;
  out.reserve(64 + response.values.size() * 13);
  JsonWriter json(&out);
  json.BeginArray();
  size_t at = 0;
  for (const int32_t tokens : response.token_counts) {
    json.BeginArray();
    for (int32_t i = 0; i < tokens; ++i, at += dimensions) {
      json.Floats({response.values.data() + at, dimensions});
    }
    json.EndArray();
  }
  json.EndArray();
  return out;
}

Expected<TeiRerankCall> ParseTeiRerank(const JsonObject& object,
                                       const api::ServiceOptions& limits) {
  TeiRerankCall call;
  PENSTOCK_ASSIGN_OR_RETURN(call.request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.query, object.GetString("query"));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.documents, ParseStrings(object, "texts", limits));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &call.request.text));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.raw_scores, GetOptionalBool(object, "raw_scores"));
  PENSTOCK_ASSIGN_OR_RETURN(call.return_text, object.GetBoolOr("return_text", false));
  return call;
}

std::string PrintTeiRerank(const api::RerankResponse& response,
                           const std::vector<std::string>* texts) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const auto& item : response.items) {
    json.BeginObject().Field("index", item.index);
    if (texts != nullptr) json.Field("text", texts->at(static_cast<size_t>(item.index)));
    json.Field("score", item.score).EndObject();
  }
  json.EndArray();
  return out;
}

Expected<TeiPredictCall> ParseTeiPredict(const JsonObject& object,
                                         const api::ServiceOptions& limits) {
  TeiPredictCall call;
  PENSTOCK_ASSIGN_OR_RETURN(call.request.model, GetName(object, "model"));
  PENSTOCK_RETURN_IF_ERROR(ParsePredictInputs(object, limits, &call));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &call.request.text));
  PENSTOCK_ASSIGN_OR_RETURN(call.request.raw_scores, object.GetBoolOr("raw_scores", false));
  return call;
}

std::string PrintTeiPredict(const api::ClassifyResponse& response, bool single) {
  std::string out;
  JsonWriter json(&out);
  if (single && response.inputs.size() == 1) {
    WriteLabels(response, 0, &json);
    return out;
  }
  json.BeginArray();
  for (size_t i = 0; i < response.inputs.size(); ++i) WriteLabels(response, i, &json);
  json.EndArray();
  return out;
}

Expected<api::SimilarityRequest> ParseTeiSimilarity(const JsonObject& object,
                                                    const api::ServiceOptions& limits) {
  api::SimilarityRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject inputs, object.GetObject("inputs"));
  PENSTOCK_ASSIGN_OR_RETURN(request.source, inputs.GetString("source_sentence"));
  PENSTOCK_ASSIGN_OR_RETURN(request.sentences, ParseStrings(inputs, "sentences", limits));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject parameters, object.GetObjectOrEmpty("parameters"));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(parameters, &request.text));
  return request;
}

std::string PrintTeiSimilarity(const api::SimilarityResponse& response) {
  std::string out;
  JsonWriter(&out).Floats(response.scores);
  return out;
}

Expected<api::TokenizeRequest> ParseTeiTokenize(const JsonObject& object,
                                                const api::ServiceOptions& limits) {
  api::TokenizeRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  if (const auto inputs = object.Find("inputs"); inputs && inputs->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string text, object.GetString("inputs"));
    request.inputs.push_back(std::move(text));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(request.inputs, ParseStrings(object, "inputs", limits));
  }
  PENSTOCK_ASSIGN_OR_RETURN(request.add_special_tokens,
                            object.GetBoolOr("add_special_tokens", true));
  if (object.Has("prompt_name")) {
    PENSTOCK_ASSIGN_OR_RETURN(request.prompt_name, GetName(object, "prompt_name"));
  }
  return request;
}

std::string PrintTeiTokenize(const api::TokenizeResponse& response) {
  size_t tokens = 0;
  for (const auto& input : response.inputs) tokens += input.size();
  std::string out;
  out.reserve(64 + tokens * 72);
  JsonWriter json(&out);
  json.BeginArray();
  for (const auto& input : response.inputs) {
    json.BeginArray();
    for (const auto& token : input) {
      json.BeginObject().Field("id", token.id).Field("text", token.text);
      json.Field("special", token.special);
      if (const auto place = api::TeiPlace(token)) {
        json.Field("start", place->begin).Field("stop", place->end);
      } else {
        json.Key("start").Null().Key("stop").Null();
      }
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndArray();
  return out;
}

Expected<api::DecodeRequest> ParseTeiDecode(const JsonObject& object,
                                            const api::ServiceOptions& limits) {
  api::DecodeRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray ids, object.GetArray("ids"));
  if (ids.begin() != ids.end() && (*ids.begin()).is_array()) {
    PENSTOCK_RETURN_IF_ERROR(CheckEntries(ids, "ids", limits));
    for (const JsonElement item : ids) {
      const std::string path = "ids[" + std::to_string(request.inputs.size()) + "]";
      JsonArray row;
      if (!item.Get(&row)) {
        return Status::InvalidArgument(
            "'" + path + "' must be an array of token ids, is " + JsonTypeName(item), path);
      }
      PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> parsed_row, ParseIds(row, path, limits));
      request.inputs.push_back(std::move(parsed_row));
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> row, ParseIds(ids, "ids", limits));
    request.inputs.push_back(std::move(row));
  }
  PENSTOCK_ASSIGN_OR_RETURN(request.skip_special_tokens,
                            object.GetBoolOr("skip_special_tokens", true));
  return request;
}

std::string PrintTeiDecode(const api::DecodeResponse& response) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const std::string& text : response.texts) json.String(text);
  json.EndArray();
  return out;
}

std::string PrintTeiInfo(const api::ModelInfo& model, const std::vector<api::ModelInfo>& models,
                         const api::ServiceOptions& limits) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("model_id", model.name).Key("model_sha");
  if (model.revision.empty()) {
    json.Null();
  } else {
    json.String(model.revision);
  }
  json.Field("model_dtype", model.dtype);
  WriteModelType(model, &json);
  json.Field("max_concurrent_requests", limits.concurrent_requests);
  json.Field("max_input_length", model.max_tokens);
  json.Field("max_batch_tokens", model.max_batch_tokens);
  json.Field("max_client_batch_size", limits.inputs_per_request);
  json.Field("auto_truncate", limits.auto_truncate);
  json.Field("tokenization_workers", limits.tokenization_workers);
  json.Field("version", PENSTOCK_VERSION).Key("sha").Null().Key("docker_label").Null();
  json.Field("server", "penstock").Field("backend", model.backend);
  json.Field("architecture", model.architecture).Field("dimensions", model.dimensions);
  if (!model.int8_keep.empty()) json.Field("int8_keep", model.int8_keep);
  json.Key("models").BeginArray();
  for (const api::ModelInfo& each : models) {
    json.BeginObject().Field("id", each.name);
    WriteModelFacts(each, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

TeiRootTask ChooseTeiRootTask(const JsonObject& object, std::string_view model_task) {
  if (model_task == "embedding") {
    const auto inputs = object.Find("inputs");
    return inputs && inputs->is_object() ? TeiRootTask::kSimilarity : TeiRootTask::kEmbed;
  }
  const bool rerank = model_task == "reranking" && !object.Has("inputs");
  return rerank ? TeiRootTask::kRerank : TeiRootTask::kPredict;
}

}  // namespace penstock::dialects
