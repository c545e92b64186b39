#include "grpc/health_service.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/unary_call.h"

namespace penstock {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

}  // namespace

const std::vector<RouteInfo>& HealthService::Methods() {
  static const std::vector<RouteInfo> kMethods = {
      {"GRPC", kCheck, RouteFor::kEveryone}, {"GRPC", kWatch, RouteFor::kEveryone, false, true}};
  return kMethods;
}

HealthService::HealthService(GrpcFrontEnd* front_end)
    : front_end_(front_end),
      check_(front_end->MethodOf(kCheck)),
      watch_(front_end->MethodOf(kWatch)) {}

HealthService::Serving HealthService::StatusOf(const std::string& name) const {
  const penstock::Service& service = *front_end_->service();
  const auto& methods = front_end_->methods();
  const bool is_service =
      name.empty() || std::any_of(methods.begin(), methods.end(), [&](const RouteInfo& method) {
        const std::string_view path = method.path;  // "/package.Service/Method"
        return path.substr(1, path.rfind('/') - 1) == name;
      });
  bool serving = false;
  if (is_service) {
    serving = service.Ready();
  } else {
    const auto model = service.Model(name);
    if (!model.ok()) return HealthCheckResponse::SERVICE_UNKNOWN;
    serving = model->ready;
  }
  return serving && !stopping_.load() ? HealthCheckResponse::SERVING
                                      : HealthCheckResponse::NOT_SERVING;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  return UnaryCall::Start(
      front_end_, check_, context, *request, response, [=, this](const UnaryReply& reply) {
        const Serving status = StatusOf(request->service());
        if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
          return reply.End(Status::NotFound("there is no service and no model of this name"));
        }
        response->set_status(status);
        reply.End(Status::Ok());
      });
}

// Goes round: write, wait, look; one of them is under way at any time, and finishes the call where
// the client has left or the server stops.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService* health, grpc::CallbackServerContext* context,
          const HealthCheckRequest& request)
      : health_(health), context_(context), name_(request.service()) {
    const bool room = health->watchers_.fetch_add(1) < kWatchersMax;
    Status status =
        health->front_end_->Begin(health->watch_, context, request.ByteSizeLong(), &call_);
    if (status.ok() && !room) {
      status = Status(StatusCode::kResourceExhausted,
                      "too many watch the health of this server: " + std::to_string(kWatchersMax))
                   .WithRetryAfter(10);
    }
    call_.items = 0;
    if (status.ok()) {
      Look();
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok || said_stopping_) return End(Status(StatusCode::kUnavailable, "the server stops"));
    Wait();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    alarm_.Cancel();
  }
  void OnDone() override {
    health_->front_end_->End(code_, 0, context_, &call_);
    health_->watchers_.fetch_sub(1);
    delete this;
  }

 private:
  void Look() {
    const bool stopping = health_->stopping_.load();
    const Serving now = health_->StatusOf(name_);
    if (now == said_ && !stopping) return Wait();
    said_ = now;
    said_stopping_ = stopping;
    message_.set_status(now);
    ++call_.items;
    StartWrite(&message_);
  }
  void Wait() {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return End(Status(StatusCode::kCancelled, ""));
    alarm_.Set(std::chrono::system_clock::now() + kWatchInterval, [this](bool) { Woken(); });
  }
  void Woken() {
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      cancelled = cancelled_;
    }
    if (cancelled) return End(Status(StatusCode::kCancelled, ""));
    if (!RunGuarded("health", [this] { Look(); })) {
      End(MakeStatus(StatusCode::kInternal, "the health is not known"));
    }
  }
  void End(const Status& status) {
    grpc::Status wire = health_->front_end_->StatusOf(status, context_, &call_);
    code_ = wire.error_code();
    Finish(std::move(wire));
  }

  HealthService* const health_;
  grpc::CallbackServerContext* const context_;
  const std::string name_;
  GrpcCall call_;
  HealthCheckResponse message_;
  Serving said_ = HealthCheckResponse::UNKNOWN;  // never a status of ours
  bool said_stopping_ = false;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
  std::mutex mutex_;
  bool cancelled_ = false;  // guarded by mutex_
  grpc::Alarm alarm_;       // set and cancelled under mutex_
};

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request) {
  return new Watcher(this, context, *request);
}

}  // namespace penstock
