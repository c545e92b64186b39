#include "serving/openapi.h"

#include <algorithm>
#include <vector>

#include "http/stream_formats.h"
#include "json/json_writer.h"
#include "serving/path_pattern.h"
#include "serving/route.h"

namespace penstock::serving {
namespace {

void WriteReference(const char* schema, JsonWriter* json) {
  json->Key("schema").BeginObject();
  json->Field("$ref", std::string("#/components/schemas/") + schema).EndObject();
}

// Writes the schema of a body under its content type; without a schema it writes nothing.
void WriteType(std::string_view type, const char* schema, JsonWriter* json) {
  if (!schema) return;
  json->Key(type).BeginObject();
  WriteReference(schema, json);
  json->EndObject();
}

void WriteContent(const char* schema, JsonWriter* json,
                  std::string_view type = "application/json") {
  json->Key("content").BeginObject();
  WriteType(type, schema, json);
  json->EndObject();
}

void WriteAnswer(const About& about, JsonWriter* json) {
  json->Key("content").BeginObject();
  WriteType(http::kEventStreamType, about.event, json);
  WriteType(http::kNdjsonType, about.line, json);
  WriteType(about.answer_type, about.answer, json);
  if (about.answer == nullptr && *about.type != '\0') {
    json->Key(about.type).BeginObject().Key("schema").BeginObject().Field("type", "string");
    json->EndObject().EndObject();
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
  if (route.about.query != nullptr) names.push_back(route.about.query);
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
  const About& about = route.about;
  json->BeginObject().Field("operationId", OperationId(route));
  json->Field("summary", about.summary);
  WriteParameters(route, json);
  if (about.request != nullptr) {
    json->Key("requestBody").BeginObject().Field("required", true);
    WriteContent(about.request, json, about.request_type);
    json->EndObject();
  }
  json->Key("responses").BeginObject();
  json->Key(std::to_string(about.status)).BeginObject();
  json->Field("description", about.status == 200 ? "Success" : "Always refused");
  WriteAnswer(about, json);
  json->EndObject().Key("default").BeginObject();
  json->Field("description", "An error, whose message names the field and the limit");
  WriteContent(about.error != nullptr ? about.error : route.error_body.schema, json);
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

std::string PrintOpenApi(std::span<const Route> routes, std::string_view schemas) {
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
  json.Key("schemas").Raw(schemas).EndObject().EndObject();
  return out;
}

}  // namespace penstock::serving
