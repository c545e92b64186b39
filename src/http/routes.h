// The route table. Each routes_*.cc holds the handlers of one dialect and contributes its rows; to
// add a route is to add a row.
//
// Handlers run on an io thread: parse, hand over to the Service, return. Printing happens on the io
// thread again, through Responder::Send.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
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
  Responder respond;

  void Fail(const Status& status) const;
  void Ok(std::string body, const char* content_type = "application/json") const;
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

// A Service callback that answers `call`: with the error, in the route's dialect and with the
// wire's field names, or with what print(response) gives, plus truncation headers where the
// response reports truncation.
template <typename Response, typename Print>
Callback<Response> Answer(const RouteCall& call, FieldNames native_to_wire, Print print) {
  native_to_wire.emplace_back("bulk_run", kBulkIdHeader);
  return [respond = call.respond, request = call.request, dialect = call.route->dialect,
          stages = call.service->limits().run_stages, names = std::move(native_to_wire),
          print = std::move(print)](Expected<Response> result) {
    auto shared = std::make_shared<Expected<Response>>(std::move(result));
    respond.Send([shared, request, dialect, stages, names, print]() -> HttpResponse {
      if (!shared->ok()) {
        return PrintError(dialect, WithWireNames(shared->status(), names), request->id);
      }
      HttpResponse response;
      response.body = print(shared->value());
      if constexpr (requires { shared->value().truncation; }) {
        AddTruncationHeaders(shared->value().truncation, &response);
      }
      if (stages != RunStages::kAll) {
        response.headers.emplace_back("X-Penstock-Run-Stages",
                                      stages == RunStages::kInfer ? "infer" : "tokenize");
      }
      return response;
    });
  };
}

}  // namespace penstock
