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

constexpr RouteInfo Method(const char* path, RouteFor who = RouteFor::kUsers) {
  return {"GRPC", path, who};
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

const std::vector<RouteInfo>& KserveService::Methods() {
#define PENSTOCK_PATH(name) "/inference.GRPCInferenceService/" #name
  static const std::vector<RouteInfo> kMethods = {
      Method(PENSTOCK_PATH(ServerLive), RouteFor::kEveryone),
      Method(PENSTOCK_PATH(ServerReady), RouteFor::kEveryone),
      Method(PENSTOCK_PATH(ServerMetadata)),
      Method(PENSTOCK_PATH(ModelReady)),
      Method(PENSTOCK_PATH(ModelMetadata)),
      Method(PENSTOCK_PATH(ModelConfig)),
      Method(PENSTOCK_PATH(ModelInfer)),
      Method(PENSTOCK_PATH(ModelStreamInfer)),
      Method(PENSTOCK_PATH(ModelStatistics)),
      Method(PENSTOCK_PATH(RepositoryIndex)),
      Method(PENSTOCK_PATH(RepositoryModelLoad), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(RepositoryModelUnload), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(SystemSharedMemoryStatus), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(SystemSharedMemoryRegister), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(SystemSharedMemoryUnregister), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(CudaSharedMemoryStatus), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(CudaSharedMemoryRegister), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(CudaSharedMemoryUnregister), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(TraceSetting), RouteFor::kAdmins),
      Method(PENSTOCK_PATH(LogSettings), RouteFor::kAdmins),
  };
#undef PENSTOCK_PATH
  return kMethods;
}

KserveService::KserveService(GrpcFrontEnd* front_end)
    : front_end_(front_end),
      service_(front_end->service()),
      stream_(front_end->MethodOf("/inference.GRPCInferenceService/ModelStreamInfer")),
      infers_(front_end, front_end->MethodOf("/inference.GRPCInferenceService/ModelInfer")) {}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* KserveService::ModelStreamInfer(
    grpc::CallbackServerContext* context) {
  return StartStreamInfer(front_end_, stream_, context);
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
