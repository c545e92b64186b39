// Parses and prints POST /v1/classify, a superset of vLLM's and Jina's. Pure functions.
//
// Request: {model, input: string | [string | [string, string]], raw_scores, truncate,
// truncation_direction}; a pair is classified together. "inputs" is taken for "input".
// Response: {id, object, created, model, usage, truncated, data: [{object, index, label, score,
// prediction (= label), num_classes, probs (by label id), predictions: [{label, score}, ...] best
// first}, ...]}.
#pragma once

#include <string>
#include <string_view>

#include "api/service.h"
#include "api/types.h"
#include "common/status.h"

namespace penstock {

Expected<ClassifyRequest> ParseClassifyCall(std::string_view body,
                                            const ServiceOptions& limits = {});
std::string PrintClassify(const ClassifyResponse& response, std::string_view id,
                          int64_t created_unix_s);

}  // namespace penstock
