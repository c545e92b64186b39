// Parses and prints OpenAI's POST /v1/embeddings and GET /v1/models. Pure functions.
//
// Beyond OpenAI's fields: truncate, truncation_direction, prompt, prompt_name, input_type,
// normalize, and Jina's embedding_type and task. Unknown fields are ignored, as OpenAI's clients
// send some that mean nothing here ("user").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "common/status.h"

namespace penstock {

struct EmbeddingsCall {
  EmbedRequest request;
  bool base64 = false;  // embeddings as base64 of little-endian float32
};

Expected<EmbeddingsCall> ParseEmbeddingsCall(std::string_view body,
                                             const ServiceOptions& limits = {});
std::string PrintEmbeddings(const EmbedResponse& response, bool base64);

std::string PrintModel(const ModelInfo& model);
std::string PrintModels(const std::vector<ModelInfo>& models);

}  // namespace penstock
