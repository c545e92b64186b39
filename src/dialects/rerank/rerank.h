// Parses and prints the rerank API of Jina, Cohere and Voyage (/v1/rerank, /v2/rerank, and /rerank
// where the request has "documents"). Pure functions.
//
// Request: model, query (string or {"text"}), documents (strings or {"text"}), top_n or Voyage's
// top_k, return_documents (default false), raw_scores (default: as the model folder says), truncate
// or Voyage's truncation, truncation_direction. max_tokens_per_doc is checked and otherwise
// ignored: the model's own limit holds, and truncation is reported. Cohere's rank_fields is
// refused, unless it is ["text"].
// Response: both Cohere's fields (id, results, meta) and Jina's (model, results, usage). Where the
// request has a field of Voyage's, "data" in place of "results".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "frontend/wire_names.h"
#include "json/json.h"
#include "serving/route.h"

namespace penstock::dialects {

struct RerankCall {
  api::RerankRequest request;
  bool return_documents = false;
  bool voyage = false;
  frontend::FieldNames names;  // native to wire, for errors of the service
};

Expected<RerankCall> ParseRerankCall(const JsonObject& object,
                                     const api::ServiceOptions& limits = {});
// `documents` are printed beside the scores unless null; `id` is the request id.
std::string PrintRerank(const api::RerankResponse& response,
                        const std::vector<std::string>* documents, std::string_view id,
                        bool voyage = false);

// Answers a request of text-embeddings-inference ("texts") or of Jina ("documents"), each in its
// own form; errors in that of the route.
void AnswerRerank(const serving::RouteCall& call, const JsonObject& object);

}  // namespace penstock::dialects
