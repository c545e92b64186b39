// Prints tokens and their log-probabilities as OpenAI's APIs have them. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/generate_types.h"
#include "json/json_writer.h"

namespace penstock::dialects {

// A token's text; where its bytes are not UTF-8, they are written as \xNN.
std::string TokenName(std::string_view bytes);

// As chat completions have it: {"token", "logprob", "bytes", "top_logprobs": [{"token", ...}]}.
void WriteTokenInfo(const api::TokenInfo& token, JsonWriter* json);

// As completions have it: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, or null.
struct CompletionLogprobs {
  bool wanted = false;
  // Tokens of the prompt that the text begins with; the first has no log-probability.
  std::span<const api::TokenInfo> prompt;
  std::string_view prompt_text;
  std::span<const api::TokenInfo> tokens;
};
// `offset`: characters before the first token, the prompt's included; then, before the next one.
void WriteCompletionLogprobs(const CompletionLogprobs& logprobs, size_t* offset, JsonWriter* json);

}  // namespace penstock::dialects
