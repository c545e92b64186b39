// The web page (src/ui/page), and what it shows besides the statistics: the events of a LiveFeed,
// and the requests that were slow or failed.
#include <cmath>

#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "http/accept.h"
#include "json/json_writer.h"
#include "live/live_feed.h"
#include "ui/ui_files.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

// The page runs its own files alone, talks to its own server alone, and stands in no frame. (Fetch,
// CSP Level 3.)
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'";

bool HasEtag(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

void SendFile(const RouteCall& call, const ui::UiFile& file) {
  http::HttpResponse response;
  response.content_type = file.content_type;
  auto& headers = response.headers;
  // Files change with the program, so they are kept and asked for again.
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("ETag", file.etag);
  headers.emplace_back("Vary", "Accept, Accept-Encoding");
  headers.emplace_back("Content-Security-Policy", kContentSecurityPolicy);
  headers.emplace_back("Referrer-Policy", "no-referrer");
  headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (HasEtag(call.request->Header("if-none-match"), file.etag)) {
    response.status = 304;
  } else if (!file.gzip.empty() && http::AcceptsGzip(call.request->Header("accept-encoding"))) {
    headers.emplace_back("Content-Encoding", "gzip");
    response.body = file.gzip;
  } else {
    response.body = file.text;
  }
  call.respond.Send(std::move(response));
}

void Page(const RouteCall& call) {
  if (call.request->path == "/ui/") {  // the page's links are relative to "/ui"
    http::HttpResponse response;
    response.status = 308;
    response.headers.emplace_back("Location", "../ui");
    return call.respond.Send(std::move(response));
  }
  SendFile(call, *ui::FindUiFile(ui::kUiPage));
}

void PageFile(const RouteCall& call) {
  const ui::UiFile* const file = ui::FindUiFile(call.PathPart(0));
  if (file == nullptr) return call.Fail(Status::NotFound("the page has no such file"));
  SendFile(call, *file);
}

void Watch(const RouteCall& call) {
  const Status status = call.live->Watch(*call.request, call.respond);
  if (!status.ok()) call.Fail(status);
}

double Ms(int64_t ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

void WriteSlow(const frontend::SlowRequest& slow, JsonWriter* json) {
  json->BeginObject().Field("unix_ms", slow.end_unix_ms);
  json->Field("ms", std::round(slow.ms * 1e3) / 1e3).Field("method", slow.method);
  json->Field("route", slow.path).Field("status", slow.status);
  json->Field("bytes_in", slow.bytes_in).Field("bytes_out", slow.bytes_out);
  json->Field("request_id", slow.id);
  if (slow.timed) {
    json->Field("model", slow.model).Field("rows", slow.rows).Field("tokens", slow.tokens);
    json->Key("stages").BeginObject();
    for (size_t s = 0; s < metrics::kStages; ++s) {
      json->Field(metrics::StageName(static_cast<metrics::Stage>(s)), Ms(slow.stage_ns[s]));
    }
    json->EndObject();
  }
  json->EndObject();
}

void Requests(const RouteCall& call) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("slow_request_ms", call.slow_log->limit().count());
  json.Field("slow_count", call.slow_log->count()).Key("slow").BeginArray();
  for (const frontend::SlowRequest& slow : call.slow_log->Kept()) WriteSlow(slow, &json);
  json.EndArray().Key("errors").BeginArray();
  for (const auto& [kind, count] : call.http_metrics->FailuresByKind()) {
    json.BeginObject().Field("kind", kind).Field("count", count).EndObject();
  }
  json.EndArray().Key("failures").BeginArray();
  for (const frontend::HttpMetrics::Failures& each : call.http_metrics->FailuresByRoute()) {
    json.BeginObject();
    if (each.route >= 0) {
      const Route& route = call.table->routes()[static_cast<size_t>(each.route)];
      json.Field("method", route.method).Field("route", route.path);
    }
    json.Field("status", each.status).Field("kind", frontend::FailureKind(each.status));
    json.Field("count", each.count).EndObject();
  }
  json.EndArray().EndObject();
  call.Ok(std::move(body));
}

constexpr Route kUiRoutes[] = {
    {"GET", "/ui", kTeiErrors, Page,
     About("The web page; / answers with it too, where text/html is asked for", nullptr, nullptr,
           nullptr, 200, "text/html"),
     frontend::RouteFor::kVisitors},
    {"GET", "/ui/{file}", kTeiErrors, PageFile,
     About("A file of the web page", nullptr, nullptr, nullptr, 200, "*/*"),
     frontend::RouteFor::kVisitors},
    {"GET", "/v1/live", kTeiErrors, Watch,
     About("What happens, second by second: events until the client leaves", nullptr, nullptr,
           "LiveEvent", 200, ""),
     frontend::RouteFor::kMonitors, nullptr, true},
    {"GET", "/v1/requests", kTeiErrors, Requests,
     About("Requests that were slow; errors by kind and by route", nullptr, "Requests"),
     frontend::RouteFor::kMonitors},
};

}  // namespace

std::span<const serving::Route> UiRoutes() { return kUiRoutes; }

}  // namespace penstock::dialects
