#include "grpc/kserve_service.h"

#include <fmt/format.h>

#include <utility>

#include "api/model_state.h"
#include "api/service.h"
#include "api/shared_memory.h"
#include "common/printable.h"
#include "grpc/kserve_messages.h"
#include "grpc/stream_infer.h"
#include "kserve/config_message.h"

namespace penstock {
namespace {

// What a message of so many tensors takes, about.
constexpr size_t kTensorBytes = 256;

size_t BytesOf(const TensorSignature& signature) {
  return kTensorBytes * (1 + signature.inputs.size() + signature.outputs.size());
}

// Refuses parameters of loading and unloading that are set: a model's files and settings are the
// server's own.
template <typename Map>
Status CheckUnset(const Map& parameters) {
  for (const auto& [name, value] : parameters) {
    if (value.parameter_choice_case() == inference::ModelRepositoryParameter::kBoolParam &&
        !value.bool_param()) {
      continue;
    }
    return Status::Unsupported(
        fmt::format("the parameter '{}' is not supported: models are loaded as the server has them",
                    Printable(name, 100)),
        "parameters");
  }
  return Status::Ok();
}

Status CheckNoRepository(const std::string& name) {
  if (name.empty()) return Status::Ok();
  return Status::NotFound("repositories have no names here; leave repository_name out",
                          "repository_name");
}

}  // namespace

template <typename Request, typename Response>
void KserveService::Add(const char* path, RouteFor who) {
  AddUnary<Request, Response>(
      front_end_, path,
      [this](const UnaryReply& reply, const Request& request, Response* response) {
        Answer(reply, request, response);
      },
      who);
}

KserveService::KserveService(GrpcFrontEnd* front_end)
    : front_end_(front_end), service_(front_end->service()), infers_(front_end) {
#define PENSTOCK_PATH(name) "/inference.GRPCInferenceService/" #name
#define PENSTOCK_ADD(name, who) \
  Add<inference::name##Request, inference::name##Response>(PENSTOCK_PATH(name), RouteFor::who)
  PENSTOCK_ADD(ServerLive, kEveryone);
  PENSTOCK_ADD(ServerReady, kEveryone);
  PENSTOCK_ADD(ServerMetadata, kUsers);
  PENSTOCK_ADD(ModelReady, kUsers);
  PENSTOCK_ADD(ModelMetadata, kUsers);
  PENSTOCK_ADD(ModelConfig, kUsers);
  PENSTOCK_ADD(ModelStatistics, kUsers);
  PENSTOCK_ADD(RepositoryIndex, kUsers);
  PENSTOCK_ADD(RepositoryModelLoad, kAdmins);
  PENSTOCK_ADD(RepositoryModelUnload, kAdmins);
  PENSTOCK_ADD(SystemSharedMemoryStatus, kAdmins);
  PENSTOCK_ADD(SystemSharedMemoryRegister, kAdmins);
  PENSTOCK_ADD(SystemSharedMemoryUnregister, kAdmins);
  PENSTOCK_ADD(CudaSharedMemoryStatus, kAdmins);
  PENSTOCK_ADD(CudaSharedMemoryRegister, kAdmins);
  PENSTOCK_ADD(CudaSharedMemoryUnregister, kAdmins);
  PENSTOCK_ADD(TraceSetting, kAdmins);
  PENSTOCK_ADD(LogSettings, kAdmins);
  // Inferences are taken as bytes: nothing is allocated for a message before it was looked through;
  // see infer_request.h.
  front_end->AddMethod(
      PENSTOCK_PATH(ModelInfer), /*streams=*/false,
      [this](int32_t method, const std::shared_ptr<Rpc>& rpc) { infers_.Start(method, rpc); });
  front_end->AddMethod(PENSTOCK_PATH(ModelStreamInfer), /*streams=*/true,
                       [front_end](int32_t method, const std::shared_ptr<Rpc>& rpc) {
                         StartStreamInfer(front_end, method, rpc);
                       });
#undef PENSTOCK_ADD
#undef PENSTOCK_PATH
}

Expected<ModelInfo> KserveService::ModelOf(const std::string& name,
                                           const std::string& version) const {
  PENSTOCK_ASSIGN_OR_RETURN(ModelInfo model, service_->Model(name));
  if (version.empty() || version == ServedVersion(model.version)) return model;
  return Status::NotFound(
      fmt::format("model '{}' has no version '{}' that is served, but '{}'", model.name,
                  Printable(version, 40), ServedVersion(model.version)),
      "version");
}

void KserveService::OfLoaded(const UnaryReply& reply, const std::string& name,
                             const std::string& version,
                             std::function<void(const ModelInfo&)> fill) {
  const auto model = ModelOf(name, version);
  if (!model.ok()) return reply.End(model.status());
  service_->LoadModel(
      model->name, reply.context(),
      [reply, fill = std::move(fill)](const Expected<ModelInfo>& loaded) {
        if (!loaded.ok()) return reply.End(loaded.status());
        if (loaded->signature == nullptr) {
          return reply.End(Status::Unsupported(
              fmt::format("model '{}' is no tensor model ({})", loaded->name, loaded->task),
              "name"));
        }
        const size_t bytes = BytesOf(*loaded->signature);
        reply.Print(bytes, [model = *loaded, fill] { fill(model); });
      });
}

void KserveService::Answer(const UnaryReply& reply, const inference::ServerLiveRequest&,
                           inference::ServerLiveResponse* response) {
  response->set_live(true);
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply, const inference::ServerReadyRequest&,
                           inference::ServerReadyResponse* response) {
  response->set_ready(service_->Ready());
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply, const inference::ServerMetadataRequest&,
                           inference::ServerMetadataResponse* response) {
  FillServerMetadata(service_->options().shared_memory_bytes > 0, response);
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply, const inference::ModelReadyRequest& request,
                           inference::ModelReadyResponse* response) {
  // A model that is not there is not ready, as Triton says it.
  const auto model = ModelOf(request.name(), request.version());
  response->set_ready(model.ok() && IsReadyForRequests(*model));
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply, const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse* response) {
  OfLoaded(reply, request.name(), request.version(),
           [response](const ModelInfo& model) { FillModelMetadata(model, response); });
}

void KserveService::Answer(const UnaryReply& reply, const inference::ModelConfigRequest& request,
                           inference::ModelConfigResponse* response) {
  OfLoaded(reply, request.name(), request.version(), [response](const ModelInfo& model) {
    FillModelConfig({.name = model.name, .platform = model.platform, .signature = *model.signature},
                    response->mutable_config());
  });
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::ModelStatisticsRequest& request,
                           inference::ModelStatisticsResponse* response) {
  const bool all = request.name().empty();
  if (!all) {
    const auto model = ModelOf(request.name(), request.version());
    if (!model.ok()) return reply.End(model.status());
    const auto statistics = service_->InferStatistics(model->name);
    if (!statistics.ok()) return reply.End(statistics.status());
    FillStatistics(*model, *statistics, response->add_model_stats());
    return reply.End(Status::Ok());
  }
  for (const ModelInfo& model : service_->Models()) {
    if (model.signature == nullptr) continue;
    const auto statistics = service_->InferStatistics(model.name);
    if (statistics.ok()) FillStatistics(model, *statistics, response->add_model_stats());
  }
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::RepositoryIndexRequest& request,
                           inference::RepositoryIndexResponse* response) {
  if (const Status status = CheckNoRepository(request.repository_name()); !status.ok()) {
    return reply.End(status);
  }
  for (const ModelInfo& model : service_->Models()) {
    inference::RepositoryIndexResponse::ModelIndex entry;
    FillIndex(model, &entry);
    if (!request.ready() || entry.state() == "READY") *response->add_models() = std::move(entry);
  }
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::RepositoryModelLoadRequest& request,
                           inference::RepositoryModelLoadResponse*) {
  Status status = CheckNoRepository(request.repository_name());
  if (status.ok()) status = CheckUnset(request.parameters());
  if (!status.ok()) return reply.End(status);
  service_->LoadModel(request.model_name(), reply.context(),
                      [reply](const Expected<ModelInfo>& loaded) { reply.End(loaded.status()); });
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::RepositoryModelUnloadRequest& request,
                           inference::RepositoryModelUnloadResponse*) {
  Status status = CheckNoRepository(request.repository_name());
  if (status.ok()) status = CheckUnset(request.parameters());
  if (status.ok()) status = service_->UnloadModel(request.model_name()).status();
  reply.End(status);
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::SystemSharedMemoryStatusRequest& request,
                           inference::SystemSharedMemoryStatusResponse* response) {
  std::vector<SharedMemoryRegion> regions;
  if (request.name().empty()) {
    regions = service_->shared_memory().Regions();
  } else {
    auto region = service_->shared_memory().Find(request.name());
    if (!region.ok()) return reply.End(region.status());
    regions.push_back(*std::move(region));
  }
  for (const SharedMemoryRegion& region : regions) {
    auto& to = (*response->mutable_regions())[region.name];
    to.set_name(region.name);
    to.set_key(region.key);
    to.set_offset(region.offset);
    to.set_byte_size(region.bytes);
  }
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::SystemSharedMemoryRegisterRequest& request,
                           inference::SystemSharedMemoryRegisterResponse*) {
  reply.End(service_->shared_memory().Register(
      {request.name(), request.key(), request.offset(), request.byte_size()}));
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::SystemSharedMemoryUnregisterRequest& request,
                           inference::SystemSharedMemoryUnregisterResponse*) {
  if (request.name().empty()) {
    service_->shared_memory().UnregisterAll();
  } else {
    service_->shared_memory().Unregister(request.name());
  }
  reply.End(Status::Ok());
}

// Clients unregister what may be left of an earlier run: there is never any.
void KserveService::Answer(const UnaryReply& reply, const inference::CudaSharedMemoryStatusRequest&,
                           inference::CudaSharedMemoryStatusResponse*) {
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::CudaSharedMemoryUnregisterRequest&,
                           inference::CudaSharedMemoryUnregisterResponse*) {
  reply.End(Status::Ok());
}

void KserveService::Answer(const UnaryReply& reply,
                           const inference::CudaSharedMemoryRegisterRequest&,
                           inference::CudaSharedMemoryRegisterResponse*) {
  reply.End(Status::Unsupported(
      "shared memory of a GPU (CudaSharedMemoryRegister) is not supported; use system shared "
      "memory"));
}

void KserveService::Answer(const UnaryReply& reply, const inference::TraceSettingRequest&,
                           inference::TraceSettingResponse*) {
  reply.End(Status::Unsupported(
      "settings of traces (TraceSetting) are not supported; GET /v1/stats of HTTP says where time "
      "goes"));
}

void KserveService::Answer(const UnaryReply& reply, const inference::LogSettingsRequest&,
                           inference::LogSettingsResponse*) {
  reply.End(Status::Unsupported(
      "settings of the log (LogSettings) cannot be asked for or changed here; see --log-level"));
}

}  // namespace penstock
