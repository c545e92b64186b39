// GrpcFrontEnd: what every call of gRPC passes before and after its work: keys, priority, deadline,
// request id, memory, metrics, logs. Headers have the names of HTTP in lower case ("x-api-key",
// "x-penstock-priority", "x-request-timeout-ms", ...); the client's own deadline counts as well.
// ordered_call.h and model_infer.h build on it. Any thread.
//
// Services add their methods to it; Find says which one a path names.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "frontend/finished_log.h"
#include "frontend/request_policy.h"
#include "frontend/route_info.h"
#include "grpc/grpc_metrics.h"
#include "grpc/rpc.h"
#include "http/message.h"
#include "http/server_options.h"
#include "log/log_limit.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::grpc {

// What the front end knows of a call. May be used for one call after another; strings keep their
// memory.
struct GrpcCall {
  http::HttpRequest request;  // headers are those that the front end reads; `route` is the method
  int64_t items = -1;         // messages that a stream sent; -1: no stream
  bool forbidden = false;     // refused for want of another key: PERMISSION_DENIED
  bool open_stream = false;   // counted in open_streams_

  RequestContext& context() { return request.context; }
};

struct GrpcMethod {
  const char* path;      // "/package.Service/Method", for good
  bool streams = false;  // see Rpc
  frontend::RouteFor who = frontend::RouteFor::kUsers;
  bool endless = false;
};

class GrpcFrontEnd {
 public:
  // Answers a call of the method `index`; on the io thread, throws nothing.
  using Start = std::function<void(int32_t index, const std::shared_ptr<Rpc>& rpc)>;

  GrpcFrontEnd(api::Service* service, const http::ServerOptions& options,
               std::shared_ptr<frontend::SlowLog> slow_log);

  // Streams of methods that ask for no key, at a time. Each may hold some answers.
  static constexpr int32_t kOpenStreamsMax = 16;
  // Single calls of such methods: if there are more, the oldest are broken off, so that clients
  // that are slow on purpose do not keep others out.
  static constexpr size_t kOpenCallsMax = 2048;

  api::Service* service() const { return service_; }

  // Before Open.
  void AddMethod(const GrpcMethod& method, Start start);
  // All methods were added. Keys are those of `keys`, not of the options. Service and metrics must
  // outlive it.
  void Open(metrics::Metrics* metrics, const http::ServerOptions& options,
            std::shared_ptr<const frontend::KeyRing> keys);
  GrpcMetrics& metrics() { return *metrics_; }  // from Open on
  const std::vector<frontend::RouteInfo>& methods() const { return methods_; }
  // The index of a method; -1: there is none.
  int32_t Find(std::string_view path) const;
  bool Streams(int32_t method) const { return served_[static_cast<size_t>(method)].streams; }
  void StartCall(int32_t method, const std::shared_ptr<Rpc>& rpc) const {
    served_[static_cast<size_t>(method)].start(method, rpc);
  }

  // Calls of methods whose paths begin with `prefix` are finished with what `to_grpc` makes of a
  // Status, where an API has codes of its own; others with ToGrpc. Before the first call.
  void MapStatus(std::string_view prefix, GrpcStatus (*to_grpc)(const Status&));

  // The header of a call has come. Fills `call`, and gives the call its memory. Not OK: it is
  // refused; Finish and End are due all the same. Throws nothing.
  Status Begin(int32_t method, Rpc* rpc, GrpcCall* call) noexcept;
  // Whether a user's key came with the call, or none is asked for.
  bool HasKey(GrpcCall* call) const;
  // Finishes the call, with `message` as its last one where it is well. Where it failed, trailing
  // metadata has its id ("x-request-id"), and when to try again ("retry-after" in seconds,
  // "grpc-retry-pushback-ms"). The call may be over, and `call` gone, before it returns.
  void Finish(std::shared_ptr<Rpc> rpc, GrpcCall* call, const Status& status,
              std::optional<RpcMessage> message);
  // The call is over, as OnDone says: counts and logs it, and drops what its context holds.
  void End(const Rpc& rpc, GrpcCall* call);

 private:
  Status LetIn(int32_t method, Rpc* rpc, GrpcCall* call);
  Status CheckKey(GrpcCall* call);
  Status CountOpenStream(GrpcCall* call);
  void KeepOpenCall(Rpc* rpc);
  GrpcStatus StatusOf(const Status& status, Rpc* rpc, GrpcCall* call);

  struct Served {
    bool streams = false;
    Start start;
    GrpcStatus (*to_grpc)(const Status&) = ToGrpc;
  };

  api::Service* const service_;
  const bool stage_timers_;
  std::vector<frontend::RouteInfo> methods_;
  std::vector<Served> served_;  // [methods_]
  std::map<std::string_view, int32_t> by_path_;
  std::optional<frontend::RequestPolicy> policy_;  // from Open on
  std::optional<GrpcMetrics> metrics_;             // from Open on
  std::atomic<int32_t> open_streams_{0};
  std::mutex open_mutex_;
  std::vector<std::weak_ptr<Rpc>> open_calls_{kOpenCallsMax};  // guarded by open_mutex_
  size_t next_open_call_ = 0;                                  // guarded by open_mutex_
  frontend::FinishedLog finished_log_;
  LogLimit refused_keys_{5};
};

}  // namespace penstock::grpc
