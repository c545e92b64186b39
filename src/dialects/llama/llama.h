// Parses and prints the routes that llama.cpp's server alone has: POST /completion and /detokenize,
// GET /props and /slots, and its form of POST /tokenize. Pure functions.
// Source: the README of llama.cpp's server.
//
// Unknown fields are ignored; what would change the text and is not implemented is refused by name.
// Sampling that is absent is the model's makers', as everywhere here, not llama.cpp's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "dialects/openai/chat.h"
#include "dialects/shared/text_printer.h"
#include "json/json.h"

namespace penstock::dialects {

struct LlamaCall : TextCall {
  bool tokens = false;         // the answer has the ids
  bool probabilities = false;  // the answer has the log-probabilities
};

// POST /completion: {prompt: string | ids, n_predict (-1), stream, stop, temperature, top_k, top_p,
// min_p, repeat_penalty, repeat_last_n, presence_penalty, frequency_penalty, seed, logit_bias,
// ignore_eos, n_probs, return_tokens, model}. n_predict below 0 is no limit but the context's, 0:
// the prompt is read and nothing is written.
Expected<LlamaCall> ParseLlamaCompletion(const JsonObject& object,
                                         const api::ServiceOptions& limits = {});
// POST /infill: the same with {input_prefix, input_suffix, input_extra: [{filename, text}]}, and
// `prompt` as the begin of what stands between them.
Expected<LlamaCall> ParseLlamaInfill(const JsonObject& object);
// Whole: {"content", "stop": true, "stop_type", "timings", ...}. Streamed: events {"content",
// "stop": false}, and a last one as the whole with an empty content.
std::unique_ptr<TextPrinter> NewLlamaPrinter(const LlamaCall& call);

// POST /tokenize: {content, add_special (false), model}. Answers {"tokens": [id, ...]}.
Expected<api::TokenizeRequest> ParseLlamaTokenize(const JsonObject& object);
std::string PrintLlamaTokens(const api::TokenizeResponse& response);

// POST /detokenize: {tokens, model}, of vLLM too. Special tokens are part of the text.
Expected<api::DecodeRequest> ParseDetokenize(const JsonObject& object,
                                             const api::ServiceOptions& limits = {});
// {"content", "prompt"}: the text under llama.cpp's name and under vLLM's.
std::string PrintDetokenized(const api::DecodeResponse& response);

// GET /props and GET /slots, of a model that generates text. `running`: texts in its steps; that
// number of slots is shown as busy.
std::string PrintLlamaProps(const api::ModelInfo& model);
std::string PrintLlamaSlots(const api::ModelInfo& model, int32_t running);

}  // namespace penstock::dialects
