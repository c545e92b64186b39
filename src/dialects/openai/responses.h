// OpenAI's POST /v1/responses, and POST /v1/responses/input_tokens. Pure functions.
// Source: OpenAI's API reference (Responses, Streaming events).
//
// Nothing is kept: a request brings its whole conversation. `store`, `previous_response_id`,
// `conversation` and items that refer to kept ones are refused. Tools of other types than functions
// are ignored, and named by the answer's header. Other unknown fields are ignored.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "dialects/openai/chat.h"
#include "dialects/shared/text_printer.h"
#include "json/json.h"

namespace penstock::dialects {

struct ResponsesCall : TextCall {
  // Fields of the request that the response repeats, as JSON.
  std::vector<std::pair<const char*, std::string>> echo;
};

// {model, input, instructions, max_output_tokens, temperature, top_p, stream, text, tools,
// tool_choice, parallel_tool_calls, reasoning, include, top_logprobs, metadata}.
Expected<ResponsesCall> ParseResponsesCall(const JsonObject& object,
                                           const RequestContext* context = nullptr);
// The same without what is about the answer.
Expected<api::RenderRequest> ParseInputTokens(const JsonObject& object,
                                              const RequestContext* context = nullptr);
// {"object": "response.input_tokens", "input_tokens": n}
std::string PrintInputTokens(const api::RenderResponse& response);

// `id` without its prefix; `created_unix_s`: of the answer.
std::unique_ptr<TextPrinter> NewResponsesPrinter(ResponsesCall* call, std::string_view id,
                                                 int64_t created_unix_s);

}  // namespace penstock::dialects
