#include "http/request_policy.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace penstock {

bool IsPostRoute(std::string_view path, const std::vector<Route>& routes) {
  return std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
    return path == route.path && std::string_view(route.method) == "POST";
  });
}

RequestPolicy::RequestPolicy(const ServerOptions& options, const std::vector<Route>& routes)
    : default_timeout_(options.request_timeout), bulk_keys_(options.bulk_api_keys) {
  const auto& bulk = options.bulk_routes;
  for (const Route& route : routes) {
    bulk_routes_.push_back(std::find(bulk.begin(), bulk.end(), route.path) != bulk.end());
  }
}

Status RequestPolicy::Apply(HttpRequest* request) const {
  PENSTOCK_RETURN_IF_ERROR(SetDeadline(request));
  return SetPriority(request);
}

Status RequestPolicy::SetDeadline(HttpRequest* request) const {
  int64_t timeout_ms = default_timeout_.count();
  if (const std::string_view text = request->Header("x-request-timeout-ms"); !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), timeout_ms);
    if (error != std::errc() || end != text.data() + text.size() || timeout_ms < 1 ||
        timeout_ms > kTimeoutMsMax) {
      return Status::InvalidArgument(
          "X-Request-Timeout-Ms must be an integer from 1 to " + std::to_string(kTimeoutMsMax),
          "X-Request-Timeout-Ms");
    }
  }
  if (timeout_ms > 0) {
    request->context.deadline = request->begin + std::chrono::milliseconds(timeout_ms);
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
  if (!bulk_keys_.empty()) bulk = bulk || bulk_keys_.Allows(ApiKeys::KeyOf(*request));
  request->context.priority = bulk ? Priority::kBulk : Priority::kInteractive;
  return Status::Ok();
}

}  // namespace penstock
