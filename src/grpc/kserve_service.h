// inference.GRPCInferenceService: the Open Inference Protocol (KServe v2) with Triton's extensions.
#pragma once

#include <grpc/inference.grpc.pb.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <string>
#include <vector>

#include "api/types.h"
#include "frontend/route_info.h"
#include "grpc/grpc_front_end.h"
#include "grpc/model_infer.h"
#include "grpc/unary_call.h"

namespace penstock {

using KserveRpc = inference::GRPCInferenceService;
// What protoc calls CallbackService, but inferences are taken as bytes, so that nothing is
// allocated for a message before it was looked through; see infer_request.h.
using KserveMethods = KserveRpc::WithRawCallbackMethod_ModelInfer<
    KserveRpc::WithRawCallbackMethod_ModelStreamInfer<KserveRpc::WithCallbackMethod_ServerLive<
        KserveRpc::WithCallbackMethod_ServerReady<KserveRpc::WithCallbackMethod_ServerMetadata<
            KserveRpc::WithCallbackMethod_ModelReady<KserveRpc::WithCallbackMethod_ModelMetadata<
                KserveRpc::WithCallbackMethod_ModelConfig<KserveRpc::WithCallbackMethod_ModelStatistics<
                    KserveRpc::WithCallbackMethod_RepositoryIndex<
                        KserveRpc::WithCallbackMethod_RepositoryModelLoad<
                            KserveRpc::WithCallbackMethod_RepositoryModelUnload<
                                KserveRpc::WithCallbackMethod_SystemSharedMemoryStatus<
                                    KserveRpc::WithCallbackMethod_SystemSharedMemoryRegister<
                                        KserveRpc::WithCallbackMethod_SystemSharedMemoryUnregister<
                                            KserveRpc::WithCallbackMethod_CudaSharedMemoryStatus<
                                                KserveRpc::WithCallbackMethod_CudaSharedMemoryRegister<
                                                    KserveRpc::WithCallbackMethod_CudaSharedMemoryUnregister<
                                                        KserveRpc::WithCallbackMethod_TraceSetting<
                                                            KserveRpc::
                                                                WithCallbackMethod_LogSettings<
                                                                    KserveRpc::
                                                                        Service>>>>>>>>>>>>>>>>>>>>;

class KserveService final : public KserveMethods {
 public:
  static const std::vector<RouteInfo>& Methods();

  explicit KserveService(GrpcFrontEnd* front_end);

  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override {
    return infers_.Start(context, request, response);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ModelStreamInfer(
      grpc::CallbackServerContext* context) override;

// Each of the other methods has an Answer below.
#define PENSTOCK_KSERVE_METHOD(name)                                                  \
  grpc::ServerUnaryReactor* name(grpc::CallbackServerContext* context,                \
                                 const inference::name##Request* request,             \
                                 inference::name##Response* response) override {      \
    return Run("/inference.GRPCInferenceService/" #name, context, request, response); \
  }
  PENSTOCK_KSERVE_METHOD(ServerLive)
  PENSTOCK_KSERVE_METHOD(ServerReady)
  PENSTOCK_KSERVE_METHOD(ServerMetadata)
  PENSTOCK_KSERVE_METHOD(ModelReady)
  PENSTOCK_KSERVE_METHOD(ModelMetadata)
  PENSTOCK_KSERVE_METHOD(ModelConfig)
  PENSTOCK_KSERVE_METHOD(ModelStatistics)
  PENSTOCK_KSERVE_METHOD(RepositoryIndex)
  PENSTOCK_KSERVE_METHOD(RepositoryModelLoad)
  PENSTOCK_KSERVE_METHOD(RepositoryModelUnload)
  PENSTOCK_KSERVE_METHOD(SystemSharedMemoryStatus)
  PENSTOCK_KSERVE_METHOD(SystemSharedMemoryRegister)
  PENSTOCK_KSERVE_METHOD(SystemSharedMemoryUnregister)
  PENSTOCK_KSERVE_METHOD(CudaSharedMemoryStatus)
  PENSTOCK_KSERVE_METHOD(CudaSharedMemoryRegister)
  PENSTOCK_KSERVE_METHOD(CudaSharedMemoryUnregister)
  PENSTOCK_KSERVE_METHOD(TraceSetting)
  PENSTOCK_KSERVE_METHOD(LogSettings)
#undef PENSTOCK_KSERVE_METHOD

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Run(const char* path, grpc::CallbackServerContext* context,
                                const Request* request, Response* response) {
    return UnaryCall::Start(
        front_end_, front_end_->MethodOf(path), context, *request, response,
        [=, this](const UnaryReply& reply) { Answer(reply, *request, response); });
  }

  void Answer(const UnaryReply& reply, const inference::ServerLiveRequest& request,
              inference::ServerLiveResponse* response);
  void Answer(const UnaryReply& reply, const inference::ServerReadyRequest& request,
              inference::ServerReadyResponse* response);
  void Answer(const UnaryReply& reply, const inference::ServerMetadataRequest& request,
              inference::ServerMetadataResponse* response);
  void Answer(const UnaryReply& reply, const inference::ModelReadyRequest& request,
              inference::ModelReadyResponse* response);
  void Answer(const UnaryReply& reply, const inference::ModelMetadataRequest& request,
              inference::ModelMetadataResponse* response);
  void Answer(const UnaryReply& reply, const inference::ModelConfigRequest& request,
              inference::ModelConfigResponse* response);
  void Answer(const UnaryReply& reply, const inference::ModelStatisticsRequest& request,
              inference::ModelStatisticsResponse* response);
  void Answer(const UnaryReply& reply, const inference::RepositoryIndexRequest& request,
              inference::RepositoryIndexResponse* response);
  void Answer(const UnaryReply& reply, const inference::RepositoryModelLoadRequest& request,
              inference::RepositoryModelLoadResponse* response);
  void Answer(const UnaryReply& reply, const inference::RepositoryModelUnloadRequest& request,
              inference::RepositoryModelUnloadResponse* response);
  void Answer(const UnaryReply& reply, const inference::SystemSharedMemoryStatusRequest& request,
              inference::SystemSharedMemoryStatusResponse* response);
  void Answer(const UnaryReply& reply, const inference::SystemSharedMemoryRegisterRequest& request,
              inference::SystemSharedMemoryRegisterResponse* response);
  void Answer(const UnaryReply& reply,
              const inference::SystemSharedMemoryUnregisterRequest& request,
              inference::SystemSharedMemoryUnregisterResponse* response);
  void Answer(const UnaryReply& reply, const inference::CudaSharedMemoryStatusRequest& request,
              inference::CudaSharedMemoryStatusResponse* response);
  void Answer(const UnaryReply& reply, const inference::CudaSharedMemoryRegisterRequest& request,
              inference::CudaSharedMemoryRegisterResponse* response);
  void Answer(const UnaryReply& reply, const inference::CudaSharedMemoryUnregisterRequest& request,
              inference::CudaSharedMemoryUnregisterResponse* response);
  void Answer(const UnaryReply& reply, const inference::TraceSettingRequest& request,
              inference::TraceSettingResponse* response);
  void Answer(const UnaryReply& reply, const inference::LogSettingsRequest& request,
              inference::LogSettingsResponse* response);

  // The model, if this version of it is served.
  Expected<ModelInfo> ModelOf(const std::string& name, const std::string& version) const;
  // Calls `fill` with the model once it is loaded: only then its tensors are known.
  void OfLoaded(const UnaryReply& reply, const std::string& name, const std::string& version,
                std::function<void(const ModelInfo&)> fill);

  GrpcFrontEnd* const front_end_;
  penstock::Service* const service_;
  const int32_t stream_;
  ModelInferCalls infers_;
};

}  // namespace penstock
