#include "grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "api/service.h"
#include "frontend/key_ring.h"
#include "grpc/grpc_front_end.h"
#include "grpc/health_service.h"
#include "grpc/kserve_service.h"
#include "grpc/reflection_service.h"
#include "grpc/rpc.h"
#include "grpc/rpc_head.h"
#include "grpc/tei_service.h"
#include "http/listener.h"
#include "http/open_count.h"
#include "http2/http2_handler.h"
#include "log/exception_status.h"
#include "log/log.h"

namespace penstock::grpc {
namespace {

// What the parser says of messages that it refuses: without this on stderr, for every one of them.
void LogOfProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  LogDebug("protobuf: {}", message);
}

// For calls that were cancelled.
constexpr std::chrono::seconds kEndTime{1};

std::string AddressOf(const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

http2::HeaderList Refusal(GrpcCode code, const std::string& message) {
  return {{":status", "200"},
          {"content-type", "application/grpc"},
          {"grpc-status", std::to_string(static_cast<int>(code))},
          {"grpc-message", EncodeGrpcMessage(message)}};
}

}  // namespace

struct GrpcServer::Impl final : http2::Http2Handler {
  Impl(api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& options,
       std::shared_ptr<const frontend::KeyRing> keys, std::shared_ptr<frontend::SlowLog> slow_log)
      : front_end(service, options, std::move(slow_log)), health(&front_end) {
    AddKserve(&front_end);
    AddTei(&front_end);
    AddReflection(&front_end);
    front_end.Open(metrics, options, std::move(keys));
    calls.message_bytes_max = options.body_bytes_max;
    calls.read_timeout = options.read_timeout;
    calls.on_worker = [service](Priority priority, size_t bytes, std::function<void()> work) {
      service->FinishOnWorker(priority, bytes, std::move(work));
    };
  }

  std::shared_ptr<http2::Http2Receiver> OnStream(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    if (auto refusal = RefuseHead(request)) {
      answer->SendHeaders(*std::move(refusal), /*last=*/true);
      return nullptr;
    }
    const int32_t method = front_end.Find(request.path);
    if (method < 0) {
      answer->SendHeaders(
          Refusal(GrpcCode::kUnimplemented, "there is no method " + request.path.substr(0, 200)),
          /*last=*/true);
      return nullptr;
    }
    auto rpc = std::make_shared<Rpc>(&calls, std::move(request), std::move(answer),
                                     front_end.Streams(method));
    front_end.StartCall(method, rpc);
    return rpc;
  }

  std::shared_ptr<http2::Http2Receiver> OnHeaderTooLarge(
      http2::Http2Request, std::shared_ptr<http2::Http2Answer> answer) override {
    answer->SendHeaders(Refusal(GrpcCode::kResourceExhausted,
                                "the metadata is larger than --max-header-bytes allows"),
                        /*last=*/true);
    return nullptr;
  }

  void OnConnections(int change) override { front_end.metrics().connections().Add(change); }
  void OnConnectionRefused() override { front_end.metrics().connections_refused().Add(); }

  GrpcFrontEnd front_end;
  HealthService health;
  Rpc::Options calls;
  bool tls = false;
  bool stopped = false;
  std::unique_ptr<http::Listener> listener;  // last: ends before what it calls
};

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() {
  Shutdown(std::chrono::milliseconds(0));
  // Calls hold what is about to go.
  while (!impl_->calls.open->WaitForZero(std::chrono::hours(1))) continue;
}

Expected<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    api::Service* service, metrics::Metrics* metrics, const http::ServerOptions& server,
    const GrpcOptions& options, std::shared_ptr<const frontend::KeyRing> keys,
    std::shared_ptr<frontend::SlowLog> slow_log, std::shared_ptr<http::OpenCount> connections) {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(LogOfProtobuf); });
  if (keys == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(keys, frontend::KeyRing::Make(server));
  }
  if (slow_log == nullptr)
    slow_log = std::make_shared<frontend::SlowLog>(server.slow_request, metrics);
  auto impl =
      std::make_unique<Impl>(service, metrics, server, std::move(keys), std::move(slow_log));
  impl->tls = !server.tls_cert_file.empty();
  http::ServerOptions listening = server;
  for (auto* keys_of : {&listening.api_keys, &listening.bulk_api_keys, &listening.admin_api_keys}) {
    keys_of->clear();
  }
  if (!options.host.empty()) listening.host = options.host;
  listening.port = options.port.value_or(0);
  const std::string& host = listening.host;
  auto started = http::Listener::StartHttp2(
      impl.get(), listening,
      {.streams_max = options.streams_max, .all_connections = std::move(connections)});
  if (!started.ok()) return started.status().Annotate("gRPC");
  impl->listener = *std::move(started);
  if (!server.AsksForKey() && !frontend::IsLoopback(host)) {
    LogWarn(
        "no API key is asked for, and gRPC on {} can be reached from other machines: anybody there "
        "can use this server",
        host);
  }
  LogInfo("listening on grpc{}://{}", impl->tls ? "s" : "",
          AddressOf(host, impl->listener->port()));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

Status GrpcServer::Reload() {
  if (!impl_->tls) return Status::Ok();
  Status status = impl_->listener->ReloadTls();
  if (!status.ok()) {
    LogError("gRPC: not reloaded, the old certificate stays in use: {}", status.message());
  }
  return status;
}

void GrpcServer::Shutdown(std::chrono::milliseconds timeout) {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->health.Stop();
  impl_->listener->Shutdown(timeout);
  // Work that was cancelled ends soon, if it does not load a model.
  if (!impl_->calls.open->WaitForZero(kEndTime)) LogInfo("gRPC: some calls go on");
}

uint16_t GrpcServer::port() const { return impl_->listener->port(); }
bool GrpcServer::tls() const { return impl_->tls; }

}  // namespace penstock::grpc
