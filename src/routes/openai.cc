#include "routes/openai.h"

#include "routes/fields.h"

namespace penstock {
namespace {

// encoding_format, or Jina's embedding_type for the same.
Expected<bool> WantsBase64(const JsonObject& object) {
  for (const std::string_view key : {"encoding_format", "embedding_type"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string format, GetName(object, key));
    if (format == "base64") return true;
    if (!format.empty() && format != "float") {
      return Status::InvalidArgument(
          "'" + std::string(key) + "' must be \"float\" or \"base64\", is \"" + format + "\"",
          std::string(key));
    }
  }
  return false;
}

void WriteModel(const ModelInfo& model, JsonWriter* json) {
  json->BeginObject().Field("id", model.name).Field("object", "model");
  json->Field("created", model.created_unix_s).Field("owned_by", "penstock");
  WriteModelFacts(model, json);
  json->EndObject();
}

}  // namespace

Expected<EmbeddingsCall> ParseEmbeddingsCall(std::string_view body, const ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  EmbeddingsCall call;
  EmbedRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  bool single = false;
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "input", limits, &request.inputs, &single));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_ASSIGN_OR_RETURN(request.dimensions, GetOptionalInt(object, "dimensions", 1, 1 << 20));
  PENSTOCK_ASSIGN_OR_RETURN(request.normalize, GetOptionalBool(object, "normalize"));
  PENSTOCK_ASSIGN_OR_RETURN(call.base64, WantsBase64(object));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string task, GetName(object, "task"));
  if (request.text.input_type == InputType::kUnset) {  // Jina's name for the same choice
    if (task == "retrieval.query") request.text.input_type = InputType::kQuery;
    if (task == "retrieval.passage") request.text.input_type = InputType::kDocument;
  }
  return call;
}

std::string PrintEmbeddings(const EmbedResponse& response, bool base64) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  const size_t count = dimensions == 0 ? 0 : response.values.size() / dimensions;
  std::string out;
  out.reserve(256 + count * 64 + response.values.size() * (base64 ? 6 : 13));
  JsonWriter json(&out);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (size_t i = 0; i < count; ++i) {
    const std::span<const float> row(response.values.data() + i * dimensions, dimensions);
    json.BeginObject().Field("object", "embedding").Field("index", i).Key("embedding");
    if (base64) {
      json.Raw("\"");  // then the text, which needs no escapes
      AppendBase64(row, &out);
      out += '"';
    } else {
      json.Floats(row);
    }
    json.EndObject();
  }
  json.EndArray().Field("model", response.model).Key("usage").BeginObject();
  json.Field("prompt_tokens", response.usage.prompt_tokens);
  json.Field("total_tokens", response.usage.prompt_tokens).EndObject();
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

std::string PrintModel(const ModelInfo& model) {
  std::string out;
  JsonWriter json(&out);
  WriteModel(model, &json);
  return out;
}

std::string PrintModels(const std::vector<ModelInfo>& models) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const ModelInfo& model : models) WriteModel(model, &json);
  json.EndArray().EndObject();
  return out;
}

}  // namespace penstock
