#include "server/server.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "batch_api/batch_runner.h"
#include "dialects/list.h"
#include "frontend/key_ring.h"
#include "frontend/request_policy.h"
#include "http/listener.h"
#include "log/log.h"
#include "serving/router.h"

namespace penstock::server {

using serving::Router;

namespace {

// For batches to end, where connections took all of the time.
constexpr std::chrono::milliseconds kBatchesEnd{500};

// Options whose lists of keys are wiped at the end. Copies of them are made nowhere else.
http::ServerOptions WithoutKeys(const http::ServerOptions& options) {
  http::ServerOptions bare = options;
  for (auto* keys : {&bare.api_keys, &bare.bulk_api_keys, &bare.admin_api_keys}) {
    for (std::string& key : *keys) OPENSSL_cleanse(key.data(), key.size());
    keys->clear();
  }
  return bare;
}

Status CheckOptions(const http::ServerOptions& options) {
  if (options.request_timeout.count() < 0 ||
      options.request_timeout.count() > frontend::kTimeoutMsMax) {
    return Status::InvalidArgument(
        "request_timeout must be from 0 to " + std::to_string(frontend::kTimeoutMsMax) + " ms",
        "request_timeout");
  }
  if (options.admin_metrics && !options.HasAdminKeys()) {
    return Status::InvalidArgument(
        "--admin-metrics asks for a key of --admin-api-key, and there is none", "admin_metrics");
  }
  PENSTOCK_RETURN_IF_ERROR(frontend::AllowedHosts::Check(options.allowed_hosts));
  for (const std::string& path : options.bulk_routes) {
    if (!frontend::IsPostRoute(path, dialects::AllRoutes().infos())) {
      return Status::InvalidArgument(
          "a bulk route must be the path of a POST route, such as /v1/embeddings; '" +
              path.substr(0, 200) + "' is not",
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
  return Status::Ok();
}

}  // namespace

struct Server::Impl {
  Impl(api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
       std::shared_ptr<frontend::KeyRing> keys_in,
       std::unique_ptr<batch_api::BatchRunner> batches_in, std::chrono::milliseconds live_interval)
      : keys(std::move(keys_in)),
        batches(std::move(batches_in)),
        router(service, metrics, options, dialects::AllRoutes(), keys, batches.get(),
               live_interval),
        tls(!options.tls_cert_file.empty()) {}
  const std::shared_ptr<frontend::KeyRing> keys;
  const std::unique_ptr<batch_api::BatchRunner> batches;  // null: none
  Router router;
  const bool tls;
  std::unique_ptr<http::Listener> listener;  // last: ends before the router it calls
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Expected<std::unique_ptr<Server>> Server::Start(api::Service* service, metrics::Metrics* metrics,
                                                const http::ServerOptions& options,
                                                std::chrono::milliseconds live_interval) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  PENSTOCK_ASSIGN_OR_RETURN(auto keys, frontend::KeyRing::Make(options));
  const http::ServerOptions bare = WithoutKeys(options);
  std::unique_ptr<batch_api::BatchRunner> batches;
  if (!options.batch_folder.empty()) {
    auto started =
        batch_api::BatchRunner::Start(service, metrics, bare, dialects::AllRoutes(), keys);
    if (!started.ok()) return started.status().Annotate("--batch-folder");
    batches = *std::move(started);
  }
  auto impl = std::make_unique<Impl>(service, metrics, bare, std::move(keys), std::move(batches),
                                     live_interval);
  PENSTOCK_ASSIGN_OR_RETURN(impl->listener, http::Listener::Start(&impl->router, bare));
  if (!options.AsksForKey() && !frontend::IsLoopback(options.host)) {
    LogWarn(
        "no API key is asked for, and {} can be reached from other machines: anybody there can use "
        "this server. Set a key with --api-key-file, PENSTOCK_API_KEY or --api-key, or listen on "
        "127.0.0.1",
        options.host);
  }
  LogInfo("listening on {}://{}:{}", impl->tls ? "https" : "http", options.host,
          impl->listener->port());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Status Server::Reload() {
  Status first;
  for (const Status& status : {impl_->keys->Reload(), impl_->listener->ReloadTls()}) {
    if (status.ok()) continue;
    LogError("not reloaded, the old keys or certificate stay in use: {}", status.message());
    if (first.ok()) first = status;
  }
  if (impl_->batches != nullptr) impl_->batches->TellOfGoneKeys();
  return first;
}

void Server::AnnounceShutdown() { impl_->listener->EndKeepAlive(); }

bool Server::Shutdown(std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  impl_->router.EndEndless();
  // First: its requests would take the time that clients have to finish theirs.
  if (impl_->batches != nullptr) impl_->batches->BeginStop();
  impl_->listener->Shutdown(timeout);
  if (impl_->batches == nullptr) return true;
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  return impl_->batches->Stop(std::max(timeout - used, kBatchesEnd));
}
std::shared_ptr<const frontend::KeyRing> Server::keys() const { return impl_->keys; }
std::shared_ptr<frontend::SlowLog> Server::slow_log() const { return impl_->router.slow_log(); }
std::shared_ptr<http::OpenCount> Server::all_connections() const {
  return impl_->listener->all_connections();
}
uint16_t Server::port() const { return impl_->listener->port(); }
bool Server::tls() const { return impl_->tls; }

}  // namespace penstock::server
