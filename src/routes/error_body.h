// How errors look on the wire: one Status, printed as the clients of each protocol expect it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "http/message.h"

namespace penstock {

enum class ErrorBody {
  // {"error": {"message", "type", "param", "code"}, "detail"}: the last is what Voyage's client
  // reads
  kOpenAi,
  kRerank,  // {"message", "detail", "field", "code", "id"}: what Cohere's and Jina's clients read
  kTei,     // {"error", "error_type", "field"}
  kOllama,  // {"error"}
};

// The HTTP status of a Status; see StatusCode.
int HttpStatusOf(StatusCode code);

// An error found by the server itself or by a route's parser, or returned by the Service. 429 and
// 503 carry Retry-After. `request_id` is part of kRerank.
HttpResponse PrintError(ErrorBody error_body, const Status& status, std::string_view request_id);
// The same with an HTTP status that no StatusCode stands for (405, 408, 424, 431, ...).
HttpResponse PrintError(ErrorBody error_body, int http_status, const Status& status,
                        std::string_view request_id);

// The Service names fields as the native types do; clients know their wire names.
using FieldNames = std::vector<std::pair<std::string_view, std::string_view>>;
// Renames field() and mentions of it ("'inputs'", "inputs[3]") in the message.
Status WithWireNames(const Status& status, const FieldNames& native_to_wire);

}  // namespace penstock
