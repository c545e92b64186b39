// How errors look on the wire: one Status, printed as the clients of each dialect expect it.
#pragma once

#include <string_view>

#include "base/status.h"
#include "http/message.h"
#include "json/json_writer.h"

namespace penstock::serving {

// The body of an error in one dialect.
struct ErrorBody {
  // Writes the members of the body's object.
  void (*write)(int http_status, const Status& status, std::string_view request_id,
                JsonWriter* json);
  const char* schema;  // its name in /openapi.json
};

// The HTTP status of a Status; see StatusCode.
int HttpStatusOf(StatusCode code);

// An error found by the server itself or by a route's parser, or returned by the Service. 429 and
// 503 carry Retry-After. Some forms have `request_id`.
http::HttpResponse PrintError(ErrorBody error_body, const Status& status,
                              std::string_view request_id);
// The same with an HTTP status that no StatusCode stands for (405, 408, 424, 431, ...).
http::HttpResponse PrintError(ErrorBody error_body, int http_status, const Status& status,
                              std::string_view request_id);

}  // namespace penstock::serving
