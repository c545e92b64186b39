// Anthropic's API: POST /v1/messages and POST /v1/messages/count_tokens. Pure functions.
// Source: Anthropic's API reference (Messages, Count tokens, Streaming, Errors).
//
// Nothing is kept, so a request brings its whole conversation. Ignored, and named by the answer's
// header: cache_control (what repeats is found in the cache without it), context_management,
// thinking.budget_tokens, and tools of other types than functions. Other unknown fields are ignored.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/generate_types.h"
#include "base/status.h"
#include "dialects/openai/chat.h"
#include "dialects/shared/text_printer.h"
#include "json/json.h"

namespace penstock::dialects {

// {model, messages, system, max_tokens, temperature, top_p, top_k, stop_sequences, stream, thinking,
// tools, tool_choice, output_config | output_format}. A conversation that ends with the model's own
// text is continued.
Expected<TextCall> ParseMessagesCall(const JsonObject& object,
                                     const RequestContext* context = nullptr);
// The same without max_tokens and what else is about the answer.
Expected<api::RenderRequest> ParseCountTokens(const JsonObject& object,
                                              const RequestContext* context = nullptr);
// {"input_tokens": n}
std::string PrintTokenCount(const api::RenderResponse& response);

// `id` without its prefix.
std::unique_ptr<TextPrinter> NewMessagesPrinter(const TextCall& call, std::string_view id);

}  // namespace penstock::dialects
