#include "grpc/health_service.h"

#include <algorithm>

#include "api/service.h"
#include "grpc/proto_message.h"
#include "grpc/typed_call.h"

namespace penstock::grpc {
namespace {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

Status AsksForKey() {
  return {StatusCode::kUnauthenticated, "the health of a model is told to those with a key"};
}

}  // namespace

bool HealthService::IsService(const std::string& name) const {
  const auto& methods = front_end_->methods();
  return name.empty() ||
         std::any_of(methods.begin(), methods.end(), [&](const frontend::RouteInfo& method) {
           const std::string_view path = method.path;  // "/package.Service/Method"
           return path.substr(1, path.rfind('/') - 1) == name;
         });
}

HealthService::Serving HealthService::StatusOf(const std::string& name) const {
  const api::Service& service = *front_end_->service();
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

// A request whose answer has a message for each change. Looked at by one thread at a time.
class HealthService::Watch final : public CallRequest {
 public:
  explicit Watch(HealthService* health)
      : health_(health), room_(health->watchers_.fetch_add(1) < kWatchersMax) {}
  ~Watch() override { health_->watchers_.fetch_sub(1); }

  Status Read(std::string message, RequestMemory* memory, int64_t* counted) override {
    HealthCheckRequest request;
    PENSTOCK_RETURN_IF_ERROR(ParseMessage(message, memory, &request, counted));
    name_ = request.service();
    return Status::Ok();
  }
  void Work(const CallReply& reply) override {
    if (!room_) {
      return reply.End(
          Status(StatusCode::kResourceExhausted,
                 "too many watch the health of this server: " + std::to_string(kWatchersMax))
              .WithRetryAfter(10));
    }
    if (!health_->IsService(name_) && !reply.HasKey()) return reply.End(AsksForKey());
    rpc_ = &reply.rpc();
    reply.Wake();
  }
  Expected<Step> Next(RpcMessage* message) override {
    if (said_stopping_) return Status(StatusCode::kUnavailable, "the server stops");
    const bool stopping = health_->stopping_.load();
    const Serving now = health_->StatusOf(name_);
    if (now == said_ && !stopping) {
      rpc_->WakeAt(Clock::now() + kWatchInterval);
      return Step::kWait;
    }
    said_ = now;
    said_stopping_ = stopping;
    HealthCheckResponse response;
    response.set_status(now);
    *message = PrintMessage(response);
    return Step::kSend;
  }

 private:
  HealthService* const health_;
  const bool room_;
  Rpc* rpc_ = nullptr;
  std::string name_;
  Serving said_ = HealthCheckResponse::UNKNOWN;  // never a status of ours
  bool said_stopping_ = false;
};

HealthService::HealthService(GrpcFrontEnd* front_end) : front_end_(front_end) {
  AddCalls<HealthCheckRequest, HealthCheckResponse>(
      front_end, {.path = "/grpc.health.v1.Health/Check", .who = frontend::RouteFor::kEveryone},
      [this](const CallReply& reply, const HealthCheckRequest& request,
             HealthCheckResponse* response) {
        if (!IsService(request.service()) && !reply.HasKey()) return reply.End(AsksForKey());
        const Serving status = StatusOf(request.service());
        if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
          return reply.End(Status::NotFound("there is no service and no model of this name"));
        }
        response->set_status(status);
        reply.End(Status::Ok());
      });
  OrderedCall::AddMethod(
      front_end,
      {.path = "/grpc.health.v1.Health/Watch",
       .who = frontend::RouteFor::kEveryone,
       .endless = true},
      [this](const std::shared_ptr<Rpc>&) {
        return CallParts{.new_request = [this] { return std::make_shared<Watch>(this); }};
      });
}

}  // namespace penstock::grpc
