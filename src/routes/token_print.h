// Prints tokens and their log-probabilities as OpenAI's APIs have them. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/generate_types.h"
#include "common/json_writer.h"

namespace penstock {

// A token's text; where its bytes are not UTF-8, they are written as \xNN.
std::string TokenName(std::string_view bytes);

// Of chat completions: {"token", "logprob", "bytes", "top_logprobs": [{"token", ...}]}.
void WriteTokenInfo(const TokenInfo& token, JsonWriter* json);

// Of completions: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, or null. `offset`:
// characters before the first token; then, before the next one.
void WriteCompletionLogprobs(const std::vector<TokenInfo>& tokens, bool wanted, size_t* offset,
                             JsonWriter* json);

}  // namespace penstock
