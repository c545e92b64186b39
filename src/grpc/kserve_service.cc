#include "grpc/kserve_service.h"

#include <fmt/format.h>
#include <grpc/inference.pb.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/model_state.h"
#include "api/service.h"
#include "api/shared_memory.h"
#include "base/printable.h"
#include "grpc/model_infer.h"
#include "grpc/stream_infer.h"
#include "grpc/typed_call.h"
#include "kserve/config_message.h"
#include "sched/tensor_scheduler.h"
#include "signature/tensor_spec.h"

namespace penstock::grpc {
namespace {

// About what a tensor takes in a message.
constexpr size_t kTensorBytes = 256;

size_t BytesOf(const signature::TensorSignature& signature) {
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

// The model, if this version of it is served.
Expected<api::ModelInfo> ModelOf(const api::Service& service, const std::string& name,
                                 const std::string& version) {
  PENSTOCK_ASSIGN_OR_RETURN(api::ModelInfo model, service.Model(name));
  if (version.empty() || version == api::ServedVersion(model.version)) return model;
  return Status::NotFound(fmt::format("model '{}' is served in version '{}', not '{}'", model.name,
                                      api::ServedVersion(model.version), Printable(version, 40)),
                          "version");
}

// ---- What is told of models

void FillTensor(const signature::TensorSpec& spec,
                inference::ModelMetadataResponse::TensorMetadata* to) {
  to->set_name(spec.name);
  to->set_datatype(signature::ElementTypeName(spec.type));
  if (!spec.shape) return to->add_shape(-1);
  for (const signature::DimensionRange& dimension : *spec.shape) {
    to->add_shape(dimension.fixed() ? dimension.min : -1);
  }
}

void FillTimes(const sched::TensorStatistics::Times& times, inference::StatisticDuration* to) {
  to->set_count(times.count);
  to->set_ns(times.ns);
}

// The model has a signature.
void FillModelMetadata(const api::ModelInfo& model, inference::ModelMetadataResponse* to) {
  to->set_name(model.name);
  to->add_versions(api::ServedVersion(model.version));
  to->set_platform(model.platform);
  for (const signature::TensorSpec& spec : model.signature->inputs)
    FillTensor(spec, to->add_inputs());
  for (const signature::TensorSpec& spec : model.signature->outputs)
    FillTensor(spec, to->add_outputs());
}

void FillStatistics(const api::ModelInfo& model, const sched::TensorStatistics& statistics,
                    inference::ModelStatistics* to) {
  to->set_name(model.name);
  to->set_version(api::ServedVersion(model.version));
  to->set_last_inference(static_cast<uint64_t>(statistics.last_run_unix_ms));
  to->set_inference_count(statistics.rows);
  to->set_execution_count(statistics.runs);
  auto* const sums = to->mutable_inference_stats();
  FillTimes(statistics.success, sums->mutable_success());
  FillTimes(statistics.fail, sums->mutable_fail());
  FillTimes(statistics.queue, sums->mutable_queue());
  FillTimes(statistics.input, sums->mutable_compute_input());
  FillTimes(statistics.infer, sums->mutable_compute_infer());
  FillTimes(statistics.output, sums->mutable_compute_output());
  FillTimes({}, sums->mutable_cache_hit());
  FillTimes({}, sums->mutable_cache_miss());
  for (const auto& [rows, batch] : statistics.batches) {
    auto* const one = to->add_batch_stats();
    one->set_batch_size(rows);
    FillTimes(batch.input, one->mutable_compute_input());
    FillTimes(batch.infer, one->mutable_compute_infer());
    FillTimes(batch.output, one->mutable_compute_output());
  }
}

// States as Triton has them: READY, LOADING, UNLOADING, UNAVAILABLE with the reason.
void FillIndex(const api::ModelInfo& model, inference::RepositoryIndexResponse::ModelIndex* to) {
  to->set_name(model.name);
  to->set_version(api::ServedVersion(model.version));
  const api::RepositoryState state = api::RepositoryStateOf(model);
  to->set_state(state.state);
  to->set_reason(state.reason);
}

// ---- Answered at once

Status Fill(api::Service*, const inference::ServerLiveRequest&,
            inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::ServerReadyRequest&,
            inference::ServerReadyResponse* response) {
  response->set_ready(service->Ready());
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::ServerMetadataRequest&,
            inference::ServerMetadataResponse* response) {
  response->set_name("penstock");
  response->set_version(PENSTOCK_VERSION);
  for (const char* extension : {"binary_tensor_data", "parameters", "schedule_policy",
                                "model_configuration", "model_repository", "statistics"}) {
    response->add_extensions(extension);
  }
  if (service->options().shared_memory_bytes > 0) response->add_extensions("system_shared_memory");
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::ModelReadyRequest& request,
            inference::ModelReadyResponse* response) {
  // A model that is not there is not ready, as Triton says it.
  const auto model = ModelOf(*service, request.name(), request.version());
  response->set_ready(model.ok() && api::IsReadyForRequests(*model));
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::ModelStatisticsRequest& request,
            inference::ModelStatisticsResponse* response) {
  if (!request.name().empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const api::ModelInfo model,
                              ModelOf(*service, request.name(), request.version()));
    PENSTOCK_ASSIGN_OR_RETURN(const auto statistics, service->InferStatistics(model.name));
    FillStatistics(model, statistics, response->add_model_stats());
    return Status::Ok();
  }
  for (const api::ModelInfo& model : service->Models()) {
    if (model.signature == nullptr) continue;
    const auto statistics = service->InferStatistics(model.name);
    if (statistics.ok()) FillStatistics(model, *statistics, response->add_model_stats());
  }
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::RepositoryIndexRequest& request,
            inference::RepositoryIndexResponse* response) {
  PENSTOCK_RETURN_IF_ERROR(CheckNoRepository(request.repository_name()));
  for (const api::ModelInfo& model : service->Models()) {
    inference::RepositoryIndexResponse::ModelIndex entry;
    FillIndex(model, &entry);
    if (!request.ready() || entry.state() == "READY") *response->add_models() = std::move(entry);
  }
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::RepositoryModelUnloadRequest& request,
            inference::RepositoryModelUnloadResponse*) {
  PENSTOCK_RETURN_IF_ERROR(CheckNoRepository(request.repository_name()));
  PENSTOCK_RETURN_IF_ERROR(CheckUnset(request.parameters()));
  return service->UnloadModel(request.model_name()).status();
}

Status Fill(api::Service* service, const inference::SystemSharedMemoryStatusRequest& request,
            inference::SystemSharedMemoryStatusResponse* response) {
  std::vector<api::SharedMemoryRegion> regions;
  if (request.name().empty()) {
    regions = service->shared_memory().Regions();
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(regions.emplace_back(),
                              service->shared_memory().Find(request.name()));
  }
  for (const api::SharedMemoryRegion& region : regions) {
    auto& to = (*response->mutable_regions())[region.name];
    to.set_name(region.name);
    to.set_key(region.key);
    to.set_offset(region.offset);
    to.set_byte_size(region.bytes);
  }
  return Status::Ok();
}

Status Fill(api::Service* service, const inference::SystemSharedMemoryRegisterRequest& request,
            inference::SystemSharedMemoryRegisterResponse*) {
  return service->shared_memory().Register(
      {request.name(), request.key(), request.offset(), request.byte_size()});
}

Status Fill(api::Service* service, const inference::SystemSharedMemoryUnregisterRequest& request,
            inference::SystemSharedMemoryUnregisterResponse*) {
  if (request.name().empty()) {
    service->shared_memory().UnregisterAll();
  } else {
    service->shared_memory().Unregister(request.name());
  }
  return Status::Ok();
}

// Clients unregister what may be left of an earlier run: there is never any.
Status Fill(api::Service*, const inference::CudaSharedMemoryStatusRequest&,
            inference::CudaSharedMemoryStatusResponse*) {
  return Status::Ok();
}

Status Fill(api::Service*, const inference::CudaSharedMemoryUnregisterRequest&,
            inference::CudaSharedMemoryUnregisterResponse*) {
  return Status::Ok();
}

Status Fill(api::Service*, const inference::CudaSharedMemoryRegisterRequest&,
            inference::CudaSharedMemoryRegisterResponse*) {
  return Status::Unsupported(
      "shared memory of a GPU (CudaSharedMemoryRegister) is not supported; use system shared "
      "memory");
}

Status Fill(api::Service*, const inference::TraceSettingRequest&,
            inference::TraceSettingResponse*) {
  return Status::Unsupported(
      "settings of traces (TraceSetting) are not supported; GET /v1/stats of HTTP says where time "
      "goes");
}

Status Fill(api::Service*, const inference::LogSettingsRequest&, inference::LogSettingsResponse*) {
  return Status::Unsupported(
      "settings of the log (LogSettings) cannot be asked for or changed here; see --log-level");
}

template <typename Request, typename Response>
void Answer(api::Service* service, const CallReply& reply, const Request& request,
            Response* response) {
  reply.End(Fill(service, request, response));
}

// ---- Answered once a model is loaded

// Calls `fill` with the model once it is loaded: only then its tensors are known.
void OfLoaded(api::Service* service, const CallReply& reply, const std::string& name,
              const std::string& version, std::function<void(const api::ModelInfo&)> fill) {
  const auto model = ModelOf(*service, name, version);
  if (!model.ok()) return reply.End(model.status());
  service->LoadModel(
      model->name, reply.context(),
      [reply, fill = std::move(fill)](const Expected<api::ModelInfo>& loaded) {
        if (!loaded.ok()) return reply.End(loaded.status());
        if (loaded->signature == nullptr) {
          return reply.End(Status::Unsupported(
              fmt::format("model '{}' is not a tensor model ({})", loaded->name, loaded->task),
              "name"));
        }
        const size_t bytes = BytesOf(*loaded->signature);
        reply.Print(bytes, [model = *loaded, fill] { fill(model); });
      });
}

void Answer(api::Service* service, const CallReply& reply,
            const inference::ModelMetadataRequest& request,
            inference::ModelMetadataResponse* response) {
  OfLoaded(service, reply, request.name(), request.version(),
           [response](const api::ModelInfo& model) { FillModelMetadata(model, response); });
}

void Answer(api::Service* service, const CallReply& reply,
            const inference::ModelConfigRequest& request,
            inference::ModelConfigResponse* response) {
  OfLoaded(service, reply, request.name(), request.version(),
           [response](const api::ModelInfo& model) {
             kserve::FillModelConfig(
                 {.name = model.name, .platform = model.platform, .signature = *model.signature},
                 response->mutable_config());
           });
}

void Answer(api::Service* service, const CallReply& reply,
            const inference::RepositoryModelLoadRequest& request,
            inference::RepositoryModelLoadResponse*) {
  Status status = CheckNoRepository(request.repository_name());
  if (status.ok()) status = CheckUnset(request.parameters());
  if (!status.ok()) return reply.End(status);
  service->LoadModel(
      request.model_name(), reply.context(),
      [reply](const Expected<api::ModelInfo>& loaded) { reply.End(loaded.status()); });
}

}  // namespace

void AddKserve(GrpcFrontEnd* front_end) {
#define PENSTOCK_PATH(name) "/inference.GRPCInferenceService/" #name
#define PENSTOCK_ADD(name, for_whom)                                                           \
  AddCalls<inference::name##Request, inference::name##Response>(                               \
      front_end, {.path = PENSTOCK_PATH(name), .who = penstock::frontend::RouteFor::for_whom}, \
      [service = front_end->service()](                                                        \
          const CallReply& reply, const inference::name##Request& request,                     \
          inference::name##Response* response) { Answer(service, reply, request, response); })
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
#undef PENSTOCK_ADD
  // Inferences are taken as bytes: nothing is allocated for a message before it was looked through;
  // see infer_request.h.
  front_end->AddMethod(
      {.path = PENSTOCK_PATH(ModelInfer)},
      [calls = std::make_shared<ModelInferCalls>(front_end)](
          int32_t method, const std::shared_ptr<Rpc>& rpc) { calls->Start(method, rpc); });
  AddStreamInfer(front_end, PENSTOCK_PATH(ModelStreamInfer));
#undef PENSTOCK_PATH
}

}  // namespace penstock::grpc
