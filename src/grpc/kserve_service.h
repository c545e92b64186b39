// inference.GRPCInferenceService: the Open Inference Protocol (KServe v2) with Triton's extensions.
#pragma once

#include <grpc/inference.pb.h>

#include <functional>
#include <string>

#include "api/types.h"
#include "grpc/grpc_front_end.h"
#include "grpc/model_infer.h"
#include "grpc/unary_call.h"

namespace penstock {

class KserveService {
 public:
  explicit KserveService(GrpcFrontEnd* front_end);

 private:
  // Adds the method of this name, which an Answer below serves.
  template <typename Request, typename Response>
  void Add(const char* path, RouteFor who = RouteFor::kUsers);

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
  Service* const service_;
  ModelInferCalls infers_;
};

}  // namespace penstock
