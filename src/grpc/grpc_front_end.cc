#include "grpc/grpc_front_end.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "api/service.h"
#include "common/byte_budget.h"
#include "common/log.h"
#include "grpc/grpc_status.h"
#include "metrics/stages.h"

namespace penstock {
namespace {

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

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// "127.0.0.1:5000" of "ipv4:127.0.0.1:5000", "[::1]:5000" of "ipv6:%5B::1%5D:5000".
std::string RemoteOf(const std::string& peer) {
  const size_t colon = peer.find(':');
  std::string remote;
  if (colon == std::string::npos || !PercentDecode(peer.substr(colon + 1), &remote)) return peer;
  return remote;
}

Clock::time_point DeadlineOf(const grpc::CallbackServerContext& context, Clock::time_point now) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return Clock::time_point::max();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  // Longer ones than a year would overflow, and mean the same.
  constexpr int64_t kSecondsMax = 366 * 86400;
  if (left.tv_sec > kSecondsMax) return Clock::time_point::max();
  return now + std::chrono::seconds(left.tv_sec) + std::chrono::nanoseconds(left.tv_nsec);
}

// State of a call that workers share, in one allocation.
struct Watched {
  explicit Watched(Clock::time_point begin) : trace(begin) {}
  CancelToken cancel;
  RequestTrace trace;
};

}  // namespace

GrpcFrontEnd::GrpcFrontEnd(Service* service, Metrics* metrics, const ServerOptions& options,
                           std::vector<RouteInfo> methods, std::shared_ptr<const KeyRing> keys,
                           std::shared_ptr<SlowLog> slow_log)
    : service_(service),
      stage_timers_(options.stage_timers),
      write_timeout_(options.write_timeout),
      methods_(std::move(methods)),
      to_grpc_(methods_.size(), ToGrpc),
      policy_(options, methods_, std::move(keys)),
      metrics_(metrics, methods_),
      finished_log_(options.access_log, std::move(slow_log)) {}

int32_t GrpcFrontEnd::MethodOf(std::string_view path) const {
  const auto at = std::find_if(methods_.begin(), methods_.end(),
                               [&](const RouteInfo& method) { return path == method.path; });
  PENSTOCK_CHECK(at != methods_.end());
  return static_cast<int32_t>(at - methods_.begin());
}

void GrpcFrontEnd::MapStatus(std::string_view prefix, grpc::Status (*to_grpc)(const Status&)) {
  for (size_t i = 0; i < methods_.size(); ++i) {
    if (std::string_view(methods_[i].path).starts_with(prefix)) to_grpc_[i] = to_grpc;
  }
}

Status GrpcFrontEnd::CheckKey(GrpcCall* call) {
  HttpRequest& request = call->request;
  const auto refusal = policy_.CheckKey(&request, &methods_[static_cast<size_t>(request.route)]);
  if (!refusal) return Status::Ok();
  metrics_.keys_refused(refusal->key_reason).Add();
  if (const auto left_out = refused_keys_.Pass()) {
    LogInfo("key refused ({}): {}, from {}{}", refusal->key_reason, request.target, request.remote,
            LogLimit::LeftOut(*left_out));
  }
  call->forbidden = refusal->http_status == 403;
  return refusal->status;
}

Status GrpcFrontEnd::Begin(int32_t method, grpc::CallbackServerContext* context,
                           size_t message_bytes, GrpcCall* call) {
  metrics_.in_flight().Add(1);
  HttpRequest& request = call->request;
  request.begin = Clock::now();
  request.route = method;
  request.method = "GRPC";
  request.target = methods_[static_cast<size_t>(method)].path;
  request.remote = RemoteOf(context->peer());
  request.body_bytes = message_bytes;
  request.key_number = 0;
  request.id.clear();
  request.headers.clear();
  call->items = -1;
  call->forbidden = false;
  for (const auto& [name, value] : context->client_metadata()) {
    if (!IsRead(View(name))) continue;
    request.headers.emplace_back(View(name), View(value));
  }
  if (const std::string_view id = request.Header("x-request-id"); IsSaneRequestId(id)) {
    request.id = id;
  }
  request.context = RequestContext();
  if (stage_timers_) {
    const auto watched = std::make_shared<Watched>(request.begin);
    request.context.cancel = {watched, &watched->cancel};
    request.context.trace = {watched, &watched->trace};
    watched->trace.Enter(Stage::kParse, request.begin);
  } else {
    request.context.cancel = std::make_shared<CancelToken>();
  }
  PENSTOCK_RETURN_IF_ERROR(CheckKey(call));
  PENSTOCK_RETURN_IF_ERROR(policy_.Apply(&request));
  RequestContext& wanted = request.context;
  wanted.deadline = std::min(wanted.deadline, DeadlineOf(*context, request.begin));
  wanted.memory = service_->NewRequestMemory(wanted.priority);
  return wanted.memory->Take(static_cast<int64_t>(message_bytes));
}

grpc::Status GrpcFrontEnd::StatusOf(const Status& status, grpc::CallbackServerContext* context,
                                    GrpcCall* call) {
  if (status.ok()) return {};
  if (call->request.id.empty()) call->request.id = NewRequestId();
  context->AddTrailingMetadata("x-request-id", call->request.id);
  SetRetry(status, context);
  if (call->forbidden) return {grpc::StatusCode::PERMISSION_DENIED, status.message()};
  return to_grpc_[static_cast<size_t>(call->request.route)](status);
}

void GrpcFrontEnd::End(grpc::StatusCode code, size_t bytes_out,
                       grpc::CallbackServerContext* context, GrpcCall* call) {
  const auto now = Clock::now();
  HttpRequest& request = call->request;
  if (context->IsCancelled()) {
    code = now >= request.context.deadline ? grpc::StatusCode::DEADLINE_EXCEEDED
                                           : grpc::StatusCode::CANCELLED;
  }
  metrics_.in_flight().Add(-1);
  metrics_.CountCall(request.route, code,
                     std::chrono::duration<double>(now - request.begin).count());
  if (RequestTrace* const trace = request.context.trace.get()) {
    trace->Finish(now);
    // Calls that never reached a model would only blur the percentiles.
    if (trace->rows() > 0) service_->RecordTrace(*trace);
  }
  const bool broken = code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN;
  const RouteInfo& route = methods_[static_cast<size_t>(request.route)];
  if (finished_log_.Wants(request, &route, now, broken)) {
    if (request.id.empty()) request.id = NewRequestId();
    finished_log_.Write({.request = &request,
                         .route = &route,
                         .status = HttpStatusOfGrpc(code),
                         .body_bytes = bytes_out,
                         .end = now,
                         .items = call->items,
                         .grpc_code = GrpcCodeName(code)},
                        broken);
  }
  request.context = RequestContext();
}

}  // namespace penstock
