// GrpcFrontEnd: what every call of gRPC passes before and after its work: keys, priority, deadline,
// request id, memory, metrics, logs. Headers have the names of HTTP in lower case ("x-api-key",
// "x-penstock-priority", "x-request-timeout-ms", ...); the client's own deadline counts as well.
// unary_call.h, stream_call.h and message_stream.h build on it. Any thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/log_limit.h"
#include "frontend/finished_log.h"
#include "frontend/request_policy.h"
#include "frontend/route_info.h"
#include "grpc/grpc_metrics.h"
#include "http/message.h"
#include "http/server_options.h"

namespace penstock {

class Service;

// What the front end knows of a call. May be used for one call after another; strings keep their
// memory.
struct GrpcCall {
  HttpRequest request;     // headers are those that the front end reads; `route` is the method
  int64_t items = -1;      // messages that a stream sent; -1: no stream
  bool forbidden = false;  // refused for want of another key: PERMISSION_DENIED

  RequestContext& context() { return request.context; }
};

class GrpcFrontEnd {
 public:
  // `methods`: "/package.Service/Method" of all services. Keys are those of `keys`, not of the
  // options. Service and metrics must outlive it.
  GrpcFrontEnd(Service* service, Metrics* metrics, const ServerOptions& options,
               std::vector<RouteInfo> methods, std::shared_ptr<const KeyRing> keys,
               std::shared_ptr<SlowLog> slow_log);

  Service* service() const { return service_; }
  const std::vector<RouteInfo>& methods() const { return methods_; }
  // The longest time that a message of a stream may take to be written.
  std::chrono::milliseconds write_timeout() const { return write_timeout_; }
  // The place in `methods` of a path that is there.
  int32_t MethodOf(std::string_view path) const;

  // Calls of methods whose paths begin with `prefix` are finished with what `to_grpc` makes of a
  // Status, where an API has codes of its own; others with ToGrpc. Before the first call.
  void MapStatus(std::string_view prefix, grpc::Status (*to_grpc)(const Status&));

  // A call has come, with a message of so many bytes; 0: none yet. Fills `call`, and takes memory
  // for the message. Not OK: it is refused; End is due all the same.
  Status Begin(int32_t method, grpc::CallbackServerContext* context, size_t message_bytes,
               GrpcCall* call);
  // What to finish a call with. Where it failed, trailing metadata has its id ("x-request-id"),
  // and when to try again.
  grpc::Status StatusOf(const Status& status, grpc::CallbackServerContext* context, GrpcCall* call);
  // The call is over, as gRPC says by OnDone: counts and logs it, and drops what its context holds.
  // `code`: what it was finished with.
  void End(grpc::StatusCode code, size_t bytes_out, grpc::CallbackServerContext* context,
           GrpcCall* call);

 private:
  Status CheckKey(GrpcCall* call);

  Service* const service_;
  const bool stage_timers_;
  const std::chrono::milliseconds write_timeout_;
  const std::vector<RouteInfo> methods_;
  std::vector<grpc::Status (*)(const Status&)> to_grpc_;  // of each method
  const RequestPolicy policy_;
  GrpcMetrics metrics_;
  FinishedLog finished_log_;
  LogLimit refused_keys_{5};
};

}  // namespace penstock
