// Router: stands between connections and handlers. Finds the route, checks host, key and origin,
// sets deadline and priority, adds CORS headers, counts and logs. Any io thread may call it at any
// time.
#pragma once

#include <memory>
#include <string>

#include "frontend/finished_log.h"
#include "frontend/http_metrics.h"
#include "frontend/request_policy.h"
#include "http/message.h"
#include "http/server_options.h"
#include "live/live_feed.h"
#include "log/log_limit.h"
#include "serving/route_table.h"

namespace penstock::serving {

class Router final : public http::HttpHandler {
 public:
  // Service, metrics, table and batches (null: none) must outlive the router. Keys are those of
  // `keys`, not of the options.
  Router(api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
         const RouteTable& table, std::shared_ptr<const frontend::KeyRing> keys,
         batch_api::BatchRunner* batches, std::chrono::milliseconds live_interval);

  std::optional<http::HttpResponse> OnHeader(http::HttpRequest* request) override;
  void OnRequest(std::shared_ptr<const http::HttpRequest> request, std::string body,
                 http::Responder respond) override;
  http::HttpResponse OnError(const http::HttpRequest& request, int status,
                             const std::string& message) override;
  void OnDone(const http::HttpRequest& request, int status, size_t body_bytes,
              int64_t items) override;
  void OnStreams(int change) override { http_metrics_.streams().Add(change); }
  void OnStreamDropped() override { http_metrics_.streams_dropped().Add(); }
  void OnConnections(int change) override { http_metrics_.connections().Add(change); }
  void OnConnectionRefused() override { http_metrics_.connections_refused().Add(); }
  void OnBytes(size_t received, size_t sent) override;

  // Ends the streams that have no end of their own. Called before the connections are shut down.
  void EndEndless() { live_.Stop(); }
  const std::shared_ptr<frontend::SlowLog>& slow_log() const { return finished_log_.slow_log(); }

 private:
  struct Match {
    int32_t route = -1;
    std::string allow;  // methods of the path where only the method is wrong
  };
  Match Find(const http::HttpRequest& request) const;
  ErrorBody ErrorBodyOf(const http::HttpRequest& request) const;
  const Route* RouteOf(const http::HttpRequest& request) const;  // null: none
  std::string RouteName(const http::HttpRequest& request) const;
  std::optional<http::HttpResponse> Check(http::HttpRequest* request);
  http::HttpResponse Refuse(const http::HttpRequest& request,
                            const frontend::RequestPolicy::Refusal& refusal);
  http::HttpResponse Preflight(const http::HttpRequest& request, const std::string& allow) const;
  void AddCors(http::HttpRequest* request) const;

  api::Service* const service_;
  metrics::Metrics* const metrics_;
  const http::ServerOptions options_;
  const RouteTable& table_;
  batch_api::BatchRunner* const batches_;
  const frontend::RequestPolicy policy_;
  frontend::HttpMetrics http_metrics_;
  frontend::FinishedLog finished_log_;
  live::LiveFeed live_;  // after what its thread reads
  LogLimit refused_keys_{5};
};

}  // namespace penstock::serving
