#include "grpc/model_infer.h"

#include <optional>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/infer_tensors.h"

namespace penstock {
namespace {

// Up to so many bytes of shared memory are copied on gRPC's thread: about a tenth of a millisecond.
constexpr uint64_t kCopyHereBytesMax = 1 << 20;

}  // namespace

class ModelInferCall final : public InferTensors {
 public:
  explicit ModelInferCall(ModelInferCalls* calls) : calls_(calls) {}

  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context_in,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
    reactor_.emplace(this);
    grpc_context_ = context_in;
    response_ = response;
    // The call may end, and this be used again, before the function returns.
    grpc::ServerUnaryReactor* const reactor = &*reactor_;
    Status status;
    bool large = false;
    try {
      status = Begin(*request);
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
    return reactor;
  }

  void Done(const Status& status) override {
    Status written = status;
    if (status.ok()) {
      try {
        written = Write(/*stream=*/false, response_);
      } catch (...) {
        written = ExceptionStatus();
      }
    }
    End(written);
  }

 private:
  // A reactor is for one call; the rest goes on.
  class Reactor final : public grpc::ServerUnaryReactor {
   public:
    explicit Reactor(ModelInferCall* call) : call_(call) {}
    void OnCancel() override {
      if (call_->cancel_ != nullptr) call_->cancel_->Cancel();
    }
    void OnDone() override { call_->OnDone(); }

   private:
    // OnDone neither waits nor takes long, so gRPC need not hand it to another thread.
    bool InternalInlineable() override { return true; }

    ModelInferCall* const call_;
  };

  Status Begin(const grpc::ByteBuffer& request) {
    cancel_ = nullptr;
    const Status let_in =
        calls_->front_end_->Begin(calls_->method_, grpc_context_, request.Length(), &call_);
    cancel_ = call_.context().cancel;
    PENSTOCK_RETURN_IF_ERROR(let_in);
    context = call_.context();
    may_lead = true;
    return Read(request, calls_->front_end_->service(), call_.request.begin);
  }

  // OK: the worker goes on with the call.
  Status ReadSharedOnWorker() {
    Service* const service = calls_->front_end_->service();
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
    grpc::Status wire(grpc::StatusCode::INTERNAL, "");  // allocates nothing
    RunGuarded("end of a call",
               [&] { wire = calls_->front_end_->StatusOf(status, grpc_context_, &call_); });
    code_ = wire.error_code();
    reactor_->Finish(std::move(wire));
  }

  void OnDone() {
    const size_t bytes = code_ == grpc::StatusCode::OK ? response_->Length() : 0;
    calls_->front_end_->End(code_, bytes, grpc_context_, &call_);
    Clear();
    calls_->Release(this);
  }

  ModelInferCalls* const calls_;
  std::optional<Reactor> reactor_;
  grpc::CallbackServerContext* grpc_context_ = nullptr;
  grpc::ByteBuffer* response_ = nullptr;
  std::shared_ptr<CancelToken> cancel_;
  GrpcCall call_;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

ModelInferCalls::ModelInferCalls(GrpcFrontEnd* front_end, int32_t method)
    : front_end_(front_end), method_(method) {
  free_.reserve(kKeptMax);
}
ModelInferCalls::~ModelInferCalls() = default;

grpc::ServerUnaryReactor* ModelInferCalls::Start(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
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
  return call.release()->Start(context, request, response);
}

void ModelInferCalls::Release(ModelInferCall* call) {
  std::unique_ptr<ModelInferCall> owned(call);
  const std::lock_guard lock(mutex_);
  if (free_.size() < kKeptMax) free_.push_back(std::move(owned));
}

}  // namespace penstock
