#include "grpc/model_infer.h"

#include <optional>
#include <utility>

#include "api/service.h"
#include "grpc/infer_tensors.h"
#include "log/exception_status.h"
#include "metrics/stages.h"

namespace penstock::grpc {
namespace {

// Shared memory up to this size is copied on the io thread: about a tenth of a millisecond.
constexpr uint64_t kCopyHereBytesMax = 1 << 20;

}  // namespace

class ModelInferCall final : public InferTensors, private RpcReactor {
 public:
  explicit ModelInferCall(ModelInferCalls* calls) : calls_(calls) {}

  void Start(int32_t method, const std::shared_ptr<Rpc>& rpc) {
    rpc_ = rpc;
    cancel_ = nullptr;
    answer_.reset();
    rpc->SetReactor(this);
    const Status status = calls_->front_end_->Begin(method, rpc_.get(), &call_);
    cancel_ = call_.context().cancel;
    if (!status.ok()) return End(status);
    // The call may end, and this be used again, before it returns.
    rpc->Read();
  }

  void Done(const Status& status) override {
    Status written = status;
    if (status.ok()) {
      try {
        written = Write(/*stream=*/false, &answer_.emplace());
      } catch (...) {
        written = ExceptionStatus();
      }
    }
    End(written);
  }

 private:
  void OnMessage(std::string message) override {
    Status status;
    bool large = false;
    try {
      call_.request.body_bytes = message.size();
      context = call_.context();
      if (context.trace != nullptr) context.trace->Enter(metrics::Stage::kParse);
      may_lead = true;
      status = Read(std::move(message), calls_->front_end_->service(), call_.request.begin);
      large = shared_bytes() > kCopyHereBytesMax;
      if (status.ok()) status = large ? ReadSharedOnWorker() : ReadShared();
    } catch (...) {
      status = ExceptionStatus();
    }
    if (!status.ok()) {
      End(status);
    } else if (!large) {
      calls_->front_end_->service()->Infer(this);
    }
  }
  void OnReadEnd(const Status& status) override { End(status); }
  void OnCancel() override {
    if (cancel_ != nullptr) cancel_->Cancel();
  }
  void OnDone() override {
    calls_->front_end_->End(*rpc_, &call_);
    rpc_.reset();
    Clear();
    calls_->Release(this);
  }

  // OK: the worker goes on with the call.
  Status ReadSharedOnWorker() {
    api::Service* const service = calls_->front_end_->service();
    return service->RunOnWorker(context.priority, shared_bytes(), [this, service] {
      Status status;
      try {
        status = ReadShared();
      } catch (...) {
        status = ExceptionStatus();
      }
      if (!status.ok()) return End(status);
      service->Infer(this);
    });
  }

  void End(const Status& status) {
    // The call may end, and this be used again, before it returns.
    calls_->front_end_->Finish(rpc_, &call_, status, std::exchange(answer_, std::nullopt));
  }

  ModelInferCalls* const calls_;
  std::shared_ptr<Rpc> rpc_;
  std::shared_ptr<CancelToken> cancel_;
  std::optional<RpcMessage> answer_;
  GrpcCall call_;
};

ModelInferCalls::ModelInferCalls(GrpcFrontEnd* front_end) : front_end_(front_end) {
  free_.reserve(kKeptMax);
}
ModelInferCalls::~ModelInferCalls() = default;

void ModelInferCalls::Start(int32_t method, const std::shared_ptr<Rpc>& rpc) {
  std::unique_ptr<ModelInferCall> call;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      call = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (call == nullptr) call = std::make_unique<ModelInferCall>(this);
  // Its own from here on, until Release.
  call.release()->Start(method, rpc);
}

void ModelInferCalls::Release(ModelInferCall* call) {
  std::unique_ptr<ModelInferCall> owned(call);
  const std::lock_guard lock(mutex_);
  if (free_.size() < kKeptMax) free_.push_back(std::move(owned));
}

}  // namespace penstock::grpc
