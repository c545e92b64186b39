// Parses and prints OpenAI's POST /v1/embeddings and GET /v1/models. Pure functions.
//
// The same route takes what Jina's and Voyage's clients send:
//   OpenAI  input, model, dimensions, encoding_format: "float" or "base64"
//   Jina    objects {"text"} as input, embedding_type, task, normalized; refused: images,
//           late_chunking, return_multivector
//   Voyage  output_dtype, output_dimension, input_type, truncation
// and truncate, truncation_direction, prompt, prompt_name, normalize, quantize_range. If a thing
// is given under two names with different values, the request is refused. Unknown fields are
// ignored, as OpenAI's clients send some that mean nothing here ("user").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "dialects/shared/quantize.h"
#include "frontend/wire_names.h"

namespace penstock::dialects {

struct EmbeddingsCall {
  api::EmbedRequest request;
  EmbeddingFormat format;
  frontend::FieldNames names;  // native to wire, for errors of the service
};

Expected<EmbeddingsCall> ParseEmbeddingsCall(std::string_view body,
                                             const api::ServiceOptions& limits = {});
std::string PrintEmbeddings(const api::EmbedResponse& response, const EmbeddingFormat& format = {});

std::string PrintModel(const api::ModelInfo& model);
// "data" as OpenAI has it, and "models" as Cohere has it, of which `endpoint` (embed, rerank, ...;
// "": all) leaves those that do something else out.
std::string PrintModels(const std::vector<api::ModelInfo>& models, std::string_view endpoint = {});

}  // namespace penstock::dialects
