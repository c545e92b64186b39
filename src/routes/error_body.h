// How errors look on the wire: one Status, printed as the clients of each protocol expect it.
#pragma once

#include <string_view>

#include "common/status.h"
#include "http/message.h"

namespace penstock::routes {

enum class ErrorBody {
  // {"error": {"message", "type", "param", "code"}, "detail"}: the last is what Voyage's client
  // reads
  kOpenAi,
  kRerank,  // {"message", "detail", "field", "code", "id"}: what Cohere's and Jina's clients read
  kTei,     // {"error", "error_type", "field"}
  kOllama,  // {"error"}
  kKserve,  // {"error"}, the message: what Triton's and KServe's clients read
};

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
