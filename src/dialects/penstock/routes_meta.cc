// Health, readiness, metrics, statistics, the index and the OpenAPI document. None of them touches
// a model.
#include "dialects/schemas.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "http/accept.h"
#include "http/gzip.h"
#include "json/json_writer.h"
#include "metrics/metric_aliases.h"
#include "serving/docs_page.h"
#include "serving/openapi.h"
#include "serving/route_table.h"
#include "telemetry/print_stats.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::PrintDocsPage;
using serving::PrintOpenApi;
using serving::Route;
using serving::RouteCall;

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
  call.Ok(telemetry::PrintStats(call.service->GetStats(), call.options->stage_timers));
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
  for (const Route& route : call.table->routes()) {
    json.String(std::string(route.method) + " " + route.path);
  }
  json.EndArray().EndObject();
  call.Ok(std::move(body));
}

// There is one table, so it never changes.
void OpenApi(const RouteCall& call) {
  static const std::string document = PrintOpenApi(call.table->routes(), kSchemas);
  call.Ok(document);
}

// Nor does this.
void Docs(const RouteCall& call) {
  static const std::string page = PrintDocsPage(call.table->routes());
  http::HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
  response.body = page;
  call.respond.Send(std::move(response));
}

constexpr Route kMetaRoutes[] = {
    {"GET", "/", kTeiErrors, Index, About("The models and the routes", nullptr, "Index")},
    {"GET", "/docs", kTeiErrors, Docs,
     About("A page with the routes", nullptr, nullptr, nullptr, 200, "text/html")},
    {"GET", "/openapi.json", kTeiErrors, OpenApi, About("This document", nullptr, "OpenApi")},
    {"GET", "/health", kTeiErrors, Live, About("200 while the process lives", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/healthz", kTeiErrors, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/livez", kTeiErrors, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/ping", kTeiErrors, Live, About("The same as /health", nullptr, "State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/readyz", kTeiErrors, Ready,
     About("503 while models to preload are being loaded, or one failed to", nullptr, "State")
         .Fails("State"),
     frontend::RouteFor::kEveryone},
    {"GET", "/metrics", kTeiErrors, RenderMetrics,
     About("Counters and histograms in Prometheus text format 0.0.4"),
     frontend::RouteFor::kMonitors},
    {"GET", "/metrics/router", kTeiErrors, RenderRouterMetrics,
     About("The gauges by which routers choose a replica, in 2 KB at most"),
     frontend::RouteFor::kMonitors},
    {"GET", "/v1/stats", kTeiErrors, GetStats,
     About("Where the time of requests goes", nullptr, "Stats"), frontend::RouteFor::kMonitors},
    {"POST", "/v1/stats/reset", kTeiErrors, ResetStats,
     About("The statistics begin a new window", nullptr, "State"), frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const serving::Route> MetaRoutes() { return kMetaRoutes; }

}  // namespace penstock::dialects
