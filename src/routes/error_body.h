// How errors look on the wire: one Status, printed as the clients of each protocol expect it.
#pragma once

#include <string_view>

#include "common/json_writer.h"
#include "common/status.h"
#include "http/message.h"

namespace penstock::routes {

// The body of an error in one dialect.
struct ErrorBody {
  // Writes the members of the body's object.
  void (*write)(int http_status, const Status& status, std::string_view request_id,
                JsonWriter* json);
  const char* schema;  // its name in /openapi.json

  // {"error": {"message", "type", "param", "code"}, "detail"}: the last is what Voyage's client
  // reads
  static const ErrorBody kOpenAi;
  // {"message", "detail", "field", "code", "id"}: what Cohere's and Jina's clients read
  static const ErrorBody kRerank;
  static const ErrorBody kTei;     // {"error", "error_type", "field"}
  static const ErrorBody kOllama;  // {"error"}
  // {"error"}, the message: what Triton's and KServe's clients read
  static const ErrorBody kKserve;
  // {"type": "error", "error": {"type", "message"}, "request_id"}
  static const ErrorBody kAnthropic;
};

namespace error_bodies {
void WriteOpenAi(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteRerank(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteTei(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteMessage(int http_status, const Status& status, std::string_view id, JsonWriter* json);
void WriteAnthropic(int http_status, const Status& status, std::string_view id, JsonWriter* json);
}  // namespace error_bodies

inline constexpr ErrorBody ErrorBody::kOpenAi = {error_bodies::WriteOpenAi, "OpenAiError"};
inline constexpr ErrorBody ErrorBody::kRerank = {error_bodies::WriteRerank, "RerankError"};
inline constexpr ErrorBody ErrorBody::kTei = {error_bodies::WriteTei, "TeiError"};
inline constexpr ErrorBody ErrorBody::kOllama = {error_bodies::WriteMessage, "OllamaError"};
inline constexpr ErrorBody ErrorBody::kKserve = {error_bodies::WriteMessage, "KserveError"};
inline constexpr ErrorBody ErrorBody::kAnthropic = {error_bodies::WriteAnthropic, "AnthropicError"};

// The HTTP status of a Status; see StatusCode.
int HttpStatusOf(StatusCode code);

// An error found by the server itself or by a route's parser, or returned by the Service. 429 and
// 503 carry Retry-After. `request_id` is part of kRerank.
http::HttpResponse PrintError(ErrorBody error_body, const Status& status,
                              std::string_view request_id);
// The same with an HTTP status that no StatusCode stands for (405, 408, 424, 431, ...).
http::HttpResponse PrintError(ErrorBody error_body, int http_status, const Status& status,
                              std::string_view request_id);

}  // namespace penstock::routes
