#include "http/server.h"

#include <algorithm>

#include "common/log.h"
#include "http/listener.h"
#include "http/request_policy.h"
#include "http/router.h"

namespace penstock {

struct Server::Impl {
  Impl(Service* service, Metrics* metrics, const ServerOptions& options)
      : router(service, metrics, options), tls(!options.tls_cert_file.empty()) {}
  Router router;
  const bool tls;
  std::unique_ptr<Listener> listener;  // last: ends before the router it calls
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Expected<std::unique_ptr<Server>> Server::Start(Service* service, Metrics* metrics,
                                                const ServerOptions& options) {
  if (options.request_timeout.count() < 0 || options.request_timeout.count() > kTimeoutMsMax) {
    return Status::InvalidArgument(
        "request_timeout must be from 0 to " + std::to_string(kTimeoutMsMax) + " ms",
        "request_timeout");
  }
  for (const std::string& key : options.AllKeys()) {
    if (key.empty()) return Status::InvalidArgument("an API key must not be empty", "api_keys");
  }
  for (const std::string& path : options.bulk_routes) {
    if (!IsPostRoute(path, AllRoutes())) {
      return Status::InvalidArgument(
          "a bulk route must be the path of a POST route, such as /v1/embeddings; '" +
              path.substr(0, 200) + "' is none",
          "bulk_routes");
    }
  }
  for (const std::string& origin : options.cors_allow_origins) {
    const bool clean = std::none_of(origin.begin(), origin.end(),
                                    [](unsigned char c) { return c <= ' ' || c == 0x7f; });
    if (!clean || origin.empty()) {
      return Status::InvalidArgument(
          "an allowed origin must look like https://example.org, or be *", "cors_allow_origins");
    }
  }
  auto impl = std::make_unique<Impl>(service, metrics, options);
  PENSTOCK_ASSIGN_OR_RETURN(impl->listener, Listener::Start(&impl->router, options));
  LogInfo("listening on {}://{}:{}", impl->tls ? "https" : "http", options.host,
          impl->listener->port());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

void Server::Shutdown(std::chrono::milliseconds timeout) { impl_->listener->Shutdown(timeout); }
uint16_t Server::port() const { return impl_->listener->port(); }
bool Server::tls() const { return impl_->tls; }

}  // namespace penstock
