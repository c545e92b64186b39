// Parses and prints the API of text-embeddings-inference. Pure functions.
// Source: its OpenAPI description (docs/openapi.json of huggingface/text-embeddings-inference).
//
// Every request may also name a "model"; TEI serves one only. Differences are noted at each call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "json/json.h"

namespace penstock::dialects {

// POST /embed, /embed_all: {inputs, normalize, truncate, truncation_direction, prompt_name,
// dimensions}. Inputs as for OpenAI's.
Expected<api::EmbedRequest> ParseTeiEmbed(const JsonObject& object,
                                          const api::ServiceOptions& limits = {});
// [[x, ...], ...]: one row an input, also for a single one.
std::string PrintTeiEmbed(const api::EmbedResponse& response);
// [[[x, ...], ...], ...]: input, token, dimension.
std::string PrintTeiEmbedAll(const api::EmbedAllResponse& response);

// POST /rerank: {query, texts, raw_scores, return_text, truncate, truncation_direction}.
struct TeiRerankCall {
  api::RerankRequest request;
  bool return_text = false;
};
Expected<TeiRerankCall> ParseTeiRerank(const JsonObject& object,
                                       const api::ServiceOptions& limits = {});
// [{index, score, text?}, ...], best first. `texts` may be null.
std::string PrintTeiRerank(const api::RerankResponse& response,
                           const std::vector<std::string>* texts);

// POST /predict: inputs is a string, a pair ["a", "b"], or an array of arrays of one or two
// strings. An array of three strings or more is refused, as an input is one text or a pair.
struct TeiPredictCall {
  api::ClassifyRequest request;
  bool single = false;
};
Expected<TeiPredictCall> ParseTeiPredict(const JsonObject& object,
                                         const api::ServiceOptions& limits = {});
// [{score, label}, ...], in an array of its own an input unless `single`.
std::string PrintTeiPredict(const api::ClassifyResponse& response, bool single);

// POST /similarity: {inputs: {source_sentence, sentences}, parameters?: {truncate, ...}}.
Expected<api::SimilarityRequest> ParseTeiSimilarity(const JsonObject& object,
                                                    const api::ServiceOptions& limits = {});
std::string PrintTeiSimilarity(const api::SimilarityResponse& response);

// POST /tokenize: {inputs: string | [string], add_special_tokens, prompt_name}.
Expected<api::TokenizeRequest> ParseTeiTokenize(const JsonObject& object,
                                                const api::ServiceOptions& limits = {});
// [[{id, text, special, start, stop}, ...], ...]; start and stop count code points of the input
// (with its prompt) and are null for special tokens that the template adds; text is the piece of
// the vocabulary.
std::string PrintTeiTokenize(const api::TokenizeResponse& response);

// POST /decode: {ids: [int] | [[int]], skip_special_tokens}. The answer: [text, ...].
Expected<api::DecodeRequest> ParseTeiDecode(const JsonObject& object,
                                            const api::ServiceOptions& limits = {});
std::string PrintTeiDecode(const api::DecodeResponse& response);

// GET /info: TEI's fields describe `model`; "models", an addition to TEI, describes each of
// `models`.
std::string PrintTeiInfo(const api::ModelInfo& model, const std::vector<api::ModelInfo>& models,
                         const api::ServiceOptions& limits);

// The task of POST /: TEI chooses by the served model.
enum class TeiRootTask { kEmbed, kSimilarity, kRerank, kPredict };
TeiRootTask ChooseTeiRootTask(const JsonObject& object, std::string_view model_task);

}  // namespace penstock::dialects
