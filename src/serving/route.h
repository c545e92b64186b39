// Route: a row of the table of routes, and one request at its handler. The rows of a dialect
// stand in dialects/NAME/routes_*.cc; a new route is a new row.
//
// Handlers run on an io thread, or on a worker where the body is large: parse, hand over to the
// Service, return.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/service.h"
#include "frontend/http_metrics.h"
#include "frontend/route_info.h"
#include "frontend/slow_log.h"
#include "http/message.h"
#include "http/server_options.h"
#include "metrics/metrics.h"
#include "serving/error_body.h"

namespace penstock::batch_api {
class BatchRunner;
}  // namespace penstock::batch_api

namespace penstock::live {
class LiveFeed;
}  // namespace penstock::live

namespace penstock::serving {

struct Route;
class RouteTable;

// One request at its handler.
struct RouteCall {
  api::Service* service;
  metrics::Metrics* metrics;
  const http::ServerOptions* options;
  const Route* route;
  const RouteTable* table;
  std::shared_ptr<const http::HttpRequest> request;
  mutable std::string body;  // freed once the handler has returned, unless it took it
  http::Responder respond;
  // Null for a request that comes from within (inner_call.h), and if the server keeps no batches.
  batch_api::BatchRunner* batches = nullptr;
  // What routes of the web page show.
  live::LiveFeed* live = nullptr;
  const frontend::SlowLog* slow_log = nullptr;
  const frontend::HttpMetrics* http_metrics = nullptr;

  // The same call without its body, for what goes on after the handler.
  RouteCall WithoutBody() const;
  std::string TakeBody() const { return std::move(body); }
  // What the parts of the route's path stand for: path_pattern.h.
  std::string PathPart(size_t index) const;
  void Fail(const Status& status) const;
  void Ok(std::string text, const char* content_type = "application/json") const;
};

// What /openapi.json and /docs say of a route. Schemas are names in dialects/*/schema*.json.
struct About {
  constexpr explicit About(const char* summary_in, const char* request_in = nullptr,
                           const char* answer_in = nullptr, const char* event_in = nullptr,
                           int status_in = 200, const char* type_in = "text/plain")
      : summary(summary_in),
        request(request_in),
        answer(answer_in),
        event(event_in),
        status(status_in),
        type(type_in) {}

  // What few rows have, told after the rest: About(...).Query("Model").
  constexpr About RequestType(const char* content_type) const {
    About with = *this;
    with.request_type = content_type;
    return with;
  }
  constexpr About AnswerType(const char* content_type) const {
    About with = *this;
    with.answer_type = content_type;
    return with;
  }
  constexpr About Lines(const char* schema) const {
    About with = *this;
    with.line = schema;
    return with;
  }
  constexpr About Fails(const char* schema) const {
    About with = *this;
    with.error = schema;
    return with;
  }
  constexpr About Query(const char* parameter) const {
    About with = *this;
    with.query = parameter;
    return with;
  }

  const char* summary;
  const char* request;  // schema of the body; null: the route reads none
  const char* answer;   // schema of the answer; null: it is text
  const char* event;    // schema of an event in an event stream; null: the route sends none
  int status;           // HTTP status of the answer: not 200 if the route refuses every request
  const char* type;     // content type where `answer` is null; "": the route sends only events
  const char* request_type = "application/json";
  const char* answer_type = "application/json";
  const char* line = nullptr;   // schema of a line of an answer in lines; null: no such answer
  const char* error = nullptr;  // schema of an error; null: that of the dialect's errors
  const char* query = nullptr;  // name of a parameter of the query, as openapi.cc has them
};

struct Route : frontend::RouteInfo {
  constexpr Route(const char* method_in, const char* path_in, ErrorBody error_body_in,
                  void (*handle_in)(const RouteCall& call), const About& about_in,
                  frontend::RouteFor who_in = frontend::RouteFor::kUsers,
                  size_t (*json_bytes_in)(const http::HttpRequest& request,
                                          size_t body_bytes) = nullptr,
                  bool endless_in = false)
      : frontend::RouteInfo{method_in, path_in, who_in, about_in.line != nullptr, endless_in},
        error_body(error_body_in),
        handle(handle_in),
        about(about_in),
        json_bytes(json_bytes_in) {}

  ErrorBody error_body;
  void (*handle)(const RouteCall& call);
  About about;
  // Bytes of the body that are JSON, where data that are not parsed stand behind it. Null: all.
  size_t (*json_bytes)(const http::HttpRequest& request, size_t body_bytes);
};

}  // namespace penstock::serving
