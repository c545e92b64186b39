// The route table. Each routes_*.cc holds the handlers of one dialect and contributes its rows; to
// add a route is to add a row.
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
#include "http/dialect.h"
#include "http/fields.h"
#include "http/message.h"
#include "http/server.h"
#include "metrics/metrics.h"

namespace penstock {

struct Route;

// One request at its handler.
struct RouteCall {
  Service* service;
  Metrics* metrics;
  const ServerOptions* options;
  const Route* route;
  std::shared_ptr<const HttpRequest> request;
  std::string body;  // freed once the handler has returned
  Responder respond;

  void Fail(const Status& status) const;
  void Ok(std::string text, const char* content_type = "application/json") const;
};

// Whose key a route asks for; see RequestPolicy::CheckKey.
enum class RouteFor {
  kUsers,
  kEveryone,  // none, and it answers whatever host is named
  kMonitors,  // kAdmins with --admin-metrics, else kUsers
  kAdmins,    // that of an administrator, where there are such keys, else kUsers
};

struct Route {
  const char* method;  // "GET" (answers HEAD too) or "POST"
  const char* path;    // ends with '*' = whatever follows, slashes too
  Dialect dialect;
  void (*handle)(const RouteCall& call);
  RouteFor who = RouteFor::kUsers;
  bool lines = false;  // answers in lines too (embed_lines.h), where the request asks for it
};

std::span<const Route> OpenAiRoutes();
std::span<const Route> RerankRoutes();
std::span<const Route> TeiRoutes();
std::span<const Route> ClassifyRoutes();
std::span<const Route> BulkRoutes();
std::span<const Route> MetaRoutes();  // index, health, readiness, metrics, statistics

// Names the bulk run that a request belongs to.
inline constexpr std::string_view kBulkIdHeader = "X-Penstock-Bulk-Id";

// All rows, most specific first.
const std::vector<Route>& AllRoutes();

// The part of the path that the '*' of `route` stands for.
std::string_view PathRest(const Route& route, std::string_view path);

// An answer up to this size is printed on the io thread.
inline constexpr size_t kPrintOnIoBytesMax = 64 << 10;

// About the bytes of a response, printed.
template <typename Response>
size_t PrintedBytes(const Response& response) {
  if constexpr (
      requires { response.token_counts; } || requires { response.dimensions; }) {
    return response.values.size() * 12;
  } else if constexpr (requires { response.items; }) {
    return response.items.size() * 50;
  } else if constexpr (requires { response.scores; }) {
    return response.scores.size() * 12;
  } else if constexpr (requires { response.labels; }) {
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

// X-Penstock-Run-Stages, where the answer is worthless since a stage was left out.
void AddRunStages(const Service& service, HttpResponse* response);

// A Service callback that answers `call`: with the error, in the route's dialect and with the
// wire's field names, or with what print(response) gives, plus truncation headers where the
// response reports truncation. `repeated_bytes`: of the request, that the answer repeats.
template <typename Response, typename Print>
Callback<Response> Answer(const RouteCall& call, FieldNames native_to_wire, Print print,
                          size_t repeated_bytes = 0) {
  native_to_wire.emplace_back("bulk_run", kBulkIdHeader);
  return [respond = call.respond, request = call.request, dialect = call.route->dialect,
          service = call.service, names = std::move(native_to_wire), print = std::move(print),
          repeated_bytes](Expected<Response> result) {
    const size_t bytes = result.ok() ? PrintedBytes(*result) + repeated_bytes : 0;
    auto shared = std::make_shared<Expected<Response>>(std::move(result));
    auto make = [shared, request, dialect, service, names, print]() -> HttpResponse {
      if (!shared->ok()) {
        return PrintError(dialect, WithWireNames(shared->status(), names), request->id);
      }
      HttpResponse response;
      response.body = print(shared->value());
      if constexpr (requires { shared->value().truncation; }) {
        AddTruncationHeaders(shared->value().truncation, &response);
      }
      AddRunStages(*service, &response);
      return response;
    };
    if (bytes <= kPrintOnIoBytesMax) return respond.Send(std::move(make));
    service->FinishOnWorker(request->context.priority, bytes,
                            [respond, request, dialect, make = std::move(make)] {
                              try {
                                respond.Send(make());
                              } catch (...) {
                                respond.Send(PrintError(dialect, ExceptionStatus(), request->id));
                              }
                            });
  };
}

}  // namespace penstock
