#include "grpc/grpc_front_end.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "api/service.h"
#include "grpc/grpc_status.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "metrics/stages.h"
#include "threads/byte_budget.h"

namespace penstock::grpc {
namespace {

// The longest message of methods that need no key: it holds a name.
constexpr int64_t kOpenMessageBytesMax = 4 << 10;

// The headers that the policy and the log read; others are not copied.
bool IsRead(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {"api-key",
                                                      "authorization",
                                                      "x-api-key",
                                                      "x-penstock-bulk-id",
                                                      "x-penstock-keep-alive",
                                                      "x-penstock-priority",
                                                      "x-request-id",
                                                      "x-request-timeout-ms"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// State of a call that workers share, in one allocation.
struct Watched {
  explicit Watched(Clock::time_point begin) : trace(begin) {}
  CancelToken cancel;
  metrics::RequestTrace trace;
};

}  // namespace

GrpcFrontEnd::GrpcFrontEnd(api::Service* service, const http::ServerOptions& options,
                           std::shared_ptr<frontend::SlowLog> slow_log)
    : service_(service),
      stage_timers_(options.stage_timers),
      finished_log_(options.access_log, std::move(slow_log)) {}

void GrpcFrontEnd::AddMethod(const GrpcMethod& method, Start start) {
  by_path_[method.path] = static_cast<int32_t>(methods_.size());
  methods_.push_back({"GRPC", method.path, method.who, /*lines=*/false, method.endless});
  served_.push_back({method.streams, std::move(start)});
}

void GrpcFrontEnd::Open(metrics::Metrics* metrics, const http::ServerOptions& options,
                        std::shared_ptr<const frontend::KeyRing> keys) {
  policy_.emplace(options, methods_, std::move(keys));
  metrics_.emplace(metrics, methods_);
}

int32_t GrpcFrontEnd::Find(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? -1 : found->second;
}

void GrpcFrontEnd::MapStatus(std::string_view prefix, GrpcStatus (*to_grpc)(const Status&)) {
  for (size_t i = 0; i < methods_.size(); ++i) {
    if (std::string_view(methods_[i].path).starts_with(prefix)) served_[i].to_grpc = to_grpc;
  }
}

bool GrpcFrontEnd::HasKey(GrpcCall* call) const {
  const frontend::RouteInfo of_users = {"GRPC",
                                        methods_[static_cast<size_t>(call->request.route)].path};
  return !policy_->CheckKey(&call->request, &of_users);
}

Status GrpcFrontEnd::CheckKey(GrpcCall* call) {
  http::HttpRequest& request = call->request;
  const auto refusal = policy_->CheckKey(&request, &methods_[static_cast<size_t>(request.route)]);
  if (!refusal) return Status::Ok();
  metrics_->keys_refused(refusal->key_reason).Add();
  if (const auto left_out = refused_keys_.Pass()) {
    LogInfo("key refused ({}): {}, from {}{}", refusal->key_reason, request.target, request.remote,
            LogLimit::LeftOut(*left_out));
  }
  call->forbidden = refusal->http_status == 403;
  return refusal->status;
}

Status GrpcFrontEnd::Begin(int32_t method, Rpc* rpc, GrpcCall* call) noexcept {
  metrics_->in_flight().Add(1);
  try {
    return LetIn(method, rpc, call);
  } catch (...) {
    return ExceptionStatus();
  }
}

Status GrpcFrontEnd::LetIn(int32_t method, Rpc* rpc, GrpcCall* call) {
  http::HttpRequest& request = call->request;
  request.begin = rpc->request().begin;
  request.route = method;
  request.method = "GRPC";
  request.target = methods_[static_cast<size_t>(method)].path;
  request.remote = rpc->request().remote;
  request.body_bytes = 0;
  request.key_number = 0;
  request.id.clear();
  request.headers.clear();
  call->items = -1;
  call->forbidden = false;
  call->open_stream = false;
  for (const auto& header : rpc->request().headers) {
    if (IsRead(header.first)) request.headers.push_back(header);
  }
  if (const std::string_view id = request.Header("x-request-id"); http::IsSaneRequestId(id)) {
    request.id = id;
  }
  request.context = RequestContext();
  if (stage_timers_) {
    const auto watched = std::make_shared<Watched>(request.begin);
    request.context.cancel = {watched, &watched->cancel};
    request.context.trace = {watched, &watched->trace};
  } else {
    request.context.cancel = std::make_shared<CancelToken>();
  }
  PENSTOCK_RETURN_IF_ERROR(rpc->head_status());
  PENSTOCK_RETURN_IF_ERROR(CheckKey(call));
  PENSTOCK_RETURN_IF_ERROR(policy_->Apply(&request));
  RequestContext& wanted = request.context;
  wanted.deadline = std::min(wanted.deadline, rpc->deadline());
  const frontend::RouteInfo& info = methods_[static_cast<size_t>(method)];
  // What asks for no key leaves memory to what does.
  const bool open = info.who == frontend::RouteFor::kEveryone;
  wanted.memory = service_->NewRequestMemory(open ? Priority::kBulk : wanted.priority);
  rpc->SetMemory(wanted.memory, wanted.priority);
  if (!open) return Status::Ok();
  rpc->LimitMessages(kOpenMessageBytesMax);
  if (Streams(method)) return CountOpenStream(call);
  if (!info.endless) KeepOpenCall(rpc);
  return Status::Ok();
}

Status GrpcFrontEnd::CountOpenStream(GrpcCall* call) {
  if (open_streams_.fetch_add(1) < kOpenStreamsMax) {
    call->open_stream = true;
    return Status::Ok();
  }
  open_streams_.fetch_sub(1);
  return Status(
             StatusCode::kResourceExhausted,
             "too many streams of methods that ask for no key: " + std::to_string(kOpenStreamsMax))
      .WithRetryAfter(1);
}

void GrpcFrontEnd::KeepOpenCall(Rpc* rpc) {
  std::shared_ptr<Rpc> oldest;
  {
    const std::lock_guard lock(open_mutex_);
    std::weak_ptr<Rpc>& place = open_calls_[next_open_call_++ % kOpenCallsMax];
    oldest = place.lock();
    place = rpc->weak_from_this();
  }
  if (oldest != nullptr) oldest->Cancel();
}

void GrpcFrontEnd::Finish(std::shared_ptr<Rpc> rpc, GrpcCall* call, const Status& status,
                          std::optional<RpcMessage> message) {
  GrpcStatus wire{GrpcCode::kInternal, ""};  // allocates nothing
  RunGuarded("end of a call", [&] { wire = StatusOf(status, rpc.get(), call); });
  if (!wire.ok()) message.reset();
  rpc->Finish(std::move(wire), std::move(message));
}

GrpcStatus GrpcFrontEnd::StatusOf(const Status& status, Rpc* rpc, GrpcCall* call) {
  if (status.ok()) return {};
  if (call->request.id.empty()) call->request.id = http::NewRequestId();
  rpc->AddTrailingMetadata("x-request-id", call->request.id);
  // As over HTTP; and gRFC A6, which retry policies of clients obey.
  if (const int seconds = status.retry_after_s(); seconds > 0) {
    rpc->AddTrailingMetadata("retry-after", std::to_string(seconds));
    rpc->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(seconds * 1000LL));
  }
  if (call->forbidden) return {GrpcCode::kPermissionDenied, status.message()};
  return served_[static_cast<size_t>(call->request.route)].to_grpc(status);
}

void GrpcFrontEnd::End(const Rpc& rpc, GrpcCall* call) {
  const auto now = Clock::now();
  http::HttpRequest& request = call->request;
  GrpcCode code = rpc.code();
  if (rpc.IsCancelled()) {
    code = now >= request.context.deadline ? GrpcCode::kDeadlineExceeded : GrpcCode::kCancelled;
  }
  metrics_->in_flight().Add(-1);
  if (std::exchange(call->open_stream, false)) open_streams_.fetch_sub(1);
  metrics_->CountCall(request.route, code,
                      std::chrono::duration<double>(now - request.begin).count());
  if (metrics::RequestTrace* const trace = request.context.trace.get()) {
    trace->Finish(now);
    // Calls that never reached a model would only blur the percentiles.
    if (trace->rows() > 0) service_->RecordTrace(*trace);
  }
  const bool broken = code == GrpcCode::kInternal || code == GrpcCode::kUnknown;
  const frontend::RouteInfo& route = methods_[static_cast<size_t>(request.route)];
  if (finished_log_.Wants(request, &route, now, broken)) {
    if (request.id.empty()) request.id = http::NewRequestId();
    finished_log_.Write({.request = &request,
                         .route = &route,
                         .status = HttpStatusOfGrpc(code),
                         .body_bytes = rpc.bytes_out(),
                         .end = now,
                         .items = call->items,
                         .grpc_code = GrpcCodeName(code)},
                        broken);
  }
  request.context = RequestContext();
}

}  // namespace penstock::grpc
