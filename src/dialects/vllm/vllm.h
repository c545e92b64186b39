// Parses and prints the routes that vLLM alone has: POST /score, /pooling and /detokenize, and its
// form of POST /tokenize. Pure functions.
// Source: vLLM's documentation of its OpenAI-compatible server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "frontend/wire_names.h"
#include "json/json.h"

namespace penstock::dialects {

// POST /score: {model, text_1: string | [string], text_2: string | [string],
// truncate_prompt_tokens, raw_scores}; also under the names queries and documents, and data_1 and data_2.
struct ScoreCall {
  std::string model;
  std::vector<std::string> firsts;  // one for all of `seconds`, or one for each
  std::vector<std::string> seconds;
  api::TextOptions text;
  std::optional<bool> raw_scores;  // of rerankers, as RerankRequest has it
  frontend::FieldNames names;      // of those of RerankRequest and SimilarityRequest

  api::RerankRequest ToRerank() &&;
  api::SimilarityRequest ToSimilarity() &&;
};
Expected<ScoreCall> ParseScore(const JsonObject& object, const api::ServiceOptions& limits = {});
// `scores` are in the order of the second texts.
struct Scores {
  std::string model;
  std::vector<float> scores;
  encode::Usage usage;
  encode::Truncation truncation;
};
// {"id", "object", "created", "model", "data": [{"index", "object", "score"}], "usage"}
std::string PrintScores(const Scores& scores, std::string_view id, int64_t created_unix_s);

// POST /pooling: {model, input, task: "embed" | "token_embed" | "classify", encoding_format:
// "float" | "base64" (of embed), dimensions, normalize}.
enum class PoolingTask { kEmbed, kTokenEmbed, kClassify };
struct PoolingCall {
  api::EmbedRequest request;
  std::optional<PoolingTask> task;
  bool base64 = false;
};
Expected<PoolingCall> ParsePooling(const JsonObject& object,
                                   const api::ServiceOptions& limits = {});
// Where a request has no task: what the model is for, as ModelInfo has it.
PoolingTask PoolingTaskOf(std::string_view model_task);
// The same request of classification. kInvalidArgument: its inputs are token ids.
Expected<api::ClassifyRequest> ToClassify(api::EmbedRequest request);
// {"id", "object", "created", "model", "data": [{"index", "object", "data"}], "usage"}, where data
// is a vector, or of each token one, or a score for each label.
std::string PrintPooled(const api::EmbedResponse& response, std::string_view id,
                        int64_t created_unix_s, bool base64);
std::string PrintPooled(const api::EmbedAllResponse& response, std::string_view id,
                        int64_t created_unix_s);
std::string PrintPooled(const api::ClassifyResponse& response, std::string_view id,
                        int64_t created_unix_s);

// POST /tokenize: {model, prompt, add_special_tokens (true), return_token_strs}.
struct VllmTokenizeCall {
  api::TokenizeRequest request;
  bool texts = false;
};
Expected<VllmTokenizeCall> ParseVllmTokenize(const JsonObject& object);
// {"count", "max_model_len", "tokens", "token_strs"}
std::string PrintVllmTokens(const api::TokenizeResponse& response, int32_t tokens_max, bool texts);

}  // namespace penstock::dialects
