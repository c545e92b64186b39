#include "library/models.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "apps/model_flags.h"
#include "dialects/list.h"
#include "frontend/key_ring.h"
#include "library/embed_call.h"
#include "library/options.h"

namespace penstock::library {
namespace {

// What one call may have. The caller could as well make more calls.
constexpr int64_t kBodyBytesMax = 256 << 20;
constexpr int64_t kUnreadBytesMax = 64 << 20;  // of a stream, whose caller may take its time
// What may wait. A server refuses what comes on top, so that others get their turn; here all of it is
// of one caller, whose memory bounds it.
constexpr int32_t kCallsMax = 1 << 14;
constexpr int64_t kQueuedTokensMax = int64_t{1} << 30;
constexpr int64_t kQueuedRowsMax = int64_t{1} << 24;

// For the models' work to end. They are asked again after it.
constexpr std::chrono::seconds kDrainTime{60};

// The log is one for the process: off until an open asks for it.
Status SetUpLog(const runtime::ModelOptions& flags, bool asked) {
  static std::once_flag first;
  Status status;
  std::call_once(first,
                 [&] { status = cli::ApplyLogFlags(runtime::ModelOptions{.log_level = "off"}); });
  return status.ok() && asked ? cli::ApplyLogFlags(flags) : status;
}

class RefusedCall final : public Call {
 public:
  RefusedCall(std::shared_ptr<Calls> calls, const Status& why) : Call(std::move(calls)) {
    SetFailed(why);
  }

 private:
  int Take(penstock_view*) override { return PENSTOCK_FAILED; }
  void Stop() override {}
};

}  // namespace

std::shared_ptr<Call> FailedCall(const Status& why) {
  return std::make_shared<RefusedCall>(std::make_shared<Calls>(), why);
}

Expected<std::unique_ptr<Models>> Models::Open(std::string_view options) {
  PENSTOCK_ASSIGN_OR_RETURN(OpenOptions read, ReadOptions(options));
  runtime::ModelOptions& flags = read.models;
  PENSTOCK_RETURN_IF_ERROR(SetUpLog(flags, read.sets_log));
  flags.limits.inputs_per_request = EmbedCall::kInputsMax;
  flags.limits.concurrent_requests = kCallsMax;
  flags.scheduler.max_queued_tokens = kQueuedTokensMax;
  flags.scheduler.max_queued_rows = kQueuedRowsMax;
  std::unique_ptr<Models> models(new Models);
  models->server_.body_bytes_max = kBodyBytesMax;
  models->server_.stream_unread_bytes_max = kUnreadBytesMax;
  models->server_.stage_timers = false;
  models->server_.slow_request = std::chrono::milliseconds(0);
  PENSTOCK_ASSIGN_OR_RETURN(auto keys, frontend::KeyRing::Make(models->server_));
  PENSTOCK_ASSIGN_OR_RETURN(models->local_, runtime::LocalModels::Start(flags));
  models->router_ = std::make_unique<serving::Router>(
      models->local_->service.get(), &models->local_->metrics, models->server_,
      dialects::AllRoutes(), std::move(keys), nullptr, std::chrono::milliseconds(1000));
  return models;
}

Models::~Models() {
  calls_->CancelAll({StatusCode::kCancelled, "the models were closed"});
  if (router_ == nullptr) return;
  router_->EndEndless();
  api::Service* const service = local_->service.get();
  service->AnnounceStop();
  service->StopAccepting();
  local_->registry->Stop();  // first: what waits for a model, or downloads one, ends with it
  while (!service->Drain(kDrainTime)) {
  }
}

std::shared_ptr<Call> Models::Embed(const penstock_texts& texts, const char* request) {
  auto call = std::make_shared<EmbedCall>(calls_);
  if (const Status open = calls_->Enter(call.get()); !open.ok()) return FailedCall(open);
  call->Start(local_->service.get(), texts, request);
  return call;
}

std::shared_ptr<Call> Models::Ask(const RouteRequest& asked) {
  auto call = std::make_shared<RequestCall>(calls_);
  if (const Status open = calls_->Enter(call.get()); !open.ok()) return FailedCall(open);
  call->Start(router_.get(), server_, asked);
  return call;
}

}  // namespace penstock::library
