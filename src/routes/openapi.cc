#include "routes/openapi.h"

#include <algorithm>
#include <vector>

#include "common/json_writer.h"
#include "http/stream_formats.h"
#include "routes/routes.h"

namespace penstock {
namespace {

constexpr RouteDescription kDescriptions[] = {
    {"POST", "/v1/embeddings", "Embeddings, as OpenAI's API has them", "EmbeddingsRequest",
     "Embeddings"},
    {"POST", "/embeddings", "The same as /v1/embeddings", "EmbeddingsRequest", "Embeddings"},
    {"GET", "/v1/models", "The models that are served", nullptr, "Models"},
    {"GET", "/v1/models/*", "One model, by its name or an alias", nullptr, "Model"},
    {"POST", "/v1/chat/completions", "The next message of a chat, as OpenAI's API has it",
     "ChatRequest", "ChatCompletion", "ChatChunk"},
    {"POST", "/chat/completions", "The same as /v1/chat/completions", "ChatRequest",
     "ChatCompletion", "ChatChunk"},
    {"POST", "/v1/completions", "Texts that go on after prompts, as OpenAI's API has them",
     "CompletionRequest", "Completion", "CompletionChunk"},
    {"POST", "/completions", "The same as /v1/completions", "CompletionRequest", "Completion",
     "CompletionChunk"},
    {"POST", "/apply-template", "What the model's chat template makes of messages",
     "ApplyTemplateRequest", "AppliedTemplate"},
    {"POST", "/generate", "A text that goes on after another, as text-generation-inference has it",
     "TgiRequest", "TgiText"},
    {"POST", "/generate_stream", "The same, as events", "TgiRequest", "TgiEvent", "TgiEvent"},
    {"POST", "/v1/rerank", "Documents by relevance to a query, as Jina's and Cohere's APIs have it",
     "RerankRequest", "Ranking"},
    {"POST", "/v2/rerank", "The same as /v1/rerank", "RerankRequest", "Ranking"},
    {"POST", "/v1/embed", "Embeddings, as Cohere's older API has them", "CohereEmbedRequest",
     "CohereEmbeddings"},
    {"POST", "/v2/embed", "Embeddings, as Cohere's API has them", "CohereEmbedRequest",
     "CohereEmbeddings"},
    {"POST", "/v2/chat", "The next message of a chat, as Cohere's API has it", "CohereChatRequest",
     "CohereChat", "CohereChatEvent"},
    {"POST", "/v1/classify", "Labels of texts or of pairs", "ClassifyRequest", "Classification"},
    {"POST", "/classify", "The same as /v1/classify", "ClassifyRequest", "Classification"},
    {"POST", "/", "What the first model is for: /embed, /similarity, /rerank or /predict",
     "RootRequest", "RootAnswer"},
    {"POST", "/invocations", "The same, under SageMaker's name", "RootRequest", "RootAnswer"},
    {"POST", "/vertex", "Several requests to /, as Vertex AI has it", "VertexRequest",
     "VertexAnswer"},
    {"POST", "/embed", "Embeddings, as text-embeddings-inference has them", "TeiEmbedRequest",
     "TeiEmbeddings"},
    {"POST", "/embed_all", "An embedding of each token", "TeiEmbedAllRequest",
     "TeiTokenEmbeddings"},
    {"POST", "/embed_sparse", "Always 424: no sparse model is served", "TeiEmbedRequest",
     "TeiError"},
    {"POST", "/rerank", "Texts by relevance to a query", "TeiRerankRequest", "TeiRanking"},
    {"POST", "/predict", "Labels of a text, of a pair or of several", "TeiPredictRequest",
     "TeiPredictions"},
    {"POST", "/similarity", "How similar sentences are to one", "TeiSimilarityRequest",
     "TeiSimilarities"},
    {"POST", "/tokenize", "The tokens of texts", "TeiTokenizeRequest", "TeiTokens"},
    {"POST", "/decode", "The texts of token ids", "TeiDecodeRequest", "TeiTexts"},
    {"GET", "/info", "The models and the limits", nullptr, "Info"},
    {"POST", "/v1/bulk", "Begins or ends a bulk run", "BulkRequest", "BulkRun"},
    {"POST", "/v1/files", "Uploads the input of a batch", "FileForm", "File"},
    {"GET", "/v1/files", "The files, the newest first", nullptr, "Files"},
    {"GET", "/v1/files/*", "One file; {id}/content has its bytes", nullptr, "File"},
    {"DELETE", "/v1/files/*", "Deletes a file", nullptr, "FileDeleted"},
    {"POST", "/v1/batches", "Runs the requests of a file, as bulk work", "BatchRequest", "Batch"},
    {"GET", "/v1/batches", "The batches, the newest first", nullptr, "Batches"},
    {"GET", "/v1/batches/*", "One batch", nullptr, "Batch"},
    {"POST", "/v1/batches/*", "Cancels the batch of {id}/cancel", nullptr, "Batch"},
    {"POST", "/api/embed", "Embeddings, as Ollama has them", "OllamaEmbedRequest",
     "OllamaEmbeddings"},
    {"POST", "/api/embeddings", "The embedding of one text, as older clients of Ollama ask for it",
     "OllamaEmbeddingRequest", "OllamaEmbedding"},
    {"POST", "/api/generate", "A text, as Ollama has it; in lines unless \"stream\" is false",
     "OllamaGenerateRequest", "OllamaText"},
    {"POST", "/api/chat", "The next message of a chat, as Ollama has it", "OllamaChatRequest",
     "OllamaText"},
    {"GET", "/api/tags", "The models that are served, as Ollama has it", nullptr, "OllamaModels"},
    {"POST", "/api/show", "One model, as Ollama has it", "ModelCall", "OllamaModel"},
    {"GET", "/api/ps", "The models that are loaded, as Ollama has it", nullptr, "LoadedModels"},
    {"GET", "/api/version", "The version of Penstock", nullptr, "Version"},
    {"POST", "/api/pull", "Downloads a model of the hub and serves it", "OllamaPullRequest",
     "OllamaPulled"},
    {"DELETE", "/api/delete", "Deletes a model of the hub's cache", "ModelCall", "OllamaPulled"},
    {"POST", "/admin/models/load", "Loads a model, and answers when it is there", "LoadCall",
     "ModelState"},
    {"POST", "/admin/models/preload", "The same, and answers at once", "ModelCall", "ModelState"},
    {"POST", "/admin/models/unload", "Unloads a model once its requests are answered", "ModelCall",
     "ModelState"},
    {"POST", "/admin/models/pin", "The model is never unloaded by itself", "ModelCall",
     "ModelState"},
    {"POST", "/admin/models/unpin", "The model may be unloaded when it is idle", "ModelCall",
     "ModelState"},
    {"GET", "/", "The models and the routes", nullptr, "Index"},
    {"GET", "/openapi.json", "This document", nullptr, "OpenApi"},
    {"GET", "/health", "200 while the process lives", nullptr, "State"},
    {"GET", "/healthz", "The same as /health", nullptr, "State"},
    {"GET", "/livez", "The same as /health", nullptr, "State"},
    {"GET", "/ping", "The same as /health", nullptr, "State"},
    {"GET", "/readyz", "503 while models to preload are being loaded, or one failed to", nullptr,
     "State"},
    {"GET", "/metrics", "Counters and histograms in Prometheus text format 0.0.4"},
    {"GET", "/v1/stats", "Where the time of requests goes", nullptr, "Stats"},
    {"POST", "/v1/stats/reset", "The statistics begin a new window", nullptr, "State"},
};

const char* ErrorSchema(ErrorBody error_body) {
  switch (error_body) {
    case ErrorBody::kOpenAi:
      return "OpenAiError";
    case ErrorBody::kRerank:
      return "RerankError";
    case ErrorBody::kOllama:
      return "OllamaError";
    case ErrorBody::kTei:
      break;
  }
  return "TeiError";
}

void WriteReference(const char* schema, JsonWriter* json) {
  json->Key("schema").BeginObject();
  json->Field("$ref", std::string("#/components/schemas/") + schema).EndObject();
}

// `lines`, `event`: schema of each line of an answer in lines, and of each event of one in events;
// null: no such answer.
void WriteContent(const char* schema, JsonWriter* json, const char* lines = nullptr,
                  const char* event = nullptr, const char* type = "application/json") {
  json->Key("content").BeginObject();
  if (event != nullptr) {
    json->Key(kEventStreamType).BeginObject();
    WriteReference(event, json);
    json->EndObject();
  }
  if (lines != nullptr) {
    json->Key(kNdjsonType).BeginObject();
    WriteReference(lines, json);
    json->EndObject();
  }
  json->Key(schema == nullptr ? "text/plain" : type).BeginObject();
  if (schema == nullptr) {
    json->Key("schema").BeginObject().Field("type", "string").EndObject();
  } else {
    WriteReference(schema, json);
  }
  json->EndObject().EndObject();
}

// "post", as the document has it.
std::string MethodKey(const Route& route) {
  std::string key;
  for (const char* c = route.method; *c != '\0'; ++c) key += static_cast<char>(*c | 0x20);
  return key;
}

// "post_v1_embeddings"
std::string OperationId(const Route& route) {
  std::string id = MethodKey(route);
  std::string path = route.path;
  if (path.ends_with('*')) path.replace(path.size() - 1, 1, "id");
  for (const char c : path) id += c == '/' || c == '.' ? '_' : c;
  return id;
}

void WriteParameters(const Route& route, JsonWriter* json) {
  const std::string_view path = route.path;
  std::vector<std::string_view> names = {"RequestId"};
  if (path.ends_with('*')) names.push_back("Id");
  if (path == "/info") names.push_back("Model");
  if (std::string_view(route.method) != "GET") {
    names.insert(names.end(), {"TimeoutMs", "Priority", "BulkId"});
  }
  json->Key("parameters").BeginArray();
  for (const std::string_view name : names) {
    json->BeginObject().Field("$ref", "#/components/parameters/" + std::string(name)).EndObject();
  }
  json->EndArray();
}

void WriteOperation(const Route& route, JsonWriter* json) {
  const RouteDescription* const found = FindRouteDescription(route);
  const RouteDescription plain = {route.method, route.path, ""};
  const RouteDescription& description = found == nullptr ? plain : *found;
  json->BeginObject().Field("operationId", OperationId(route));
  json->Field("summary", description.summary);
  WriteParameters(route, json);
  if (description.request != nullptr) {
    json->Key("requestBody").BeginObject().Field("required", true);
    // What is uploaded comes as a form.
    const bool form = std::string_view(description.request) == "FileForm";
    WriteContent(description.request, json, nullptr, nullptr,
                 form ? "multipart/form-data" : "application/json");
    json->EndObject();
  }
  json->Key("responses").BeginObject();
  const bool never = std::string_view(route.path) == "/embed_sparse";
  json->Key(never ? "424" : "200").BeginObject();
  json->Field("description", never ? "No such model" : "Success");
  WriteContent(description.answer, json, route.lines ? "EmbeddingLine" : nullptr,
               description.event);
  json->EndObject().Key("default").BeginObject();
  json->Field("description", "An error, whose message names the field and the limit");
  WriteContent(std::string_view(route.path) == "/readyz" ? "State" : ErrorSchema(route.error_body),
               json);
  json->EndObject().EndObject();
  if (route.who == RouteFor::kEveryone) json->Key("security").BeginArray().EndArray();
  json->EndObject();
}

constexpr std::string_view kParameters = R"({
"Id":{"name":"id","in":"path","required":true,"schema":{"type":"string"},"description":"Of a model its name, which may hold slashes"},
"Model":{"name":"model","in":"query","schema":{"type":"string"},"description":"Name of a model; default: the first"},
"RequestId":{"name":"X-Request-Id","in":"header","schema":{"type":"string","pattern":"^[A-Za-z0-9\\-_.:+=/@]{1,128}$"},"description":"Named in the answer and in the log"},
"TimeoutMs":{"name":"X-Request-Timeout-Ms","in":"header","schema":{"type":"integer","minimum":1,"maximum":86400000},"description":"Then the answer is 503"},
"Priority":{"name":"X-Penstock-Priority","in":"header","schema":{"type":"string","enum":["interactive","bulk"]},"description":"Bulk work goes after interactive work"},
"BulkId":{"name":"X-Penstock-Bulk-Id","in":"header","schema":{"type":"string"},"description":"The bulk run that the request belongs to"}
})";

constexpr std::string_view kSecuritySchemes = R"({
"bearer":{"type":"http","scheme":"bearer"},
"apiKey":{"type":"apiKey","in":"header","name":"X-API-Key"}
})";

}  // namespace

std::span<const RouteDescription> RouteDescriptions() { return kDescriptions; }

const RouteDescription* FindRouteDescription(const Route& route) {
  const auto found =
      std::find_if(std::begin(kDescriptions), std::end(kDescriptions), [&](const auto& each) {
        return std::string_view(each.method) == route.method &&
               std::string_view(each.path) == route.path;
      });
  return found == std::end(kDescriptions) ? nullptr : found;
}

std::string PrintOpenApi(std::span<const Route> routes) {
  std::string out;
  out.reserve(64 << 10);
  JsonWriter json(&out);
  json.BeginObject().Field("openapi", "3.1.0").Key("info").BeginObject();
  json.Field("title", "Penstock").Field("version", PENSTOCK_VERSION);
  json.Key("license").BeginObject().Field("name", "Apache-2.0");
  json.Field("identifier", "Apache-2.0").EndObject().EndObject();
  json.Key("servers").BeginArray().BeginObject().Field("url", "/").EndObject().EndArray();
  // No key, where the server asks for none.
  json.Key("security").Raw(R"([{},{"bearer":[]},{"apiKey":[]}])");
  json.Key("paths").BeginObject();
  std::vector<std::string_view> written;
  for (const Route& route : routes) {
    if (std::find(written.begin(), written.end(), route.path) != written.end()) continue;
    written.emplace_back(route.path);
    std::string path = route.path;
    if (path.ends_with('*')) path.replace(path.size() - 1, 1, "{id}");
    json.Key(path).BeginObject();
    for (const Route& same : routes) {
      if (std::string_view(same.path) != route.path) continue;
      json.Key(MethodKey(same));
      WriteOperation(same, &json);
    }
    json.EndObject();
  }
  json.EndObject().Key("components").BeginObject();
  json.Key("securitySchemes").Raw(kSecuritySchemes).Key("parameters").Raw(kParameters);
  // One object of all.
  std::string schemas(kOpenApiSchemas);
  for (const std::string_view more :
       {kOpenApiTextSchemas, kOpenApiModelSchemas, kOpenApiOllamaSchemas, kOpenApiEmbedSchemas,
        kOpenApiBatchSchemas}) {
    schemas.resize(schemas.rfind('}'));
    schemas.append(",").append(more.substr(more.find('{') + 1));
  }
  json.Key("schemas").Raw(schemas).EndObject().EndObject();
  return out;
}

}  // namespace penstock
