#include "serving/router.h"

#include <algorithm>

#include "http/accept.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "metrics/stages.h"
#include "serving/inner_call.h"
#include "serving/load_report.h"
#include "serving/path_pattern.h"
#include "threads/byte_budget.h"

namespace penstock::serving {
namespace {

// A body up to this size is parsed on the io thread: in less than a millisecond.
constexpr size_t kParseOnIoBytesMax = 256 << 10;

bool Matches(const Route& route, std::string_view path) {
  return MatchPath(route.path, path).has_value();
}

bool HasBody(const http::HttpRequest& request) {
  const std::string_view length = request.Header("content-length");
  return (!length.empty() && length != "0") || !request.Header("transfer-encoding").empty();
}

size_t JsonBytes(const RouteCall& call) {
  const size_t bytes = call.body.size();
  return call.route->json_bytes == nullptr ? bytes : call.route->json_bytes(*call.request, bytes);
}

}  // namespace

Router::Router(api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
               const RouteTable& table, std::shared_ptr<const frontend::KeyRing> keys,
               batch_api::BatchRunner* batches, std::chrono::milliseconds live_interval)
    : service_(service),
      metrics_(metrics),
      options_(options),
      table_(table),
      batches_(batches),
      policy_(options, table.infos(), std::move(keys)),
      http_metrics_(metrics, table.infos()),
      finished_log_(options.access_log,
                    std::make_shared<frontend::SlowLog>(options.slow_request, metrics)),
      live_(service, &http_metrics_, options, live_interval) {}

Router::Match Router::Find(const http::HttpRequest& request) const {
  const std::string_view method = request.method;
  std::string_view path = request.path;
  // A browser that asks for the server itself gets the page, a program the index.
  const bool reads = method == "GET" || method == "HEAD";
  if (path == "/ui/" || (path == "/" && reads && http::WantsHtml(request.Header("accept")))) {
    path = "/ui";
  }
  Match match;
  // A pattern with fewer letters than the first match would take that one's last words for a part
  // of a model's name.
  size_t letters = 0;
  for (size_t i = 0; i < table_.routes().size(); ++i) {
    const Route& route = table_.routes()[i];
    if (!Matches(route, path) || LiteralLength(route.path) < letters) continue;
    letters = LiteralLength(route.path);
    const std::string_view has = route.method;
    if (has == method || (has == "GET" && method == "HEAD")) {
      match.route = static_cast<int32_t>(i);
      return match;
    }
    if (match.allow.find(has) == std::string::npos) {
      match.allow += std::string(has) + ", " + (has == "GET" ? "HEAD, " : "");
    }
  }
  if (!match.allow.empty()) match.allow += "OPTIONS";
  return match;
}

ErrorBody Router::ErrorBodyOf(const http::HttpRequest& request) const {
  if (request.route >= 0) return table_.routes()[static_cast<size_t>(request.route)].error_body;
  for (const Route& route : table_.routes()) {  // the method may be wrong
    if (Matches(route, request.path)) return route.error_body;
  }
  return table_.ErrorsOf(request.path);
}

const Route* Router::RouteOf(const http::HttpRequest& request) const {
  return request.route >= 0 ? &table_.routes()[static_cast<size_t>(request.route)] : nullptr;
}

std::string Router::RouteName(const http::HttpRequest& request) const {
  const Route* const route = RouteOf(request);
  return route == nullptr ? "no route" : std::string(route->method) + " " + route->path;
}

http::HttpResponse Router::Refuse(const http::HttpRequest& request,
                                  const frontend::RequestPolicy::Refusal& refusal) {
  if (refusal.key_reason != nullptr) {
    http_metrics_.keys_refused(refusal.key_reason).Add();
    if (const auto left_out = refused_keys_.Pass()) {
      LogInfo("key refused ({}): {}, id {}, from {}{}", refusal.key_reason, RouteName(request),
              request.id, request.remote, LogLimit::LeftOut(*left_out));
    }
  }
  return PrintError(ErrorBodyOf(request), refusal.http_status, refusal.status, request.id);
}

std::optional<http::HttpResponse> Router::Check(http::HttpRequest* request) {
  const Match match = Find(*request);
  request->route = match.route;
  const Route* const route = RouteOf(*request);
  if (route == nullptr || route->who != frontend::RouteFor::kEveryone) {
    if (const auto refusal = policy_.CheckHost(*request)) return Refuse(*request, *refusal);
  }
  if (request->method == "OPTIONS") return Preflight(*request, match.allow);
  if (const auto refusal = policy_.CheckKey(request, route)) return Refuse(*request, *refusal);
  if (match.route < 0 && !match.allow.empty()) {
    http::HttpResponse response = PrintError(
        ErrorBodyOf(*request), 405,
        Status::InvalidArgument("this path does not take " + request->method.substr(0, 32) +
                                "; it takes " + match.allow),
        request->id);
    response.headers.emplace_back("Allow", match.allow);
    return response;
  }
  if (match.route < 0) {
    return PrintError(ErrorBodyOf(*request),
                      Status::NotFound("there is no route " + request->path.substr(0, 200) +
                                       "; GET / lists them"),
                      request->id);
  }
  if (const auto refusal = policy_.CheckOrigin(*request)) return Refuse(*request, *refusal);
  if (const Status status = policy_.Apply(request); !status.ok()) {
    return PrintError(ErrorBodyOf(*request), status, request->id);
  }
  return std::nullopt;
}

std::optional<http::HttpResponse> Router::OnHeader(http::HttpRequest* request) {
  AddCors(request);
  AddLoadReport(metrics_->router(), request);
  if (auto refusal = Check(request)) return refusal;
  // Before a body is read. What has none, and what administrators ask for, may make room.
  if (HasBody(*request) && RouteOf(*request)->who == frontend::RouteFor::kUsers) {
    const Status status = service_->CheckMemory(request->context.priority);
    if (!status.ok()) return PrintError(ErrorBodyOf(*request), status, request->id);
  }
  // What asks for no key leaves memory to what does.
  const frontend::RouteFor who = RouteOf(*request)->who;
  const bool open = who == frontend::RouteFor::kEveryone || who == frontend::RouteFor::kVisitors;
  request->context.memory =
      service_->NewRequestMemory(open ? Priority::kBulk : request->context.priority);
  return std::nullopt;
}

namespace {

void Handle(const RouteCall& call) {
  try {
    call.route->handle(call);
  } catch (...) {
    call.Fail(ExceptionStatus());
  }
}

// Handles a large body on a worker; client or deadline may be gone by then.
void HandleLarge(const RouteCall& call) {
  const RequestContext& context = call.request->context;
  const Status wanted =
      context.CheckWanted(Clock::now(), "the request's time ran out before its body was read");
  if (!wanted.ok()) return call.Fail(wanted);
  ScopedMemory parsing(context.memory.get());
  const Status taken = parsing.Take(static_cast<int64_t>(JsonBytes(call)) * kParseMemoryPerByte);
  if (!taken.ok()) return call.Fail(taken);
  Handle(call);
}

}  // namespace

void Router::OnRequest(std::shared_ptr<const http::HttpRequest> request, std::string body,
                       http::Responder respond) {
  const Route& route = table_.routes()[static_cast<size_t>(request->route)];
  RouteCall call{service_,
                 metrics_,
                 &options_,
                 &route,
                 &table_,
                 std::move(request),
                 std::move(body),
                 std::move(respond),
                 batches_,
                 &live_,
                 finished_log_.slow_log().get(),
                 &http_metrics_};
  const size_t bytes = JsonBytes(call);
  if (bytes <= kParseOnIoBytesMax) return Handle(call);
  const Priority priority = call.request->context.priority;
  const auto shared = std::make_shared<RouteCall>(std::move(call));
  const Status taken = service_->RunOnWorker(priority, bytes, [shared] {
    HandleLarge(*shared);
    std::string().swap(shared->body);
  });
  if (!taken.ok()) shared->Fail(taken);
}

http::HttpResponse Router::OnError(const http::HttpRequest& request, int status,
                                   const std::string& message) {
  StatusCode code = StatusCode::kInvalidArgument;
  if (status == 413) code = StatusCode::kPayloadTooLarge;
  if (status == 429) code = StatusCode::kResourceExhausted;
  if (status == 500) code = StatusCode::kInternal;
  if (status == 503) {
    const auto& cancel = request.context.cancel;
    const bool ends = cancel != nullptr && cancel->cause() == CancelToken::Cause::kShutdown;
    code = ends ? StatusCode::kUnavailable : StatusCode::kDeadlineExceeded;
  }
  const int retry_after_s = status == 429 ? 1 : 0;
  return PrintError(ErrorBodyOf(request), status,
                    Status(code, message).WithRetryAfter(retry_after_s), request.id);
}

http::HttpResponse Router::Preflight(const http::HttpRequest& request,
                                     const std::string& allow) const {
  http::HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow",
                                allow.empty() ? "GET, HEAD, POST, DELETE, OPTIONS" : allow);
  if (!options_.cors_allow_origins.empty() && !request.Header("origin").empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods",
                                  "GET, HEAD, POST, DELETE, OPTIONS");
    // Asked for by the browser for this very request; a header name is a token, so it is safe.
    const std::string_view asked = request.Header("access-control-request-headers");
    response.headers.emplace_back(
        "Access-Control-Allow-Headers",
        asked.empty()
            ? "authorization, content-type, x-penstock-bulk-id, x-penstock-priority, x-request-id, "
              "x-request-timeout-ms"
            : std::string(asked));
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return response;
}

void Router::AddCors(http::HttpRequest* request) const {
  const auto& origins = options_.cors_allow_origins;
  if (origins.empty()) return;
  auto& headers = request->response_headers;
  const bool any = std::find(origins.begin(), origins.end(), "*") != origins.end();
  const std::string origin(request->Header("origin"));
  if (!any) {
    headers.emplace_back("Vary", "Origin");
    if (std::find(origins.begin(), origins.end(), origin) == origins.end()) return;
  }
  headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : origin);
  headers.emplace_back("Access-Control-Expose-Headers",
                       "X-Request-Id, Retry-After, X-Penstock-Truncated-Inputs, "
                       "X-Penstock-Truncated-Tokens, X-Penstock-Unread-Bytes, "
                       "X-Penstock-Ignored-Options");
}

void Router::OnDone(const http::HttpRequest& request, int status, size_t body_bytes,
                    int64_t items) {
  const auto now = Clock::now();
  const Route* const route = RouteOf(request);
  const bool endless = route != nullptr && route->endless;
  if (endless && status == 499) status = 200;
  const double seconds = std::chrono::duration<double>(now - request.begin).count();
  http_metrics_.CountRequest(request.route, status, seconds);
  if (metrics::RequestTrace* const trace = request.context.trace.get()) {
    trace->Finish(now);
    // Requests that never reached a model (probes, refusals) would only blur the percentiles.
    if (trace->rows() > 0) service_->RecordTrace(*trace);
  }
  const frontend::RequestRecord record{&request, route, status, body_bytes, now, items};
  finished_log_.Write(record, status == 500);
}

void Router::OnBytes(size_t received, size_t sent) {
  if (received > 0) http_metrics_.received_bytes().Add(received);
  if (sent > 0) http_metrics_.sent_bytes().Add(sent);
}

}  // namespace penstock::serving
