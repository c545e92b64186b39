#include "frontend/request_policy.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/ascii.h"
#include "base/duration.h"
#include "base/seeded_hash.h"
#include "cache/cache_salt.h"
#include "http/accept.h"

namespace penstock::frontend {

bool IsPostRoute(std::string_view path, const std::vector<RouteInfo>& routes) {
  return std::any_of(routes.begin(), routes.end(), [&](const RouteInfo& route) {
    return path == route.path && std::string_view(route.method) == "POST";
  });
}

namespace {

std::shared_ptr<const KeyRing> OrKeysOf(std::shared_ptr<const KeyRing> keys,
                                        const http::ServerOptions& options) {
  if (keys != nullptr) return keys;
  auto made = KeyRing::Make(options);
  PENSTOCK_CHECK(made.ok());
  return *std::move(made);
}

}  // namespace

RequestPolicy::RequestPolicy(const http::ServerOptions& options,
                             const std::vector<RouteInfo>& routes,
                             std::shared_ptr<const KeyRing> keys)
    : timeout_max_(options.request_timeout),
      start_timeout_(options.stream_start_timeout),
      admin_metrics_(options.admin_metrics),
      cache_secret_(options.cache_secret),
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

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckHost(
    const http::HttpRequest& request) const {
  if (hosts_.Allows(request.host)) return std::nullopt;
  return Refusal{403, Status(StatusCode::kUnauthenticated,
                             "the host '" + request.host.substr(0, 200) +
                                 "' is not served here; start the server with --allowed-host " +
                                 request.host.substr(0, 200) +
                                 " to serve it, or with --allowed-host '*' for any host")};
}

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckKey(http::HttpRequest* request,
                                                              const RouteInfo* route) const {
  if (route != nullptr &&
      (route->who == RouteFor::kEveryone || route->who == RouteFor::kVisitors)) {
    return std::nullopt;
  }
  const auto sets = keys_->Get();
  const bool for_admins =
      route != nullptr && !sets->admins.empty() &&
      (route->who == RouteFor::kAdmins || (route->who == RouteFor::kMonitors && admin_metrics_));
  if (!sets->Required() && sets->admins.empty()) return std::nullopt;
  const std::string_view key = ApiKeys::KeyOf(*request);
  const KeyRights rights = sets->RightsOf(key);
  request->context.rules_models = sets->admins.empty() || rights.admin;
  if (!sets->Required() && !for_admins) return std::nullopt;
  request->key_number = rights.number;
  request->context.client_weight = rights.weight;
  if (sets->Required()) {
    request->context.cache_salt = cache::CacheSaltOf(
        cache_secret_, {reinterpret_cast<const char*>(rights.digest.data()), rights.digest.size()});
  }
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

std::optional<RequestPolicy::Refusal> RequestPolicy::CheckOrigin(
    const http::HttpRequest& request) const {
  const std::string_view method = request.method;
  if (method == "GET" || method == "HEAD" || method == "OPTIONS") return std::nullopt;
  const std::string_view site = request.Header("sec-fetch-site");
  const std::string_view origin = request.Header("origin");
  bool foreign = !site.empty() && site != "same-origin" && site != "none";
  if (site.empty() && !origin.empty()) {
    const size_t slashes = origin.find("://");
    foreign = slashes == std::string_view::npos ||
              LowerAscii(origin.substr(slashes + 3)) != LowerAscii(request.Header("host"));
  }
  if (!foreign) return std::nullopt;
  for (const std::string& allowed : cors_allow_origins_) {
    if (allowed == "*" || (allowed == origin && !origin.empty())) return std::nullopt;
  }
  return Refusal{403, Status(StatusCode::kUnauthenticated,
                             "a web page of another origin must not do this; "
                             "--cors-allow-origin lets the page in")};
}

Status RequestPolicy::Apply(http::HttpRequest* request) const {
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

Status RequestPolicy::SetDeadline(http::HttpRequest* request) const {
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
                        http::WantsNdjson(request->Header("accept"));
  if (in_lines && start_timeout_.count() > 0) {
    request->start_deadline = request->begin + start_timeout_;
  }
  return Status::Ok();
}

Status RequestPolicy::SetPriority(http::HttpRequest* request) const {
  const std::string_view asked = request->Header("x-penstock-priority");
  if (!asked.empty() && asked != "interactive" && asked != "bulk") {
    return Status::InvalidArgument("X-Penstock-Priority must be interactive or bulk",
                                   "X-Penstock-Priority");
  }
  const std::string_view run = request->Header("x-penstock-bulk-id");
  if (!run.empty() && !http::IsSaneRequestId(run)) {
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

uint64_t RequestPolicy::ClientOf(const http::HttpRequest& request) const {
  const SeededHash hash;
  if (keys_->Get()->Required()) return hash(ApiKeys::KeyOf(request));
  const std::string_view remote = request.remote;
  return hash(remote.substr(0, remote.rfind(':')));
}

}  // namespace penstock::frontend
