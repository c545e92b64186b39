// RequestPolicy: from a request's headers and the server's configuration, whether it is refused
// before its body is read, its deadline and its priority. Any io thread may call it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "frontend/allowed_hosts.h"
#include "frontend/key_ring.h"
#include "frontend/route_info.h"
#include "http/message.h"
#include "http/server_options.h"

namespace penstock::frontend {

// Names the bulk run that a request belongs to.
inline constexpr std::string_view kBulkIdHeader = "X-Penstock-Bulk-Id";

inline constexpr int64_t kTimeoutMsMax = 86'400'000;  // a day

// Whether the route table has a POST row with exactly this `path`.
bool IsPostRoute(std::string_view path, const std::vector<RouteInfo>& routes);

class RequestPolicy {
 public:
  // `keys` by default: those of the options' lists.
  RequestPolicy(const http::ServerOptions& options, const std::vector<RouteInfo>& routes,
                std::shared_ptr<const KeyRing> keys = nullptr);

  struct Refusal {
    int http_status;
    Status status;
    const char* key_reason = nullptr;  // "missing", "unknown", "not_admin": a key was refused
  };

  // 403 for a host that is not allowed (AllowedHosts). For all routes but those of kEveryone.
  std::optional<Refusal> CheckHost(const http::HttpRequest& request) const;

  // 401 without a known key, 403 for a route of administrators without one of their keys. `route`
  // null: no route has that path. Sets the request's key_number, its client's weight and salt of
  // caches, and whether it rules the models: with administrators' keys, only with one of these.
  std::optional<Refusal> CheckKey(http::HttpRequest* request, const RouteInfo* route) const;

  // 403 for a page of another origin, on all methods but GET, HEAD and OPTIONS. A page of another
  // origin: Sec-Fetch-Site is there and neither same-origin nor none, or else Origin is there and
  // does not name the request's own host. Origins in cors_allow_origins are let in. Programs other
  // than browsers send neither header.
  std::optional<Refusal> CheckOrigin(const http::HttpRequest& request) const;

  // Sets the context's deadline, priority and for how long the model is kept
  // (X-Penstock-Keep-Alive). The request's headers and route are known.
  //   deadline  the server's limit from the first byte on, sooner if X-Request-Timeout-Ms says so
  //   start     for an answer in lines, the deadline of its first part; see ServerOptions
  //   priority  bulk for a bulk key or a request of a bulk run, whatever is asked for; else
  //             X-Penstock-Priority; else bulk for a bulk route; else interactive
  // kInvalidArgument names the header and its allowed values.
  Status Apply(http::HttpRequest* request) const;

 private:
  // Identifies the client: equal for the same key or, where no key is required, the same address.
  uint64_t ClientOf(const http::HttpRequest& request) const;
  Status SetDeadline(http::HttpRequest* request) const;
  Status SetPriority(http::HttpRequest* request) const;

  const std::chrono::milliseconds timeout_max_;    // 0 = none
  const std::chrono::milliseconds start_timeout_;  // 0 = none
  const bool admin_metrics_;
  const std::string cache_secret_;
  const std::vector<std::string> cors_allow_origins_;
  const std::shared_ptr<const KeyRing> keys_;
  const AllowedHosts hosts_;
  std::vector<bool> bulk_routes_;  // by index of the route
  std::vector<bool> line_routes_;
};

}  // namespace penstock::frontend
