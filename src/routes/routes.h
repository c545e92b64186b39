// The route table. Each routes_*.cc holds the handlers of one API and its rows; a new route is a
// new row.
//
// Handlers run on an io thread, or on a worker where the body is large: parse, hand over to the
// Service, return. Small answers are printed on the io thread, through Responder::Send, large ones
// on a worker.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
#include "common/exception_status.h"
#include "frontend/http_metrics.h"
#include "frontend/request_policy.h"
#include "frontend/route_info.h"
#include "frontend/slow_log.h"
#include "frontend/wire_names.h"
#include "http/message.h"
#include "http/server_options.h"
#include "metrics/metrics.h"
#include "routes/error_body.h"
#include "routes/fields.h"

namespace penstock::routes {

class BatchRunner;  // routes/batch_runner.h
struct Route;
class LiveFeed;

// One request at its handler.
struct RouteCall {
  api::Service* service;
  metrics::Metrics* metrics;
  const http::ServerOptions* options;
  const Route* route;
  std::shared_ptr<const http::HttpRequest> request;
  mutable std::string body;  // freed once the handler has returned, unless it took it
  http::Responder respond;
  // Null for a request that comes from within (inner_call.h), and if the server keeps no batches.
  BatchRunner* batches = nullptr;
  // What routes of the web page show.
  LiveFeed* live = nullptr;
  const frontend::SlowLog* slow_log = nullptr;
  const frontend::HttpMetrics* http_metrics = nullptr;

  std::string TakeBody() const { return std::move(body); }
  // What the parts of the route's path stand for: path_pattern.h.
  std::string PathPart(size_t index) const;
  void Fail(const Status& status) const;
  void Ok(std::string text, const char* content_type = "application/json") const;
};

// What /openapi.json and /docs say of a route. Schemas are names of routes/schemas/*.json.
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

  const char* summary;
  const char* request;  // schema of the body; null: none is read
  const char* answer;   // schema of a 200; null: text
  const char* event;    // schema of an event of an answer in events; null: none
  int status;           // of the answer: another where the route does nothing but refuse
  const char* type;     // of an answer without a schema; "": there is none but events
};

struct Route : frontend::RouteInfo {
  constexpr Route(const char* method_in, const char* path_in, ErrorBody error_body_in,
                  void (*handle_in)(const RouteCall& call), const About& about_in,
                  frontend::RouteFor who_in = frontend::RouteFor::kUsers, bool lines_in = false,
                  size_t (*json_bytes_in)(const http::HttpRequest& request,
                                          size_t body_bytes) = nullptr,
                  bool endless_in = false)
      : frontend::RouteInfo{method_in, path_in, who_in, lines_in, endless_in},
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

// Parses the body, once, for a handler of its object.
template <void (*kHandle)(const RouteCall& call, const JsonObject& object)>
void WithObject(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  kHandle(call, body->object());
}

std::span<const Route> OpenAiRoutes();
std::span<const Route> ChatRoutes();
std::span<const Route> ResponsesRoutes();  // of OpenAI
std::span<const Route> MessagesRoutes();   // of Anthropic
std::span<const Route> TgiRoutes();
std::span<const Route> CohereRoutes();
std::span<const Route> RerankRoutes();
std::span<const Route> TeiRoutes();
std::span<const Route> VertexRoutes();
std::span<const Route> VllmRoutes();
std::span<const Route> LlamaRoutes();  // of llama.cpp's server
std::span<const Route> ClassifyRoutes();
std::span<const Route> BulkRoutes();
std::span<const Route> BatchRoutes();  // files, too
std::span<const Route> OllamaRoutes();
std::span<const Route> PullRoutes();    // Ollama's pull and delete
std::span<const Route> ModelRoutes();   // loading and unloading
std::span<const Route> KserveRoutes();  // tensor models
std::span<const Route> UiRoutes();      // the web page and what it watches
std::span<const Route> MetaRoutes();    // index, health, readiness, metrics, statistics

// Answers a request of text-generation-inference, which POST / takes too.
void AnswerTgi(const RouteCall& call, const JsonObject& object, bool streams);
// Answers a request of text-embeddings-inference ("texts") or of Jina ("documents"), each in its
// own form; errors in that of the route.
void AnswerRerank(const RouteCall& call, const JsonObject& object);

// All rows, most specific first.
const std::vector<Route>& AllRoutes();
// The rows without their handlers, in the same order.
std::vector<frontend::RouteInfo> AllRouteInfos();

// An answer up to this size is printed on the io thread.
inline constexpr size_t kPrintOnIoBytesMax = 64 << 10;

// Estimated bytes of the printed response.
template <typename Response>
size_t PrintedBytes(const Response& response) {
  if constexpr (requires { response.values; }) {
    return response.values.size() * 12;
  } else if constexpr (requires { response.items; }) {
    return response.items.size() * 50;
  } else if constexpr (requires { response.scores; }) {
    return response.scores.size() * 12;
  } else if constexpr (requires {
                         response.inputs;
                         response.labels;
                       }) {
    return response.inputs.size() * response.labels.size() * 60;
  } else if constexpr (requires { response.texts; }) {
    size_t bytes = 0;
    for (const std::string& text : response.texts) bytes += text.size();
    return bytes;
  } else if constexpr (requires { response.inputs; }) {
    size_t tokens = 0;
    for (const auto& input : response.inputs) tokens += input.size();
    return tokens * 72;
  } else {
    return 0;
  }
}

// Adds X-Penstock-Run-Stages where a stage was left out, which makes the answer worthless.
void AddRunStages(const api::Service& service, http::HttpResponse* response);

// A Service callback that answers `call`: with the error in the route's error body and with wire
// field names, or with print(response) and, where the response reports truncation, its headers.
// `repeated_bytes`: bytes of the request that the answer repeats.
template <typename Response, typename Print>
api::Callback<Response> Answer(const RouteCall& call, frontend::FieldNames native_to_wire,
                               Print print, size_t repeated_bytes = 0) {
  native_to_wire.emplace_back("bulk_run", frontend::kBulkIdHeader);
  return [respond = call.respond, request = call.request, error_body = call.route->error_body,
          service = call.service, names = std::move(native_to_wire), print = std::move(print),
          repeated_bytes](Expected<Response> result) {
    const size_t bytes = result.ok() ? PrintedBytes(*result) + repeated_bytes : 0;
    auto shared = std::make_shared<Expected<Response>>(std::move(result));
    auto make = [shared, request, error_body, service, names, print]() -> http::HttpResponse {
      if (!shared->ok()) {
        return PrintError(error_body, frontend::WithWireNames(shared->status(), names),
                          request->id);
      }
      http::HttpResponse response;
      response.body = print(shared->value());
      if constexpr (requires { shared->value().truncation; }) {
        AddTruncationHeaders(shared->value().truncation, &response);
      }
      AddRunStages(*service, &response);
      return response;
    };
    if (bytes <= kPrintOnIoBytesMax) return respond.Send(std::move(make));
    service->FinishOnWorker(
        request->context.priority, bytes, [respond, request, error_body, make = std::move(make)] {
          try {
            respond.Send(make());
          } catch (...) {
            respond.Send(PrintError(error_body, ExceptionStatus(), request->id));
          }
        });
  };
}

}  // namespace penstock::routes
