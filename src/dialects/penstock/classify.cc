#include "dialects/penstock/classify.h"

#include "dialects/shared/fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr RefusedField kClassifyRefused[] = {
    {"labels", "a classifier has labels of its own, and none is trained to take others"},
    {"classifier_id", "no classifier is trained here"},
    {"examples", "no classifier is trained here; the model's own labels are used"},
    {"preset", ""},
};

Status ParseOne(JsonElement item, const std::string& path,
                std::vector<api::ClassifyInput>* inputs) {
  std::string_view text;
  if (item.Get(&text)) {
    inputs->push_back({std::string(text), std::nullopt});
    return Status::Ok();
  }
  JsonArray pair;
  std::string_view second;
  if (!item.Get(&pair) || pair.size() != 2 || !pair[0].Get(&text) || !pair[1].Get(&second)) {
    return Status::InvalidArgument("'" + path + "' must be a string or a pair of strings", path);
  }
  inputs->push_back({std::string(text), std::string(second)});
  return Status::Ok();
}

const std::string& NameOf(const api::ClassifyResponse& response,
                          const api::ClassifyResponse::Label& label) {
  return response.labels.at(static_cast<size_t>(label.id));
}

void WriteInput(const api::ClassifyResponse& response, size_t index, JsonWriter* json) {
  const auto& labels = response.inputs[index];
  json->BeginObject().Field("object", "classification").Field("index", index);
  if (!labels.empty()) {
    json->Field("label", NameOf(response, labels[0]))
        .Field("prediction", NameOf(response, labels[0]));
    json->Field("score", labels[0].score);
  }
  std::vector<float> by_id(labels.size());
  for (const auto& label : labels) by_id.at(static_cast<size_t>(label.id)) = label.score;
  json->Field("num_classes", labels.size()).Key("probs").Floats(by_id);
  json->Key("predictions").BeginArray();
  for (const auto& label : labels) {
    json->BeginObject()
        .Field("label", NameOf(response, label))
        .Field("score", label.score)
        .EndObject();
  }
  json->EndArray().EndObject();
}

// Cohere's.
void WriteClassification(const api::ClassifyResponse& response, size_t index, std::string_view id,
                         const std::string& text, JsonWriter* json) {
  const auto& labels = response.inputs[index];
  json->BeginObject().Field("id", std::string(id) + "-" + std::to_string(index));
  json->Field("input", text);
  if (!labels.empty()) {
    json->Field("prediction", NameOf(response, labels[0])).Field("confidence", labels[0].score);
    json->Key("predictions").BeginArray().String(NameOf(response, labels[0])).EndArray();
    json->Key("confidences").BeginArray().Float(labels[0].score).EndArray();
  }
  json->Key("labels").BeginObject();
  for (const auto& label : labels) {
    json->Key(NameOf(response, label)).BeginObject().Field("confidence", label.score).EndObject();
  }
  json->EndObject().Field("classification_type", "single-label").EndObject();
}

}  // namespace

Expected<ClassifyCall> ParseClassifyCall(std::string_view body, const api::ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kClassifyRefused));
  ClassifyCall call;
  api::ClassifyRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  call.cohere = !object.Has("input") && object.Has("inputs");
  const std::string key = call.cohere ? "inputs" : "input";
  const auto value = object.Find(key);
  if (!value) return Status::InvalidArgument("'input' is missing", "input");
  JsonArray items;
  if (value->is_string()) {
    PENSTOCK_RETURN_IF_ERROR(ParseOne(*value, key, &request.inputs));
  } else if (value->Get(&items)) {
    PENSTOCK_RETURN_IF_ERROR(CheckEntries(items, key, limits));
    for (const JsonElement item : items) {
      const std::string path = key + "[" + std::to_string(request.inputs.size()) + "]";
      PENSTOCK_RETURN_IF_ERROR(ParseOne(item, path, &request.inputs));
    }
  } else {
    return Status::InvalidArgument(
        "'" + key + "' must be a string or an array of strings, is " + JsonTypeName(*value), key);
  }
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_ASSIGN_OR_RETURN(request.raw_scores, object.GetBoolOr("raw_scores", false));
  return call;
}

std::string PrintClassify(const api::ClassifyResponse& response, std::string_view id,
                          int64_t created_unix_s, const std::vector<std::string>* texts) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("id", id).Field("object", "list");
  json.Field("created", created_unix_s).Field("model", response.model);
  json.Key("data").BeginArray();
  for (size_t i = 0; i < response.inputs.size(); ++i) WriteInput(response, i, &json);
  json.EndArray();
  if (texts != nullptr) {
    json.Key("classifications").BeginArray();
    for (size_t i = 0; i < response.inputs.size(); ++i) {
      WriteClassification(response, i, id, texts->at(i), &json);
    }
    json.EndArray();
  }
  json.Key("usage").BeginObject();
  json.Field("prompt_tokens", response.usage.prompt_tokens);
  json.Field("total_tokens", response.usage.prompt_tokens).EndObject();
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

}  // namespace penstock::dialects
