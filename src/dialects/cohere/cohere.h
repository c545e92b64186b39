// Parses and prints Cohere's API: POST /v1/embed, /v2/embed and /v2/chat. Pure functions. Its
// rerank is in dialects/rerank/rerank.h.
// Source: Cohere's API reference, and what its Python client sends.
//
// Unknown fields are ignored. What would change the answer and is not implemented is refused by
// name: images, documents, citations, response formats. Where a request says nothing of sampling,
// that of the model's makers holds, not Cohere's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "dialects/openai/chat.h"
#include "dialects/shared/quantize.h"
#include "dialects/shared/text_printer.h"
#include "frontend/wire_names.h"
#include "json/json.h"

namespace penstock::dialects {

struct CohereEmbedCall {
  api::EmbedRequest request;
  // In this order; none: /v1/embed without embedding_types, whose answer has another form.
  std::vector<EmbeddingFormat> types;
  frontend::FieldNames names;
};

// {model, texts, or inputs: [{content: [{type: "text", text}]}], input_type, embedding_types,
// truncate, output_dimension}. `version`: 1 or 2.
Expected<CohereEmbedCall> ParseCohereEmbed(const JsonObject& object, int version,
                                           const api::ServiceOptions& limits);
// {"id", "response_type", "embeddings": {"float": [...], "int8": [...], ...}, "texts", "meta"}
std::string PrintCohereEmbed(const api::EmbedResponse& response,
                             const std::vector<EmbeddingFormat>& types,
                             const std::vector<std::string>& texts, std::string_view id,
                             int version);

// {model, messages, tools, stream, max_tokens, temperature, k, p, seed, stop_sequences,
// frequency_penalty, presence_penalty, logprobs, thinking: {type}}.
Expected<TextCall> ParseCohereChat(const JsonObject& object,
                                   const RequestContext* context = nullptr);
// Whole, or events from message-start to message-end.
std::unique_ptr<TextPrinter> NewCohereChatPrinter(const TextCall& call, std::string_view id);

}  // namespace penstock::dialects
