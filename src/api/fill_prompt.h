// Fill-in-the-middle: the prompt by which a model writes what stands between two texts.
#pragma once

#include <cstdint>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace penstock::api {

// The tokens of the prompt, by the marks that the tokenizer has: those of Qwen Coder, CodeGemma and
// Granite, StarCoder, DeepSeek Coder, CodeLlama, or Codestral. Tokens that end such a text are
// appended to *stops. kInvalidArgument, field suffix: the tokenizer has no marks.
// Source: the models' cards; Bavarian et al., Efficient Training of Language Models to Fill in the
// Middle (2022).
Expected<std::vector<int32_t>> FillTokens(const text::Tokenizer& tokenizer,
                                          const FillPrompt& prompt, const StopCondition& stop,
                                          std::vector<int32_t>* stops);

// The bytes of its texts.
size_t FillBytes(const FillPrompt& prompt);

}  // namespace penstock::api
