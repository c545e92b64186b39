#include "grpc/health_service.h"

#include <algorithm>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/proto_message.h"
#include "grpc/unary_call.h"

namespace penstock {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

Status AsksForKey() {
  return {StatusCode::kUnauthenticated, "the health of a model is told to those with a key"};
}

}  // namespace

bool HealthService::IsService(const std::string& name) const {
  const auto& methods = front_end_->methods();
  return name.empty() || std::any_of(methods.begin(), methods.end(), [&](const RouteInfo& method) {
           const std::string_view path = method.path;  // "/package.Service/Method"
           return path.substr(1, path.rfind('/') - 1) == name;
         });
}

HealthService::Serving HealthService::StatusOf(const std::string& name) const {
  const Service& service = *front_end_->service();
  bool serving = false;
  if (IsService(name)) {
    serving = service.Ready();
  } else {
    const auto model = service.Model(name);
    if (!model.ok()) return HealthCheckResponse::SERVICE_UNKNOWN;
    serving = model->ready;
  }
  return serving && !stopping_.load() ? HealthCheckResponse::SERVING
                                      : HealthCheckResponse::NOT_SERVING;
}

// Goes round: write, wait, look; all on the io thread of its connection.
class HealthService::Watcher final : public RpcReactor {
 public:
  Watcher(HealthService* health, std::shared_ptr<Rpc> rpc)
      : health_(health), rpc_(std::move(rpc)) {}
  ~Watcher() { health_->watchers_.fetch_sub(1); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  static void Start(HealthService* health, int32_t method, const std::shared_ptr<Rpc>& rpc) {
    const bool room = health->watchers_.fetch_add(1) < kWatchersMax;
    auto* const watcher = new Watcher(health, rpc);
    rpc->SetReactor(watcher);
    watcher->Begin(method, room);
  }

  void OnMessage(std::string message) override {
    HealthCheckRequest request;
    int64_t counted = 0;
    const Status parsed = ParseMessage(message, call_.context().memory.get(), &request, &counted);
    if (!parsed.ok()) return End(parsed);
    name_ = request.service();
    if (!health_->IsService(name_) && !health_->front_end_->HasKey(&call_)) {
      return End(AsksForKey());
    }
    Look();
  }
  void OnReadEnd(const Status& status) override {
    End(status.ok() ? Status::InvalidArgument("the call has no message") : status);
  }
  void OnWritten(bool ok) override {
    if (!ok || said_stopping_) return End({StatusCode::kUnavailable, "the server stops"});
    Wait();
  }
  void OnWake() override { Look(); }
  void OnCancel() override { End({StatusCode::kCancelled, ""}); }
  void OnDone() override {
    health_->front_end_->End(*rpc_, &call_);
    delete this;
  }

 private:
  void Begin(int32_t method, bool room) {
    Status status;
    try {
      status = health_->front_end_->Begin(method, rpc_.get(), &call_);
    } catch (...) {
      status = ExceptionStatus();
    }
    if (status.ok() && !room) {
      status = Status(StatusCode::kResourceExhausted,
                      "too many watch the health of this server: " + std::to_string(kWatchersMax))
                   .WithRetryAfter(10);
    }
    call_.items = 0;
    if (!status.ok()) return End(status);
    rpc_->Read();
  }
  void Look() {
    if (ended_) return;
    const bool stopping = health_->stopping_.load();
    const Serving now = health_->StatusOf(name_);
    if (now == said_ && !stopping) return Wait();
    said_ = now;
    said_stopping_ = stopping;
    HealthCheckResponse message;
    message.set_status(now);
    ++call_.items;
    rpc_->Write(PrintMessage(message));
  }
  void Wait() { rpc_->WakeAt(Clock::now() + kWatchInterval); }
  void End(const Status& status) {
    if (std::exchange(ended_, true)) return;
    GrpcStatus wire{GrpcCode::kInternal, ""};
    RunGuarded("end of a watch",
               [&] { wire = health_->front_end_->StatusOf(status, rpc_.get(), &call_); });
    const auto rpc = rpc_;
    rpc->Finish(std::move(wire));
  }

  HealthService* const health_;
  const std::shared_ptr<Rpc> rpc_;
  std::string name_;
  GrpcCall call_;
  Serving said_ = HealthCheckResponse::UNKNOWN;  // never a status of ours
  bool said_stopping_ = false;
  bool ended_ = false;
};

HealthService::HealthService(GrpcFrontEnd* front_end) : front_end_(front_end) {
  AddUnary<HealthCheckRequest, HealthCheckResponse>(
      front_end, "/grpc.health.v1.Health/Check",
      [this](const UnaryReply& reply, const HealthCheckRequest& request,
             HealthCheckResponse* response) {
        if (!IsService(request.service()) && !reply.HasKey()) return reply.End(AsksForKey());
        const Serving status = StatusOf(request.service());
        if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
          return reply.End(Status::NotFound("there is no service and no model of this name"));
        }
        response->set_status(status);
        reply.End(Status::Ok());
      },
      RouteFor::kEveryone);
  front_end->AddMethod(
      "/grpc.health.v1.Health/Watch", /*streams=*/false,
      [this](int32_t method, const std::shared_ptr<Rpc>& rpc) {
        Watcher::Start(this, method, rpc);
      },
      RouteFor::kEveryone, /*endless=*/true);
}

}  // namespace penstock
