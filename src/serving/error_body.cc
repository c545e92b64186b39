#include "serving/error_body.h"

#include <algorithm>

#include "json/json_writer.h"

namespace penstock::serving {

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
      return 400;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kPayloadTooLarge:
      return 413;
    case StatusCode::kUnprocessable:
      return 422;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 503;
    case StatusCode::kCancelled:
      return 499;
    case StatusCode::kUnsupported:
      return 422;
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

http::HttpResponse PrintError(ErrorBody error_body, const Status& status,
                              std::string_view request_id) {
  return PrintError(error_body, HttpStatusOf(status.code()), status, request_id);
}

http::HttpResponse PrintError(ErrorBody error_body, int http_status, const Status& status,
                              std::string_view request_id) {
  http::HttpResponse response;
  response.status = http_status;
  JsonWriter json(&response.body);
  json.BeginObject();
  error_body.write(http_status, status, request_id, &json);
  json.EndObject();
  if (http_status == 429 || http_status == 503) {
    response.headers.emplace_back("Retry-After",
                                  std::to_string(std::max(1, status.retry_after_s())));
  }
  if (http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace penstock::serving
