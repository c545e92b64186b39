// The gRPC server: the services of health, reflection and inference beside HTTP, on a port of its
// own.
//
// Threads: io threads of its own, as many as HTTP has (--io-threads), read, parse, start work,
// print and write; none of them waits for inference. Messages of more than 256 KiB are parsed by
// workers. The Service calls back on its own threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

namespace penstock::grpc {

// What the gRPC server has of its own; each is a flag of `penstock serve`. Keys, TLS, hosts and
// logs are those of HTTP.
struct GrpcOptions {
  std::optional<uint16_t> port;  // --grpc-port; nullopt: no gRPC; 0: any free one
  std::string host;              // --grpc-host; "": that of HTTP
  // --grpc-max-streams: calls under way on one connection; more wait at the client.
  int32_t streams_max = 1024;
};

class GrpcServer {
 public:
  // Binds, listens and serves at once; options.port is set. Service and metrics must outlive the
  // server. `keys`, `slow_log`: null: those of the options. `connections`: of all listeners, which
  // --max-connections bounds together; null: of this one alone. Fails with kInvalidArgument (an
  // option, named in field()) or kUnavailable (the address is taken).
  static Expected<std::unique_ptr<GrpcServer>> Start(
      api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& server,
      const GrpcOptions& options, std::shared_ptr<const frontend::KeyRing> keys = nullptr,
      std::shared_ptr<frontend::SlowLog> slow_log = nullptr,
      std::shared_ptr<http::OpenCount> connections = {});
  ~GrpcServer();  // as Shutdown(0), and waits until no call is left
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Reads certificate, key and the clients' authorities again; OK where there are none. On an error
  // the old ones stay; log and Status say why. Keys are read again by their owner.
  Status Reload();

  // Takes no more calls, lets those under way finish, and after `timeout` cancels the rest. Returns
  // when no call is left, or two seconds later: what cannot be cancelled may go on. Before
  // Service::StopAccepting(), not from a callback. The second call does nothing.
  void Shutdown(std::chrono::milliseconds timeout);

  uint16_t port() const;
  bool tls() const;

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::grpc
