#include "routes/openapi.h"

#include <algorithm>
#include <vector>

#include "common/json_writer.h"
#include "http/stream_formats.h"
#include "routes/path_pattern.h"
#include "routes/routes.h"

namespace penstock::routes {
namespace {

constexpr RouteDescription kDescriptions[] = {
    {"POST", "/v1/embeddings", "Embeddings, as OpenAI's API has them", "EmbeddingsRequest",
     "Embeddings"},
    {"POST", "/embeddings", "The same as /v1/embeddings", "EmbeddingsRequest", "Embeddings"},
    {"GET", "/v1/models", "The models that are served", nullptr, "Models"},
    {"GET", "/v1/models/{id}", "One model, by its name or an alias", nullptr, "Model"},
    {"POST", "/v1/chat/completions", "The next message of a chat, as OpenAI's API has it",
     "ChatRequest", "ChatCompletion", "ChatChunk"},
    {"POST", "/chat/completions", "The same as /v1/chat/completions", "ChatRequest",
     "ChatCompletion", "ChatChunk"},
    {"POST", "/v1/completions", "Texts that go on after prompts, as OpenAI's API has them",
     "CompletionRequest", "Completion", "CompletionChunk"},
    {"POST", "/completions", "The same as /v1/completions", "CompletionRequest", "Completion",
     "CompletionChunk"},
    {"POST", "/v1/responses", "The next items of a conversation, as OpenAI's Responses have them",
     "ResponsesRequest", "Response", "ResponseEvent"},
    {"POST", "/responses", "The same as /v1/responses", "ResponsesRequest", "Response",
     "ResponseEvent"},
    {"POST", "/v1/responses/input_tokens", "The tokens of a conversation", "InputTokensRequest",
     "InputTokens"},
    {"POST", "/v1/messages", "The next message of a chat, as Anthropic's API has it",
     "MessagesRequest", "AnthropicMessage", "AnthropicEvent"},
    {"POST", "/v1/messages/count_tokens", "The tokens of a chat, as Anthropic's API has them",
     "CountTokensRequest", "TokenCount"},
    {"POST", "/apply-template", "What the model's chat template makes of messages",
     "ApplyTemplateRequest", "AppliedTemplate"},
    {"POST", "/generate", "A text that goes on after another, as text-generation-inference has it",
     "TgiRequest", "TgiText"},
    {"POST", "/generate_stream", "The same, as events", "TgiRequest", "TgiEvent", "TgiEvent"},
    {"POST", "/v1/rerank", "Documents by relevance to a query, as Jina's and Cohere's APIs have it",
     "RerankRequest", "Ranking"},
    {"POST", "/v2/rerank", "The same as /v1/rerank", "RerankRequest", "Ranking"},
    {"POST", "/v1/reranking", "Documents or texts by relevance to a query, each in its own form",
     "AnyRerankRequest", "AnyRanking"},
    {"POST", "/reranking", "The same as /v1/reranking", "AnyRerankRequest", "AnyRanking"},
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
     "TeiError", nullptr, 424},
    {"POST", "/rerank", "The same as /v1/reranking", "AnyRerankRequest", "AnyRanking"},
    {"POST", "/predict", "Labels of a text, of a pair or of several", "TeiPredictRequest",
     "TeiPredictions"},
    {"POST", "/similarity", "How similar sentences are to one", "TeiSimilarityRequest",
     "TeiSimilarities"},
    {"POST", "/tokenize",
     "The tokens of texts, as text-embeddings-inference (\"inputs\"), llama.cpp's server "
     "(\"content\") and vLLM (\"prompt\") have it",
     "AnyTokenizeRequest", "AnyTokens"},
    {"POST", "/detokenize", "The text of token ids, as llama.cpp's server and vLLM have it",
     "DetokenizeRequest", "Detokenized"},
    {"POST", "/completion", "A text that goes on after another, as llama.cpp's server has it",
     "LlamaRequest", "LlamaText", "LlamaEvent"},
    {"POST", "/infill", "The text between two others, as llama.cpp's server has it",
     "LlamaInfillRequest", "LlamaText", "LlamaEvent"},
    {"GET", "/props", "A model that generates text, as llama.cpp's server has it", nullptr,
     "LlamaProps"},
    {"GET", "/slots", "The places for texts of a model, as llama.cpp's server has it", nullptr,
     "LlamaSlots"},
    {"POST", "/score", "How well texts fit one, as vLLM has it", "ScoreRequest", "Scores"},
    {"POST", "/v1/score", "The same as /score", "ScoreRequest", "Scores"},
    {"POST", "/pooling",
     "Vectors, of texts or of their tokens, or scores of labels, as vLLM has it", "PoolingRequest",
     "Pooled"},
    {"GET", "/version", "The version of Penstock, in vLLM's form", nullptr, "Version"},
    {"POST", "/decode", "The texts of token ids", "TeiDecodeRequest", "TeiTexts"},
    {"GET", "/info", "The models and the limits", nullptr, "Info"},
    {"POST", "/v1/bulk", "Begins or ends a bulk run", "BulkRequest", "BulkRun"},
    {"POST", "/v1/files", "Uploads the input of a batch", "FileForm", "File"},
    {"GET", "/v1/files", "The files, the newest first", nullptr, "Files"},
    {"GET", "/v1/files/{id}", "One file", nullptr, "File"},
    {"DELETE", "/v1/files/{id}", "Deletes a file", nullptr, "FileDeleted"},
    {"GET", "/v1/files/{id}/content", "The bytes of a file", nullptr, "FileContent"},
    {"POST", "/v1/batches", "Runs the requests of a file, as bulk work", "BatchRequest", "Batch"},
    {"GET", "/v1/batches", "The batches, the newest first", nullptr, "Batches"},
    {"GET", "/v1/batches/{id}", "One batch", nullptr, "Batch"},
    {"POST", "/v1/batches/{id}/cancel", "Ends a batch", nullptr, "Batch"},
    {"POST", "/api/embed", "Embeddings, as Ollama has them", "OllamaEmbedRequest",
     "OllamaEmbeddings"},
    {"POST", "/api/embeddings", "The embedding of one text, as older clients of Ollama ask for it",
     "OllamaEmbeddingRequest", "OllamaEmbedding"},
    {"POST", "/api/generate", "A text, as Ollama has it; in lines unless \"stream\" is false",
     "OllamaGenerateRequest", "OllamaText"},
    {"POST", "/api/chat", "The next message of a chat, as Ollama has it", "OllamaChatRequest",
     "OllamaText"},
    {"GET", "/api/tags",
     "The models for text and embeddings by each of their names, as Ollama has it", nullptr,
     "OllamaModels"},
    {"POST", "/api/show", "One model, as Ollama has it", "ModelCall", "OllamaModel"},
    {"GET", "/api/ps", "The models that are loaded, as Ollama has it", nullptr, "LoadedModels"},
    {"GET", "/api/version", "The version of Ollama's API that is spoken, and that of Penstock",
     nullptr, "OllamaVersion"},
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
    {"GET", "/v2", "The server and what it can, as the Open Inference Protocol has it", nullptr,
     "KserveServer"},
    {"GET", "/v2/health/live", "200 while the process lives", nullptr, "KserveLive"},
    {"GET", "/v2/health/ready", "503 while models to preload are being loaded, or one failed to",
     nullptr, "KserveReady"},
    {"GET", "/v2/models/{model}",
     "The inputs and outputs of a tensor model, which is loaded for it", nullptr, "KserveModel"},
    {"GET", "/v2/models/{model}/versions/{version}", "The same of a version", nullptr,
     "KserveModel"},
    {"GET", "/v2/models/{model}/ready", "503 while the model is not loaded", nullptr,
     "KserveReady"},
    {"GET", "/v2/models/{model}/versions/{version}/ready", "The same of a version", nullptr,
     "KserveReady"},
    {"GET", "/v2/models/{model}/config", "The model's configuration, as Triton has it", nullptr,
     "KserveConfig"},
    {"GET", "/v2/models/{model}/versions/{version}/config", "The same of a version", nullptr,
     "KserveConfig"},
    {"GET", "/v2/models/{model}/stats", "Counts and times of a model, as Triton has them", nullptr,
     "KserveStatistics"},
    {"GET", "/v2/models/{model}/versions/{version}/stats", "The same of a version", nullptr,
     "KserveStatistics"},
    {"GET", "/v2/models/stats", "The same of all tensor models that are loaded", nullptr,
     "KserveStatistics"},
    {"POST", "/v2/models/{model}/infer", "Runs a tensor model", "KserveRequest", "KserveResponse"},
    {"POST", "/v2/models/{model}/versions/{version}/infer", "The same of a version",
     "KserveRequest", "KserveResponse"},
    {"POST", "/v2/repository/index", "The models and their states, as Triton has them",
     "KserveIndexRequest", "KserveIndex"},
    {"POST", "/v2/repository/models/{model}/load", "Loads a model, and answers when it is there",
     "KserveLoadRequest", "KserveDone"},
    {"POST", "/v2/repository/models/{model}/unload",
     "Unloads a model once its requests are answered", "KserveLoadRequest", "KserveDone"},
    {"GET", "/v2/systemsharedmemory/status", "Regions of shared memory", nullptr, "KserveRegions"},
    {"GET", "/v2/systemsharedmemory/region/{region}/status", "One of them", nullptr,
     "KserveRegions"},
    {"POST", "/v2/systemsharedmemory/region/{region}/register",
     "Tensors may come and go through this shared memory (--shared-memory-bytes)",
     "KserveRegionRequest", "KserveDone"},
    {"POST", "/v2/systemsharedmemory/region/{region}/unregister", "Forgets a region", nullptr,
     "KserveDone"},
    {"POST", "/v2/systemsharedmemory/unregister", "Forgets all regions", nullptr, "KserveDone"},
    {"GET", "/v2/cudasharedmemory/status", "Always empty: not supported", nullptr, "KserveRegions"},
    {"GET", "/v2/cudasharedmemory/region/{region}/status", "Always refused: not supported", nullptr,
     "KserveError", nullptr, 422},
    {"POST", "/v2/cudasharedmemory/region/{region}/register", "Always refused: not supported",
     nullptr, "KserveError", nullptr, 422},
    {"POST", "/v2/cudasharedmemory/region/{region}/unregister", "Does nothing: not supported",
     nullptr, "KserveDone"},
    {"POST", "/v2/cudasharedmemory/unregister", "Does nothing: not supported", nullptr,
     "KserveDone"},
    {"GET", "/v2/trace/setting", "Always refused: see /v1/stats", nullptr, "KserveError", nullptr,
     422},
    {"POST", "/v2/trace/setting", "Always refused", nullptr, "KserveError", nullptr, 422},
    {"GET", "/v2/models/{model}/trace/setting", "Always refused: see /v1/stats", nullptr,
     "KserveError", nullptr, 422},
    {"POST", "/v2/models/{model}/trace/setting", "Always refused", nullptr, "KserveError", nullptr,
     422},
    {"GET", "/v2/logging", "Always refused: see --log-level", nullptr, "KserveError", nullptr, 422},
    {"POST", "/v2/logging", "Always refused", nullptr, "KserveError", nullptr, 422},
    {"GET", "/ui", "The web page; / answers with it too, where text/html is asked for", nullptr,
     nullptr, nullptr, 200, "text/html"},
    {"GET", "/ui/{file}", "A file of the web page", nullptr, nullptr, nullptr, 200, "*/*"},
    {"GET", "/v1/live", "What happens, second by second: events until the client leaves", nullptr,
     nullptr, "LiveEvent", 200, ""},
    {"GET", "/v1/requests", "Requests that were slow; errors by kind and by route", nullptr,
     "Requests"},
    {"GET", "/", "The models and the routes", nullptr, "Index"},
    {"GET", "/openapi.json", "This document", nullptr, "OpenApi"},
    {"GET", "/docs", "A page with the routes", nullptr, nullptr, nullptr, 200, "text/html"},
    {"GET", "/health", "200 while the process lives", nullptr, "State"},
    {"GET", "/healthz", "The same as /health", nullptr, "State"},
    {"GET", "/livez", "The same as /health", nullptr, "State"},
    {"GET", "/ping", "The same as /health", nullptr, "State"},
    {"GET", "/readyz", "503 while models to preload are being loaded, or one failed to", nullptr,
     "State"},
    {"GET", "/metrics", "Counters and histograms in Prometheus text format 0.0.4"},
    {"GET", "/metrics/router", "The gauges by which routers choose a replica, in 2 KB at most"},
    {"GET", "/v1/stats", "Where the time of requests goes", nullptr, "Stats"},
    {"POST", "/v1/stats/reset", "The statistics begin a new window", nullptr, "State"},
};

void WriteReference(const char* schema, JsonWriter* json) {
  json->Key("schema").BeginObject();
  json->Field("$ref", std::string("#/components/schemas/") + schema).EndObject();
}

// The content type of a body with that schema.
const char* ContentType(const char* schema) {
  if (std::string_view(schema) == "FileForm") return "multipart/form-data";
  if (std::string_view(schema) == "FileContent") return "application/jsonl";
  return "application/json";
}

// `lines`, `event`: schema of each line of an answer in lines, and of each event of one in events;
// null: no such answer.
void WriteContent(const char* schema, JsonWriter* json, const char* lines = nullptr,
                  const char* event = nullptr, std::string_view type = "text/plain") {
  json->Key("content").BeginObject();
  if (event != nullptr) {
    json->Key(http::kEventStreamType).BeginObject();
    WriteReference(event, json);
    json->EndObject();
  }
  if (lines != nullptr) {
    json->Key(http::kNdjsonType).BeginObject();
    WriteReference(lines, json);
    json->EndObject();
  }
  if (schema != nullptr) {
    json->Key(ContentType(schema)).BeginObject();
    WriteReference(schema, json);
    json->EndObject();
  } else if (!type.empty()) {
    json->Key(type).BeginObject().Key("schema").BeginObject().Field("type", "string").EndObject();
    json->EndObject();
  }
  json->EndObject();
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
  for (const char c : std::string_view(route.path)) {
    if (c != '{' && c != '}') id += c == '/' || c == '.' ? '_' : c;
  }
  return id;
}

// The name below components/parameters of a part of a path.
std::string_view PathParameter(std::string_view part) {
  if (part == "model") return "ModelInPath";
  if (part == "version") return "Version";
  if (part == "region") return "Region";
  if (part == "file") return "File";
  return "Id";
}

void WriteParameters(const Route& route, JsonWriter* json) {
  const std::string_view path = route.path;
  std::vector<std::string_view> names = {"RequestId"};
  for (const std::string_view part : PathPartNames(path)) names.push_back(PathParameter(part));
  if (path == "/info" || path == "/props" || path == "/slots") names.push_back("Model");
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
    WriteContent(description.request, json);
    json->EndObject();
  }
  json->Key("responses").BeginObject();
  json->Key(std::to_string(description.status)).BeginObject();
  json->Field("description", description.status == 200 ? "Success" : "Always refused");
  WriteContent(description.answer, json, route.lines ? "EmbeddingLine" : nullptr, description.event,
               description.type);
  json->EndObject().Key("default").BeginObject();
  json->Field("description", "An error, whose message names the field and the limit");
  WriteContent(std::string_view(route.path) == "/readyz" ? "State" : route.error_body.schema, json);
  json->EndObject().EndObject();
  const bool open =
      route.who == frontend::RouteFor::kEveryone || route.who == frontend::RouteFor::kVisitors;
  if (open) json->Key("security").BeginArray().EndArray();
  json->EndObject();
}

constexpr std::string_view kParameters = R"({
"Id":{"name":"id","in":"path","required":true,"schema":{"type":"string"},"description":"The name of a model, which may hold slashes, or the id of a file or batch"},
"ModelInPath":{"name":"model","in":"path","required":true,"schema":{"type":"string"},"description":"Name of a model; it may hold slashes"},
"Version":{"name":"version","in":"path","required":true,"schema":{"type":"string"},"description":"The version that is served; \"1\" of a model without versions"},
"File":{"name":"file","in":"path","required":true,"schema":{"type":"string"},"description":"Name of a file of the web page"},
"Region":{"name":"region","in":"path","required":true,"schema":{"type":"string"},"description":"Name of a region of shared memory"},
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
    json.Key(route.path).BeginObject();
    for (const Route& same : routes) {
      if (std::string_view(same.path) != route.path) continue;
      json.Key(MethodKey(same));
      WriteOperation(same, &json);
    }
    json.EndObject();
  }
  json.EndObject().Key("components").BeginObject();
  json.Key("securitySchemes").Raw(kSecuritySchemes).Key("parameters").Raw(kParameters);
  json.Key("schemas").Raw(kOpenApiSchemas).EndObject().EndObject();
  return out;
}

}  // namespace penstock::routes
