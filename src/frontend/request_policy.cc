#include "frontend/request_policy.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "common/duration.h"
#include "common/seeded_hash.h"
#include "http/accept.h"

namespace penstock {

bool IsPostRoute(std::string_view path, const std::vector<RouteInfo>& routes) {
  return std::any_of(routes.begin(), routes.end(), [&](const RouteInfo& route) {
    return path == route.path && std::string_view(route.method) == "POST";
  });
}

namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

// "text/plain" of "Text/Plain; charset=utf-8".
std::string MediaType(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && (content_type.back() == ' ' || content_type.back() == '\t')) {
    content_type.remove_suffix(1);
  }
  return Lower(content_type);
}

std::shared_ptr<const KeyRing> OrKeysOf(std::shared_ptr<const KeyRing> keys,
                                        const ServerOptions& options) {
  if (keys != nullptr) return keys;
  auto made = KeyRing::Make(options);
  PENSTOCK_CHECK(made.ok());
  return *std::move(made);
}

}  // namespace

RequestPolicy::RequestPolicy(const ServerOptions& options, const std::vector<RouteInfo>& routes,
                             std::shared_ptr<const KeyRing> keys)
    : timeout_max_(options.request_timeout),
      start_timeout_(options.stream_start_timeout),
      admin_metrics_(options.admin_metrics),
      cors_allow_origins_(options.cors_allow_origins),
      keys_(OrKeysOf(std::move(keys), options)),
      hosts_(options.allowed_hosts, !keys_->Get()->Required() && IsLoopback(options.host),
             options.host) {
  const auto& bulk = options.bulk_routes;
  for (const RouteInfo& route : routes) {
    bulk_routes_.push_back(std::find(bulk.begin(), bulk.end(), route.path) != bulk.end());
    line_routes_.push_back(route.lines);
  }
}

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckHost(const HttpRequest& request) const {
  if (hosts_.Allows(request.host)) return std::nullopt;
  return Refusal{403, Status(StatusCode::kUnauthenticated,
                             "the host '" + request.host.substr(0, 200) +
                                 "' is not served here; start the server with --allowed-host " +
                                 request.host.substr(0, 200) +
                                 " to serve it, or with --allowed-host '*' for any host")};
}

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckKey(HttpRequest* request,
                                                              const RouteInfo* route) const {
  if (route != nullptr &&
      (route->who == RouteFor::kEveryone || route->who == RouteFor::kVisitors)) {
    return std::nullopt;
  }
  const auto sets = keys_->Get();
  const bool for_admins =
      route != nullptr && !sets->admins.empty() &&
      (route->who == RouteFor::kAdmins || (route->who == RouteFor::kMonitors && admin_metrics_));
  if (!sets->Required() && !for_admins) return std::nullopt;
  const std::string_view key = ApiKeys::KeyOf(*request);
  const KeyRights rights = sets->RightsOf(key);
  request->key_number = rights.number;
  request->context.client_weight = rights.weight;
  if (!rights.known) {
    return Refusal{401,
                   Status(StatusCode::kUnauthenticated,
                          key.empty() ? "an API key is needed: Authorization: Bearer KEY"
                                      : "the API key is not valid"),
                   key.empty() ? "missing" : "unknown"};
  }
  if (for_admins && !rights.admin) {
    return Refusal{403,
                   Status(StatusCode::kUnauthenticated,
                          "this route asks for a key of an administrator (--admin-api-key)"),
                   "not_admin"};
  }
  return std::nullopt;
}

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckOrigin(const HttpRequest& request) const {
  if (request.method != "POST") return std::nullopt;
  const std::string_view site = request.Header("sec-fetch-site");
  const std::string_view origin = request.Header("origin");
  bool foreign = !site.empty() && site != "same-origin" && site != "none";
  if (site.empty() && !origin.empty()) {
    const size_t slashes = origin.find("://");
    foreign = slashes == std::string_view::npos ||
              Lower(origin.substr(slashes + 3)) != Lower(request.Header("host"));
  }
  if (!foreign) return std::nullopt;
  for (const std::string& allowed : cors_allow_origins_) {
    if (allowed == "*" || (allowed == origin && !origin.empty())) return std::nullopt;
  }
  const std::string type = MediaType(request.Header("content-type"));
  if (type == "text/plain" || type == "application/x-www-form-urlencoded" ||
      type == "multipart/form-data") {
    return Refusal{415,
                   Status::InvalidArgument("a web page of another origin must send Content-Type: "
                                           "application/json; --cors-allow-origin lets the page in",
                                           "Content-Type")};
  }
  if (type.empty()) {
    return Refusal{403, Status(StatusCode::kUnauthenticated,
                               "a web page of another origin must not do this; "
                               "--cors-allow-origin lets the page in")};
  }
  return std::nullopt;
}

Status RequestPolicy::Apply(HttpRequest* request) const {
  PENSTOCK_RETURN_IF_ERROR(SetDeadline(request));
  if (const std::string_view keep = request->Header("x-penstock-keep-alive"); !keep.empty()) {
    const auto duration = ParseDuration(keep);
    if (!duration.ok()) {
      return Status::InvalidArgument("X-Penstock-Keep-Alive: " + duration.status().message(),
                                     "X-Penstock-Keep-Alive");
    }
    request->context.keep_alive = *duration;
  }
  return SetPriority(request);
}

Status RequestPolicy::SetDeadline(HttpRequest* request) const {
  int64_t timeout_ms = timeout_max_.count();
  if (const std::string_view text = request->Header("x-request-timeout-ms"); !text.empty()) {
    int64_t asked_ms = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), asked_ms);
    if (error != std::errc() || end != text.data() + text.size() || asked_ms < 1 ||
        asked_ms > kTimeoutMsMax) {
      return Status::InvalidArgument(
          "X-Request-Timeout-Ms must be an integer from 1 to " + std::to_string(kTimeoutMsMax),
          "X-Request-Timeout-Ms");
    }
    timeout_ms = timeout_ms == 0 ? asked_ms : std::min(timeout_ms, asked_ms);
  }
  if (timeout_ms > 0) {
    request->context.deadline = request->begin + std::chrono::milliseconds(timeout_ms);
  }
  const bool in_lines = request->route >= 0 && line_routes_[static_cast<size_t>(request->route)] &&
                        WantsNdjson(request->Header("accept"));
  if (in_lines && start_timeout_.count() > 0) {
    request->start_deadline = request->begin + start_timeout_;
  }
  return Status::Ok();
}

Status RequestPolicy::SetPriority(HttpRequest* request) const {
  const std::string_view asked = request->Header("x-penstock-priority");
  if (!asked.empty() && asked != "interactive" && asked != "bulk") {
    return Status::InvalidArgument("X-Penstock-Priority must be interactive or bulk",
                                   "X-Penstock-Priority");
  }
  const std::string_view run = request->Header("x-penstock-bulk-id");
  if (!run.empty() && !IsSaneRequestId(run)) {
    return Status::InvalidArgument("X-Penstock-Bulk-Id is not the id of a bulk run",
                                   std::string(kBulkIdHeader));
  }
  request->context.bulk_run = run;
  bool bulk = asked == "bulk" || !run.empty();
  if (asked.empty() && request->route >= 0) {
    bulk = bulk || bulk_routes_[static_cast<size_t>(request->route)];
  }
  if (const auto sets = keys_->Get(); !bulk && !sets->bulk.empty()) {
    bulk = sets->bulk.Allows(ApiKeys::KeyOf(*request));
  }
  request->context.priority = bulk ? Priority::kBulk : Priority::kInteractive;
  request->context.client = ClientOf(*request);
  return Status::Ok();
}

uint64_t RequestPolicy::ClientOf(const HttpRequest& request) const {
  const SeededHash hash;
  if (keys_->Get()->Required()) return hash(ApiKeys::KeyOf(request));
  const std::string_view remote = request.remote;
  return hash(remote.substr(0, remote.rfind(':')));
}

}  // namespace penstock
