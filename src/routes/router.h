// Router: stands between connections and handlers. Finds the route, checks host, key and origin,
// sets deadline and priority, adds CORS headers, counts and logs. Any io thread may call it at any
// time.
#pragma once

#include <memory>
#include <string>

#include "common/log_limit.h"
#include "frontend/finished_log.h"
#include "frontend/http_metrics.h"
#include "frontend/request_policy.h"
#include "http/message.h"
#include "http/server_options.h"
#include "routes/live_feed.h"
#include "routes/routes.h"

namespace penstock {

class Router final : public HttpHandler {
 public:
  // Service, metrics and batches (null: none) must outlive the router. Keys are those of `keys`,
  // not of the options.
  Router(Service* service, Metrics* metrics, const ServerOptions& options,
         std::shared_ptr<const KeyRing> keys, BatchRunner* batches,
         std::chrono::milliseconds live_interval);

  std::optional<HttpResponse> OnHeader(HttpRequest* request) override;
  void OnRequest(std::shared_ptr<const HttpRequest> request, std::string body,
                 Responder respond) override;
  HttpResponse OnError(const HttpRequest& request, int status, const std::string& message) override;
  void OnDone(const HttpRequest& request, int status, size_t body_bytes, int64_t items) override;
  void OnStreams(int change) override { http_metrics_.streams().Add(change); }
  void OnStreamDropped() override { http_metrics_.streams_dropped().Add(); }
  void OnConnections(int change) override { http_metrics_.connections().Add(change); }
  void OnConnectionRefused() override { http_metrics_.connections_refused().Add(); }
  void OnBytes(size_t received, size_t sent) override;

  // Ends the streams that have no end of their own. Called before the connections are shut down.
  void EndEndless() { live_.Stop(); }
  const std::shared_ptr<SlowLog>& slow_log() const { return finished_log_.slow_log(); }

 private:
  struct Match {
    int32_t route = -1;
    std::string allow;  // methods of the path where only the method is wrong
  };
  Match Find(const HttpRequest& request) const;
  ErrorBody ErrorBodyOf(const HttpRequest& request) const;
  const Route* RouteOf(const HttpRequest& request) const;  // null: none
  std::string RouteName(const HttpRequest& request) const;
  std::optional<HttpResponse> Check(HttpRequest* request);
  HttpResponse Refuse(const HttpRequest& request, const RequestPolicy::Refusal& refusal);
  HttpResponse Preflight(const HttpRequest& request, const std::string& allow) const;
  void AddCors(HttpRequest* request) const;

  Service* const service_;
  Metrics* const metrics_;
  const ServerOptions options_;
  BatchRunner* const batches_;
  const std::vector<Route>& routes_;
  const RequestPolicy policy_;
  HttpMetrics http_metrics_;
  FinishedLog finished_log_;
  LiveFeed live_;  // after what its thread reads
  LogLimit refused_keys_{5};
};

}  // namespace penstock
