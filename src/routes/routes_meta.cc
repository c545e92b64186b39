// Health, readiness, metrics, statistics, the index and the OpenAPI document. None of them touches
// a model.
#include <algorithm>

#include "common/json_writer.h"
#include "http/accept.h"
#include "http/gzip.h"
#include "metrics/metric_aliases.h"
#include "routes/docs_page.h"
#include "routes/openapi.h"
#include "routes/path_pattern.h"
#include "routes/routes.h"
#include "routes/stats.h"

namespace penstock::routes {
namespace {

void Live(const RouteCall& call) { call.Ok(R"({"status":"ok"})"); }

void Ready(const RouteCall& call) {
  http::HttpResponse response;
  const Status readiness = call.service->Readiness();
  JsonWriter json(&response.body);
  json.BeginObject().Field("status", readiness.ok() ? "ready" : "not ready");
  if (!readiness.ok()) {
    json.Field("reason", readiness.message());
    response.status = 503;
    response.headers.emplace_back("Retry-After", "1");
  }
  json.EndObject();
  call.respond.Send(std::move(response));
}

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string WithAliases(const RouteCall& call, std::string text) {
  return call.options->vllm_metrics ? text + metrics::VllmAliases(text) : std::move(text);
}

void RenderMetrics(const RouteCall& call) {
  http::HttpResponse response;
  response.content_type = kMetricsType;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  response.body = WithAliases(call, call.metrics->Render());
  if (http::AcceptsGzip(call.request->Header("accept-encoding"))) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = http::Gzip(response.body);
  }
  call.respond.Send(std::move(response));
}

void RenderRouterMetrics(const RouteCall& call) {
  call.Ok(WithAliases(call, call.metrics->router().Render()), kMetricsType);
}

void GetStats(const RouteCall& call) {
  call.Ok(PrintStats(call.service->GetStats(), call.options->stage_timers));
}

void ResetStats(const RouteCall& call) {
  call.service->ResetStats();
  call.Ok(R"({"status":"ok"})");
}

void Index(const RouteCall& call) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("name", "penstock").Field("version", PENSTOCK_VERSION);
  json.Field("ready", call.service->Ready()).Key("models").BeginArray();
  for (const api::ModelInfo& model : call.service->Models()) {
    json.BeginObject().Field("id", model.name).Field("task", model.task).EndObject();
  }
  json.EndArray().Key("routes").BeginArray();
  for (const Route& route : AllRoutes()) {
    json.String(std::string(route.method) + " " + route.path);
  }
  json.EndArray().EndObject();
  call.Ok(std::move(body));
}

// It never changes.
void OpenApi(const RouteCall& call) {
  static const std::string document = PrintOpenApi(AllRoutes());
  call.Ok(document);
}

// Nor does this.
void Docs(const RouteCall& call) {
  static const std::string page = PrintDocsPage(AllRoutes());
  http::HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
  response.body = page;
  call.respond.Send(std::move(response));
}

constexpr Route kMetaRoutes[] = {
    {"GET", "/", ErrorBody::kTei, Index, About("The models and the routes", nullptr, "Index")},
    {"GET", "/docs", ErrorBody::kTei, Docs,
     About("A page with the routes", nullptr, nullptr, nullptr, 200, "text/html")},
    {"GET", "/openapi.json", ErrorBody::kTei, OpenApi, About("This document", nullptr, "OpenApi")},
    {"GET", "/health", ErrorBody::kTei, Live,
     About("200 while the process lives", nullptr, "State"), frontend::RouteFor::kEveryone},
    {"GET", "/healthz", ErrorBody::kTei, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/livez", ErrorBody::kTei, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/ping", ErrorBody::kTei, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/readyz", ErrorBody::kTei, Ready,
     About("503 while models to preload are being loaded, or one failed to", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/metrics", ErrorBody::kTei, RenderMetrics,
     About("Counters and histograms in Prometheus text format 0.0.4"),
     frontend::RouteFor::kMonitors},
    {"GET", "/metrics/router", ErrorBody::kTei, RenderRouterMetrics,
     About("The gauges by which routers choose a replica, in 2 KB at most"),
     frontend::RouteFor::kMonitors},
    {"GET", "/v1/stats", ErrorBody::kTei, GetStats,
     About("Where the time of requests goes", nullptr, "Stats"), frontend::RouteFor::kMonitors},
    {"POST", "/v1/stats/reset", ErrorBody::kTei, ResetStats,
     About("The statistics begin a new window", nullptr, "State"), frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const Route> MetaRoutes() { return kMetaRoutes; }

namespace {

// Larger where a pattern is to be tried earlier: paths without parts, then those with more letters.
size_t Specificity(std::string_view pattern) {
  return PathPartNames(pattern).empty() ? SIZE_MAX : LiteralLength(pattern);
}

}  // namespace

const std::vector<Route>& AllRoutes() {
  static const std::vector<Route> routes = [] {
    std::vector<Route> all;
    for (const auto part :
         {OpenAiRoutes(), ChatRoutes(),   ResponsesRoutes(), MessagesRoutes(), TgiRoutes(),
          CohereRoutes(), RerankRoutes(), ClassifyRoutes(),  TeiRoutes(),      VertexRoutes(),
          VllmRoutes(),   LlamaRoutes(),  BatchRoutes(),     OllamaRoutes(),   PullRoutes(),
          BulkRoutes(),   ModelRoutes(),  KserveRoutes(),    UiRoutes(),       MetaRoutes()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    std::stable_sort(all.begin(), all.end(), [](const Route& a, const Route& b) {
      return Specificity(a.path) > Specificity(b.path);
    });
    return all;
  }();
  return routes;
}

std::vector<frontend::RouteInfo> AllRouteInfos() {
  return {AllRoutes().begin(), AllRoutes().end()};
}

void AddRunStages(const api::Service& service, http::HttpResponse* response) {
  const encode::RunStages stages = service.options().run_stages;
  if (stages == encode::RunStages::kAll) return;
  response->headers.emplace_back("X-Penstock-Run-Stages",
                                 stages == encode::RunStages::kInfer ? "infer" : "tokenize");
}

std::string RouteCall::PathPart(size_t index) const {
  return std::string(MatchPath(route->path, request->path).value_or(PathParts{})[index]);
}

void RouteCall::Fail(const Status& status) const {
  respond.Send(PrintError(route->error_body, status, request->id));
}

void RouteCall::Ok(std::string text, const char* content_type) const {
  http::HttpResponse response;
  response.content_type = content_type;
  response.body = std::move(text);
  respond.Send(std::move(response));
}

}  // namespace penstock::routes
