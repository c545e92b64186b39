#include "dialects/rerank/rerank.h"

#include <limits>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

Status ParseVoyage(const JsonObject& object, RerankCall* call) {
  // Its client sends null where nothing is asked for.
  object.ForEach([&](std::string_view key, JsonElement) {
    call->voyage = call->voyage || key == "top_k" || key == "truncation";
  });
  api::RerankRequest& request = call->request;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto top_k, GetOptionalInt(object, "top_k", 1, std::numeric_limits<int32_t>::max()));
  if (top_k) {
    if (request.top_n.value_or(*top_k) != *top_k) {
      return Status::InvalidArgument("'top_n' and 'top_k' say the same, and differ", "top_k");
    }
    request.top_n = top_k;
    call->names.emplace_back("top_n", "top_k");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto truncation, GetOptionalBool(object, "truncation"));
  if (!truncation) return Status::Ok();
  if (request.text.truncate.value_or(*truncation) != *truncation) {
    return Status::InvalidArgument("'truncate' and 'truncation' say the same, and differ",
                                   "truncation");
  }
  request.text.truncate = truncation;
  return Status::Ok();
}

// Cohere's: which fields of a document make its text.
Status CheckRankFields(const JsonObject& object) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto fields, object.GetStringsOrEmpty("rank_fields", kFieldsMax));
  if (fields.empty() || fields == std::vector<std::string>{"text"}) return Status::Ok();
  return Status::InvalidArgument("'rank_fields' is not supported, unless it is [\"text\"]",
                                 "rank_fields");
}

}  // namespace

Expected<RerankCall> ParseRerankCall(const JsonObject& object, const api::ServiceOptions& limits) {
  RerankCall call;
  api::RerankRequest& request = call.request;
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
  PENSTOCK_RETURN_IF_ERROR(ParseVoyage(object, &call));
  PENSTOCK_RETURN_IF_ERROR(CheckRankFields(object));
  PENSTOCK_ASSIGN_OR_RETURN(call.return_documents, object.GetBoolOr("return_documents", false));
  PENSTOCK_RETURN_IF_ERROR(GetOptionalInt(object, "max_tokens_per_doc", 1, kIntMax).status());
  return call;
}

std::string PrintRerank(const api::RerankResponse& response,
                        const std::vector<std::string>* documents, std::string_view id,
                        bool voyage) {
  size_t bytes = 512 + response.items.size() * 64;
  if (documents != nullptr) {
    for (const std::string& document : *documents) bytes += document.size() + 32;
  }
  std::string out;
  out.reserve(bytes);
  JsonWriter json(&out);
  json.BeginObject().Field("id", id).Field("object", "list").Field("model", response.model);
  json.Key(voyage ? "data" : "results").BeginArray();
  for (const auto& item : response.items) {
    json.BeginObject().Field("index", item.index).Field("relevance_score", item.score);
    if (documents != nullptr) {
      const std::string& text = documents->at(static_cast<size_t>(item.index));
      if (voyage) {
        json.Field("document", text);
      } else {
        json.Key("document").BeginObject().Field("text", text).EndObject();
      }
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

}  // namespace penstock::dialects
