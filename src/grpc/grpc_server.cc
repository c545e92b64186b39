#include "grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/log.h"
#include "frontend/key_ring.h"
#include "grpc/grpc_front_end.h"
#include "grpc/health_service.h"
#include "grpc/kserve_service.h"
#include "grpc/tei_service.h"
#include "grpc/tls_credentials.h"

namespace penstock {
namespace {

// Below this, transports of a few connections would fill it.
constexpr int64_t kBufferBytesMin = 32 << 20;
// Reflection is the only service whose calls hold a thread each.
constexpr int kReflectionThreadsMax = 8;

// What gRPC has to say: the fate of connections, mostly, which strangers can cause at will.
void LogOfGrpc(gpr_log_func_args* line) {
  // It ends the process after this one.
  if (std::string_view(line->message).starts_with("assertion failed")) {
    LogError("gRPC: {} ({}:{})", line->message, line->file, line->line);
    return FlushLog();
  }
  LogDebug("gRPC: {}", line->message);
}

// What the parser says of messages that it refuses: without this on stderr, for every one of them.
void LogOfProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  LogDebug("protobuf: {}", message);
}

void SetUpLibrary() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(LogOfGrpc);
    google::protobuf::SetLogHandler(LogOfProtobuf);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

std::string AddressOf(const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

int Clamped(int64_t value) {
  return static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max()));
}

std::vector<RouteInfo> AllMethods() {
  std::vector<RouteInfo> all;
  for (const auto* methods :
       {&HealthService::Methods(), &KserveService::Methods(), &TeiService::Methods()}) {
    all.insert(all.end(), methods->begin(), methods->end());
  }
  return all;
}

}  // namespace

struct GrpcServer::Impl {
  Impl(Service* service, Metrics* metrics, const ServerOptions& options,
       std::shared_ptr<const KeyRing> keys, std::shared_ptr<SlowLog> slow_log)
      : front_end(service, metrics, options, AllMethods(), std::move(keys), std::move(slow_log)),
        health(&front_end),
        kserve(&front_end),
        tei(&front_end) {}

  void Configure(const ServerOptions& options, const GrpcOptions& grpc_options,
                 grpc::ServerBuilder* builder);

  GrpcFrontEnd front_end;
  HealthService health;
  KserveService kserve;
  TeiService tei;
  std::unique_ptr<TlsCredentials> tls;
  int port = 0;
  bool stopped = false;
  std::unique_ptr<grpc::Server> server;  // last: ends before the services it calls
};

void GrpcServer::Impl::Configure(const ServerOptions& options, const GrpcOptions& grpc_options,
                                 grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(Clamped(options.body_bytes_max));
  builder->SetMaxSendMessageSize(Clamped(grpc_options.response_bytes_max));
  // A small message could unpack to any size, before its memory is admitted.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota("penstock");
  quota.Resize(static_cast<size_t>(std::max(grpc_options.buffer_bytes_max, kBufferBytesMin)));
  quota.SetMaxThreads(kReflectionThreadsMax);
  builder->SetResourceQuota(quota);
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  // Two servers on one port would share its connections in silence.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, grpc_options.streams_max);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.header_bytes_max);
  // A client that is gone without a word is found by pings; one that sends pings itself, faster
  // than every 10 s, is taken for an attacker.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder->RegisterService(&health);
  builder->RegisterService(&kserve);
  tei.Register(builder);
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() { Shutdown(std::chrono::milliseconds(0)); }

Expected<std::unique_ptr<GrpcServer>> GrpcServer::Start(Service* service, Metrics* metrics,
                                                        const ServerOptions& server,
                                                        const GrpcOptions& options,
                                                        std::shared_ptr<const KeyRing> keys,
                                                        std::shared_ptr<SlowLog> slow_log) {
  SetUpLibrary();
  if (keys == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(keys, KeyRing::Make(server));
  }
  if (slow_log == nullptr) slow_log = std::make_shared<SlowLog>(server.slow_request, metrics);
  auto impl =
      std::make_unique<Impl>(service, metrics, server, std::move(keys), std::move(slow_log));
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!server.tls_cert_file.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(impl->tls, TlsCredentials::Load(server));
    credentials = impl->tls->Get();
  }
  const std::string host = options.host.empty() ? server.host : options.host;
  const std::string address = AddressOf(host, options.port.value_or(0));
  grpc::ServerBuilder builder;
  impl->Configure(server, options, &builder);
  builder.AddListeningPort(address, std::move(credentials), &impl->port);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return Status(StatusCode::kUnavailable,
                  "cannot listen on " + address +
                      " for gRPC: the address is taken, or is not one "
                      "of this machine",
                  "grpc_port");
  }
  if (!server.AsksForKey() && !IsLoopback(host)) {
    LogWarn(
        "no API key is asked for, and gRPC on {} can be reached from other machines: anybody there "
        "can use this server",
        host);
  }
  LogInfo("listening on grpc{}://{}", impl->tls != nullptr ? "s" : "",
          AddressOf(host, static_cast<uint16_t>(impl->port)));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

Status GrpcServer::Reload() {
  if (impl_->tls == nullptr) return Status::Ok();
  Status status = impl_->tls->Reload();
  if (!status.ok()) {
    LogError("gRPC: not reloaded, the old certificate stays in use: {}", status.message());
  }
  return status;
}

void GrpcServer::Shutdown(std::chrono::milliseconds timeout) {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->health.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + timeout);
  impl_->server->Wait();
}

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(impl_->port); }
bool GrpcServer::tls() const { return impl_->tls != nullptr; }

}  // namespace penstock
