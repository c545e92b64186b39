// Parses Ollama's requests for embeddings and text: POST /api/embed, /api/embeddings, /api/generate
// and /api/chat; prints embeddings. Pure functions. Texts are printed in ollama_print.h.
// Source: docs/api.md of ollama/ollama, and what its Python client sends.
//
// Unknown fields and unknown options are ignored, as Ollama does, and the answer's header names the
// options; those that are about its memory and threads (num_ctx, num_gpu, num_thread, ...) mean
// nothing here. What would change the text and
// is not implemented is refused by name. Sampling options that are absent are the model's makers'.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "api/service.h"
#include "api/types.h"
#include "base/status.h"
#include "dialects/openai/chat.h"
#include "json/json.h"

namespace penstock::dialects {

// The field "model", or "name", which older clients send.
Expected<std::string> OllamaModelOf(const JsonObject& object);

struct OllamaEmbedCall {
  api::EmbedRequest request;
  bool loads = false;  // there is no input: the model is loaded, no more
};

// {model, input: a string or strings, truncate, dimensions, keep_alive}. Embeddings have length 1.
Expected<OllamaEmbedCall> ParseOllamaEmbed(const JsonObject& object,
                                           const api::ServiceOptions& limits);
// {"model", "embeddings", "total_duration", "prompt_eval_count", "truncated"}
std::string PrintOllamaEmbed(const api::EmbedResponse& response, std::chrono::nanoseconds total);

// The older route: {model, prompt, keep_alive}; {"embedding"}.
Expected<OllamaEmbedCall> ParseOllamaEmbeddings(const JsonObject& object);
std::string PrintOllamaEmbeddings(const api::EmbedResponse& response);

struct OllamaTextCall : TextCall {
  bool chat = false;
  // There is no prompt: the model is loaded, or unloaded where keep_alive is 0, and nothing is
  // generated.
  bool loads = false;
  // Of /api/generate without `system`: taken as it is where the model has no chat template.
  std::optional<std::string> plain;
};

// {model, prompt, system, raw, stream, think, options, keep_alive, logprobs, top_logprobs}.
Expected<OllamaTextCall> ParseOllamaGenerate(const JsonObject& object,
                                             const RequestContext* context = nullptr);
// {model, messages, tools, stream, think, options, keep_alive, logprobs, top_logprobs}.
Expected<OllamaTextCall> ParseOllamaChat(const JsonObject& object,
                                         const RequestContext* context = nullptr);

}  // namespace penstock::dialects
