// The forms of errors. Dialects that are spoken by one client share a form.
#pragma once

#include <string_view>

#include "base/status.h"
#include "json/json_writer.h"
#include "serving/error_body.h"

namespace penstock::dialects {

void WriteOpenAiError(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteRerankError(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteTeiError(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteMessageError(int http_status, const Status& status, std::string_view id,
                       JsonWriter* json);
void WriteAnthropicError(int http_status, const Status& status, std::string_view id,
                         JsonWriter* json);

// {"error": {"message", "type", "param", "code"}, "detail"}: the last is what Voyage's client reads
inline constexpr serving::ErrorBody kOpenAiErrors = {WriteOpenAiError, "OpenAiError"};
// {"message", "detail", "field", "code", "id"}: what Cohere's and Jina's clients read
inline constexpr serving::ErrorBody kRerankErrors = {WriteRerankError, "RerankError"};
// {"error", "error_type", "field"}
inline constexpr serving::ErrorBody kTeiErrors = {WriteTeiError, "TeiError"};
// {"error"}
inline constexpr serving::ErrorBody kOllamaErrors = {WriteMessageError, "OllamaError"};
// {"error"}, the message: what Triton's and KServe's clients read
inline constexpr serving::ErrorBody kKserveErrors = {WriteMessageError, "KserveError"};
// {"type": "error", "error": {"type", "message"}, "request_id"}
inline constexpr serving::ErrorBody kAnthropicErrors = {WriteAnthropicError, "AnthropicError"};

}  // namespace penstock::dialects
