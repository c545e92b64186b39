#include "dialects/openai/openai.h"

#include "dialects/shared/fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

constexpr RefusedField kOpenAiRefused[] = {
    {"late_chunking", ""},
    {"return_multivector", "/embed_all gives an embedding of each token"},
};

Status NotOneOf(const std::string& key, const char* choices, const std::string& is) {
  return Status::InvalidArgument(
      "'" + key + "' must be one of " + choices + ", is \"" + is.substr(0, 40) + "\"", key);
}

Status Differ(const char* one, const char* other) {
  return Status::InvalidArgument(
      std::string("'") + one + "' and '" + other + "' say the same, and differ", other);
}

// OpenAI's encoding_format, Jina's embedding_type for that and the type, Voyage's output_dtype.
Status ParseFormat(const JsonObject& object, EmbeddingFormat* format) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string encoding, GetName(object, "encoding_format"));
  if (!encoding.empty() && encoding != "float" && encoding != "base64") {
    return NotOneOf("encoding_format", "\"float\", \"base64\"", encoding);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string jina, GetName(object, "embedding_type"));
  format->base64 = encoding == "base64" || jina == "base64";
  if (!jina.empty() && jina != "base64" && !ParseEmbeddingType(jina, &format->type)) {
    return NotOneOf("embedding_type",
                    "\"float\", \"base64\", \"int8\", \"uint8\", \"binary\", \"ubinary\"", jina);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string voyage, GetName(object, "output_dtype"));
  EmbeddingType type = EmbeddingType::kFloat;
  if (!voyage.empty() && !ParseEmbeddingType(voyage, &type)) {
    return NotOneOf("output_dtype", "\"float\", \"int8\", \"uint8\", \"binary\", \"ubinary\"",
                    voyage);
  }
  if (!voyage.empty() && !jina.empty() && jina != "base64" && type != format->type) {
    return Differ("embedding_type", "output_dtype");
  }
  if (!voyage.empty()) format->type = type;
  return ParseQuantizeRange(object, &format->range);
}

Status ParseDimensions(const JsonObject& object, EmbeddingsCall* call) {
  std::optional<int32_t>& dimensions = call->request.dimensions;
  PENSTOCK_ASSIGN_OR_RETURN(dimensions, GetOptionalInt(object, "dimensions", 1, 1 << 20));
  PENSTOCK_ASSIGN_OR_RETURN(const auto voyage,
                            GetOptionalInt(object, "output_dimension", 1, 1 << 20));
  if (!voyage) return Status::Ok();
  if (dimensions && dimensions != voyage) return Differ("dimensions", "output_dimension");
  dimensions = voyage;
  call->names.emplace_back("dimensions", "output_dimension");
  return Status::Ok();
}

// Jina's name for what input_type says. Its models have an adapter for each; models here have a
// prompt for queries and one for passages at most.
Status ParseTask(const JsonObject& object, api::InputType* type) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string task, GetName(object, "task"));
  if (task.empty()) return Status::Ok();
  api::InputType asked = api::InputType::kUnset;
  if (task.ends_with(".query")) {
    asked = api::InputType::kQuery;
  } else if (task.ends_with(".passage")) {
    asked = api::InputType::kDocument;
  } else if (task != "text-matching" && task != "classification" && task != "separation" &&
             task != "clustering") {
    return NotOneOf("task",
                    "\"retrieval.query\", \"retrieval.passage\", \"code.query\", "
                    "\"code.passage\", \"text-matching\", \"classification\", \"separation\", "
                    "\"clustering\"",
                    task);
  }
  if (*type == api::InputType::kUnset) *type = asked;
  return Status::Ok();
}

Status ParseSwitches(const JsonObject& object, api::EmbedRequest* request) {
  PENSTOCK_ASSIGN_OR_RETURN(request->normalize, GetOptionalBool(object, "normalize"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto normalized, GetOptionalBool(object, "normalized"));
  if (normalized) {
    if (request->normalize.value_or(*normalized) != *normalized) {
      return Differ("normalize", "normalized");
    }
    request->normalize = normalized;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto truncation, GetOptionalBool(object, "truncation"));
  if (!truncation) return Status::Ok();
  if (request->text.truncate.value_or(*truncation) != *truncation) {
    return Differ("truncate", "truncation");
  }
  request->text.truncate = truncation;
  return Status::Ok();
}

void WriteModel(const api::ModelInfo& model, JsonWriter* json) {
  json->BeginObject().Field("id", model.name).Field("object", "model");
  json->Field("created", model.created_unix_s).Field("owned_by", "penstock");
  WriteModelFacts(model, json);
  json->EndObject();
}

// Cohere's word for what the model does; "" where it has none, or it is not known yet.
std::string_view CohereEndpoint(const api::ModelInfo& model) {
  if (model.task == "embedding") return "embed";
  if (model.task == "reranking") return "rerank";
  if (model.task == "classification") return "classify";
  return model.task == api::kGenerationTask ? "chat" : "";
}

void WriteCohereModel(const api::ModelInfo& model, JsonWriter* json) {
  json->BeginObject().Field("name", model.name).Key("endpoints").BeginArray();
  if (const auto endpoint = CohereEndpoint(model); !endpoint.empty()) json->String(endpoint);
  json->EndArray().Field("finetuned", false);
  json->Field("context_length", model.context > 0 ? model.context : model.max_tokens);
  json->EndObject();
}

}  // namespace

Expected<EmbeddingsCall> ParseEmbeddingsCall(std::string_view body,
                                             const api::ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  EmbeddingsCall call;
  api::EmbedRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  bool single = false;
  call.names = {{"inputs", "input"}};
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kOpenAiRefused));
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "input", limits, &request.inputs, &single, true));
  if (!limits.openai_token_ids && !request.inputs.empty() && request.inputs[0].is_ids) {
    return Status::InvalidArgument(
        "'input' holds token ids, which this server does not take here "
        "(--openai-token-ids=refuse): those of OpenAI's tokenizer mean other words to the models "
        "here. Send texts; langchain-openai does with check_embedding_ctx_length=False",
        "input");
  }
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_RETURN_IF_ERROR(ParseDimensions(object, &call));
  PENSTOCK_RETURN_IF_ERROR(ParseFormat(object, &call.format));
  PENSTOCK_RETURN_IF_ERROR(ParseTask(object, &request.text.input_type));
  PENSTOCK_RETURN_IF_ERROR(ParseSwitches(object, &request));
  return call;
}

std::string PrintEmbeddings(const api::EmbedResponse& response, const EmbeddingFormat& format) {
  const auto dimensions = static_cast<size_t>(response.dimensions);
  const size_t count = dimensions == 0 ? 0 : response.values.size() / dimensions;
  std::string out;
  out.reserve(256 + count * 64 +
              response.values.size() * static_cast<size_t>(PrintedNumberBytes(format)));
  JsonWriter json(&out);
  EmbeddingWriter writer(format);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (size_t i = 0; i < count; ++i) {
    json.BeginObject().Field("object", "embedding").Field("index", i).Key("embedding");
    writer.Write(std::span(response.values).subspan(i * dimensions, dimensions), &json, &out);
    json.EndObject();
  }
  json.EndArray().Field("model", response.model).Key("usage").BeginObject();
  json.Field("prompt_tokens", response.usage.prompt_tokens);
  json.Field("total_tokens", response.usage.prompt_tokens).EndObject();
  writer.WriteRange(&json);
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

std::string PrintModel(const api::ModelInfo& model) {
  std::string out;
  JsonWriter json(&out);
  WriteModel(model, &json);
  return out;
}

std::string PrintModels(const std::vector<api::ModelInfo>& models, std::string_view endpoint) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const api::ModelInfo& model : models) WriteModel(model, &json);
  json.EndArray().Key("models").BeginArray();
  for (const api::ModelInfo& model : models) {
    if (endpoint.empty() || endpoint == CohereEndpoint(model)) WriteCohereModel(model, &json);
  }
  json.EndArray().EndObject();
  return out;
}

}  // namespace penstock::dialects
