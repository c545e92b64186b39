// The HTTP/1.1 server: accepts connections, routes requests to the Service in the API of the route
// (OpenAI, Jina/Cohere rerank, TEI, Penstock's own), and prints the answers.
//
// Threads: `io_threads` of the server read, parse, print and write; none of them ever waits for
// inference, so health, readiness and metrics answer while models are busy. The Service calls back
// on its own threads; the answer is printed on the connection's io thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "http/server_options.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::frontend {
class KeyRing;
class SlowLog;
}  // namespace penstock::frontend

namespace penstock::http {
class OpenCount;
}  // namespace penstock::http

namespace penstock::metrics {
class Metrics;
}  // namespace penstock::metrics

namespace penstock::server {

class Server {
 public:
  // Binds, listens and serves at once. Service and metrics must outlive the server. Fails with
  // kInvalidArgument (an option, named in field()) or kUnavailable (the address is taken).
  // Routes that need a model answer 503 until Service::Ready(). `live_interval`: between two points
  // of GET /v1/live; another one than a second is for benchmarks.
  static Expected<std::unique_ptr<Server>> Start(
      api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
      std::chrono::milliseconds live_interval = std::chrono::milliseconds(1000));
  // As Shutdown(0).
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Reads the files of keys, of the certificate and of its key again; new requests and new
  // connections use them. If one of the files is at fault, the set of keys, or the certificate with
  // its key, stays as it was; log and Status say why. Any thread, one at a time. OK if there is no
  // such file.
  Status Reload();

  // Answers say "Connection: close" from now on; new connections and requests are still taken. So
  // proxies leave before Shutdown refuses them. Service::AnnounceStop turns readiness off.
  void AnnounceShutdown();

  // Stops accepting, closes idle connections, lets requests in flight finish (answered with
  // "Connection: close"), and after `timeout` cancels the rest: 503, or the error that ends a
  // stream. Returns when no connection is left and the threads have ended. Call it before
  // Service::StopAccepting(). Not from an io thread. The second call does nothing.
  // False: a request of a batch did not end in that time; its thread still uses the service.
  bool Shutdown(std::chrono::milliseconds timeout);

  // Reread by Reload; for other front ends.
  std::shared_ptr<const frontend::KeyRing> keys() const;
  // GET /v1/requests shows what it keeps; for other front ends.
  std::shared_ptr<frontend::SlowLog> slow_log() const;
  // For Http2Options::all_connections of another listener.
  std::shared_ptr<http::OpenCount> all_connections() const;
  uint16_t port() const;
  bool tls() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::server
