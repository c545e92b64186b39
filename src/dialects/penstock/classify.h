// Parses and prints POST /v1/classify, a superset of vLLM's, Jina's and Cohere's. Pure functions.
//
// Request: {model, input: string | [string | [string, string]], raw_scores, truncate,
// truncation_direction}; a pair is classified together. "inputs" is taken for "input", as Cohere
// has it. Labels or examples of the request (Jina, Cohere) are refused: a model has its own labels.
// Response: {id, object, created, model, usage, truncated, data: [{object, index, label, score,
// prediction (= label), num_classes, probs (by label id), predictions: [{label, score}, ...] best
// first}, ...]}; where the request has "inputs", also Cohere's classifications: [{id, input,
// prediction, predictions, confidence, confidences, labels, classification_type}, ...].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"

namespace penstock::dialects {

struct ClassifyCall {
  api::ClassifyRequest request;
  bool cohere = false;  // it has "inputs"
};

Expected<ClassifyCall> ParseClassifyCall(std::string_view body,
                                         const api::ServiceOptions& limits = {});
// `texts`: the inputs, where Cohere's part is wanted, else null.
std::string PrintClassify(const api::ClassifyResponse& response, std::string_view id,
                          int64_t created_unix_s, const std::vector<std::string>* texts = nullptr);

}  // namespace penstock::dialects
