// What a request's headers and the server's configuration say about how it is treated: until when
// it is wanted, and how urgently. Immutable; any io thread may ask.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "http/api_keys.h"
#include "http/message.h"
#include "http/routes.h"
#include "http/server.h"

namespace penstock {

inline constexpr int64_t kTimeoutMsMax = 86'400'000;  // a day

// Whether `path` is that of a row for POST, as written in the table.
bool IsPostRoute(std::string_view path, const std::vector<Route>& routes);

class RequestPolicy {
 public:
  RequestPolicy(const ServerOptions& options, const std::vector<Route>& routes);

  // Sets the context's deadline and priority. The request's headers and route are known.
  //   deadline  X-Request-Timeout-Ms from the first byte on, else the server's default
  //   priority  bulk for a bulk key or a request of a bulk run, whatever is asked for; else
  //             X-Penstock-Priority; else bulk for a bulk route; else interactive
  // kInvalidArgument names the header and what it may be.
  Status Apply(HttpRequest* request) const;

 private:
  Status SetDeadline(HttpRequest* request) const;
  Status SetPriority(HttpRequest* request) const;

  const std::chrono::milliseconds default_timeout_;  // 0 = none
  const ApiKeys bulk_keys_;
  std::vector<bool> bulk_routes_;  // by index of the route
};

}  // namespace penstock
