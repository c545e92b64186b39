#include "routes/rerank.h"

#include <limits>

#include "routes/fields.h"

namespace penstock {

Expected<RerankCall> ParseRerankCall(std::string_view body, const ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  RerankCall call;
  RerankRequest& request = call.request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  if (const auto query = object.Find("query"); query && query->is_object()) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject inner, object.GetObject("query"));
    PENSTOCK_ASSIGN_OR_RETURN(request.query, inner.GetString("text"));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(request.query, object.GetString("query"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(request.documents, ParseStrings(object, "documents", limits, true));
  constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();
  PENSTOCK_ASSIGN_OR_RETURN(request.top_n, GetOptionalInt(object, "top_n", 1, kIntMax));
  PENSTOCK_ASSIGN_OR_RETURN(request.raw_scores, GetOptionalBool(object, "raw_scores"));
  PENSTOCK_RETURN_IF_ERROR(ParseTextOptions(object, &request.text));
  PENSTOCK_ASSIGN_OR_RETURN(call.return_documents, object.GetBoolOr("return_documents", false));
  PENSTOCK_RETURN_IF_ERROR(GetOptionalInt(object, "max_tokens_per_doc", 1, kIntMax).status());
  return call;
}

std::string PrintRerank(const RerankResponse& response, const std::vector<std::string>* documents,
                        std::string_view id) {
  size_t bytes = 512 + response.items.size() * 64;
  if (documents != nullptr) {
    for (const std::string& document : *documents) bytes += document.size() + 32;
  }
  std::string out;
  out.reserve(bytes);
  JsonWriter json(&out);
  json.BeginObject().Field("id", id).Field("object", "list").Field("model", response.model);
  json.Key("results").BeginArray();
  for (const auto& item : response.items) {
    json.BeginObject().Field("index", item.index).Field("relevance_score", item.score);
    if (documents != nullptr) {
      const std::string& text = documents->at(static_cast<size_t>(item.index));
      json.Key("document").BeginObject().Field("text", text).EndObject();
    }
    json.EndObject();
  }
  json.EndArray().Key("usage").BeginObject();
  json.Field("prompt_tokens", response.usage.prompt_tokens);
  json.Field("total_tokens", response.usage.prompt_tokens).EndObject();
  json.Key("meta").BeginObject().Key("api_version").BeginObject().Field("version", "2").EndObject();
  json.Key("billed_units").BeginObject().Field("search_units", 1).EndObject();
  json.Key("tokens").BeginObject().Field("input_tokens", response.usage.prompt_tokens).EndObject();
  json.EndObject();
  WriteTruncation(response.truncation, &json);
  json.EndObject();
  return out;
}

}  // namespace penstock
