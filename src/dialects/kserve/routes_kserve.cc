// The Open Inference Protocol (KServe v2) for tensor models, with Triton's extensions.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "api/model_state.h"
#include "api/shared_memory.h"
#include "dialects/kserve/kserve_infer.h"
#include "dialects/kserve/kserve_print.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/rows.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

void AnswerState(const RouteCall& call, const char* name, bool state) {
  http::HttpResponse response;
  if (!state) response.status = 503;
  JsonWriter(&response.body).BeginObject().Field(name, state).EndObject();
  call.respond.Send(std::move(response));
}

void ServerLive(const RouteCall& call) { AnswerState(call, "live", true); }
void ServerReady(const RouteCall& call) { AnswerState(call, "ready", call.service->Ready()); }

void Server(const RouteCall& call) {
  call.Ok(PrintKserveServer(call.service->options().shared_memory_bytes > 0));
}

// The parts of the path: a model, and a version or "".
Status CheckVersion(const api::ModelInfo& model, const std::string& version) {
  if (version.empty() || version == api::ServedVersion(model.version)) return Status::Ok();
  return Status::NotFound(fmt::format("model '{}' is served in version '{}', not '{}'", model.name,
                                      api::ServedVersion(model.version), version.substr(0, 40)),
                          "model_version");
}

Expected<api::ModelInfo> ModelOf(const RouteCall& call) {
  PENSTOCK_ASSIGN_OR_RETURN(api::ModelInfo model, call.service->Model(call.PathPart(0)));
  PENSTOCK_RETURN_IF_ERROR(CheckVersion(model, call.PathPart(1)));
  return model;
}

Status CheckTensors(const api::ModelInfo& model) {
  if (model.signature != nullptr) return Status::Ok();
  return {StatusCode::kUnprocessable,
          fmt::format("model '{}' is not a tensor model ({}): it has routes of its own", model.name,
                      model.task)};
}

void ModelReady(const RouteCall& call) {
  const auto model = ModelOf(call);
  if (!model.ok()) return call.Fail(model.status());
  AnswerState(call, "ready", api::IsReadyForRequests(*model));
}

// Answers with print(model), once the model is loaded: only then its tensors are known.
template <std::string (*kPrint)(const api::ModelInfo& model)>
void OfLoaded(const RouteCall& call) {
  const auto model = ModelOf(call);
  if (!model.ok()) return call.Fail(model.status());
  call.service->LoadModel(
      model->name, call.request->context,
      [call_respond = call.respond, request = call.request, error_body = call.route->error_body,
       version = call.PathPart(1)](const Expected<api::ModelInfo>& loaded) {
        Status status = loaded.status();
        if (status.ok()) status = CheckTensors(*loaded);
        if (status.ok()) status = CheckVersion(*loaded, version);
        if (!status.ok()) return call_respond.Send(PrintError(error_body, status, request->id));
        http::HttpResponse response;
        response.body = kPrint(*loaded);
        call_respond.Send(std::move(response));
      });
}

void ModelStatistics(const RouteCall& call) {
  const auto model = ModelOf(call);
  if (!model.ok()) return call.Fail(model.status());
  const auto statistics = call.service->InferStatistics(model->name);
  if (!statistics.ok()) return call.Fail(statistics.status());
  const KserveModelStatistics each = {*model, *statistics};
  call.Ok(PrintKserveStatistics({&each, 1}));
}

void AllStatistics(const RouteCall& call) {
  std::vector<KserveModelStatistics> all;
  for (api::ModelInfo& model : call.service->Models()) {
    if (model.signature == nullptr) continue;
    auto statistics = call.service->InferStatistics(model.name);
    if (statistics.ok()) all.push_back({std::move(model), *std::move(statistics)});
  }
  call.Ok(PrintKserveStatistics(all));
}

void Infer(const RouteCall& call) { AnswerKserveInfer(call, call.PathPart(0), call.PathPart(1)); }

// The body of a route that wants none.
Expected<RequestBody> OptionalBody(const RouteCall& call) {
  return RequestBody::Parse(call.body.empty() ? std::string_view("{}") : call.body);
}

// {"ready": true}: only models that are loaded.
void RepositoryIndex(const RouteCall& call) {
  const auto body = OptionalBody(call);
  if (!body.ok()) return call.Fail(body.status());
  const auto ready = body->object().GetBoolOr("ready", false);
  if (!ready.ok()) return call.Fail(ready.status());
  call.Ok(PrintKserveIndex(call.service->Models(), *ready));
}

// Refuses parameters of loading: a model's files and settings are the server's own.
Status CheckLoadParameters(const RouteCall& call) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody body, OptionalBody(call));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject parameters,
                            body.object().GetObjectOrEmpty("parameters"));
  Status status;
  parameters.ForEach([&](std::string_view name, JsonElement value) {
    bool truth = true;
    const bool unset = value.is_null() || (value.Get(&truth) && !truth);
    if (!status.ok() || unset) return;
    status = Status::Unsupported(
        fmt::format("the parameter '{}' is not supported: models are loaded as the server has them",
                    name.substr(0, 100)),
        "parameters");
  });
  return status;
}

void Load(const RouteCall& call) {
  if (const Status status = CheckLoadParameters(call); !status.ok()) return call.Fail(status);
  call.service->LoadModel(
      call.PathPart(0), call.request->context,
      Answer<api::ModelInfo>(call, {}, [](const api::ModelInfo&) { return "{}"; }));
}

void UnloadFromRepository(const RouteCall& call) {
  if (const Status status = CheckLoadParameters(call); !status.ok()) return call.Fail(status);
  const auto model = call.service->UnloadModel(call.PathPart(0));
  if (!model.ok()) return call.Fail(model.status());
  call.Ok("{}");
}

void AllRegions(const RouteCall& call) {
  call.Ok(PrintKserveRegions(call.service->shared_memory().Regions()));
}

void OneRegion(const RouteCall& call) {
  const auto region = call.service->shared_memory().Find(call.PathPart(0));
  if (!region.ok()) return call.Fail(region.status());
  call.Ok(PrintKserveRegions({&*region, 1}));
}

Expected<api::SharedMemoryRegion> RegionOf(const RouteCall& call) {
  constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody body, RequestBody::Parse(call.body));
  api::SharedMemoryRegion region;
  region.name = call.PathPart(0);
  PENSTOCK_ASSIGN_OR_RETURN(region.key, body->GetString("key", api::kNameBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t offset, body->GetIntOr("offset", 0, 0, kInt64Max));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, body->GetInt("byte_size", 1, kInt64Max));
  region.offset = static_cast<uint64_t>(offset);
  region.bytes = static_cast<uint64_t>(bytes);
  return region;
}

void RegisterRegion(const RouteCall& call) {
  const auto region = RegionOf(call);
  if (!region.ok()) return call.Fail(region.status());
  const Status status = call.service->shared_memory().Register(*region);
  if (!status.ok()) return call.Fail(status);
  call.Ok("{}");
}

void UnregisterRegion(const RouteCall& call) {
  call.service->shared_memory().Unregister(call.PathPart(0));
  call.Ok("{}");
}

void UnregisterRegions(const RouteCall& call) {
  call.service->shared_memory().UnregisterAll();
  call.Ok("{}");
}

// Clients unregister what may be left of an earlier run: there is never any.
void NoCudaRegions(const RouteCall& call) { call.Ok("[]"); }
void NothingToUnregister(const RouteCall& call) { call.Ok("{}"); }
void RefuseCudaRegion(const RouteCall& call) {
  call.Fail(Status::Unsupported(
      "shared memory of a GPU (cudasharedmemory) is not supported; use systemsharedmemory"));
}

void RefuseTraces(const RouteCall& call) {
  call.Fail(Status::Unsupported(
      "settings of traces (trace/setting) are not supported; GET /v1/stats says where time goes"));
}

void RefuseLogging(const RouteCall& call) {
  call.Fail(Status::Unsupported(
      "settings of the log (logging) cannot be asked for or changed here; see --log-level"));
}

constexpr Route Row(const char* method, const char* path, void (*handle)(const RouteCall& call),
                    const About& about, frontend::RouteFor who = frontend::RouteFor::kUsers) {
  return {method, path, kKserveErrors, handle, about, who};
}

constexpr Route InferRow(const char* path, const About& about) {
  return {
      "POST", path, kKserveErrors, Infer, about, frontend::RouteFor::kUsers, KserveInferJsonBytes};
}

constexpr Route kKserveRoutes[] = {
    Row("GET", "/v2", Server,
        About("The server and what it can, as the Open Inference Protocol has it", nullptr,
              "KserveServer")),
    Row("GET", "/v2/health/live", ServerLive,
        About("200 while the process lives", nullptr, "KserveLive"), frontend::RouteFor::kEveryone),
    Row("GET", "/v2/health/ready", ServerReady,
        About("503 while models to preload are being loaded, or one failed to", nullptr,
              "KserveReady"),
        frontend::RouteFor::kEveryone),
    Row("GET", "/v2/models/{model}", OfLoaded<PrintKserveModel>,
        About("The inputs and outputs of a tensor model, which is loaded for it", nullptr,
              "KserveModel")),
    Row("GET", "/v2/models/{model}/versions/{version}", OfLoaded<PrintKserveModel>,
        About("The same of a version", nullptr, "KserveModel")),
    Row("GET", "/v2/models/{model}/ready", ModelReady,
        About("503 while the model is not loaded", nullptr, "KserveReady")),
    Row("GET", "/v2/models/{model}/versions/{version}/ready", ModelReady,
        About("The same of a version", nullptr, "KserveReady")),
    Row("GET", "/v2/models/{model}/config", OfLoaded<PrintKserveConfig>,
        About("The model's configuration, as Triton has it", nullptr, "KserveConfig")),
    Row("GET", "/v2/models/{model}/versions/{version}/config", OfLoaded<PrintKserveConfig>,
        About("The same of a version", nullptr, "KserveConfig")),
    Row("GET", "/v2/models/{model}/stats", ModelStatistics,
        About("Counts and times of a model, as Triton has them", nullptr, "KserveStatistics")),
    Row("GET", "/v2/models/{model}/versions/{version}/stats", ModelStatistics,
        About("The same of a version", nullptr, "KserveStatistics")),
    Row("GET", "/v2/models/stats", AllStatistics,
        About("The same of all tensor models that are loaded", nullptr, "KserveStatistics")),
    InferRow("/v2/models/{model}/infer",
             About("Runs a tensor model", "KserveRequest", "KserveResponse")),
    InferRow("/v2/models/{model}/versions/{version}/infer",
             About("The same of a version", "KserveRequest", "KserveResponse")),
    Row("POST", "/v2/repository/index", RepositoryIndex,
        About("The models and their states, as Triton has them", "KserveIndexRequest",
              "KserveIndex")),
    Row("POST", "/v2/repository/models/{model}/load", Load,
        About("Loads a model, and answers when it is there", "KserveLoadRequest", "KserveDone"),
        frontend::RouteFor::kAdmins),
    Row("POST", "/v2/repository/models/{model}/unload", UnloadFromRepository,
        About("Unloads a model once its requests are answered", "KserveLoadRequest", "KserveDone"),
        frontend::RouteFor::kAdmins),
    Row("GET", "/v2/systemsharedmemory/status", AllRegions,
        About("Regions of shared memory", nullptr, "KserveRegions"), frontend::RouteFor::kAdmins),
    Row("GET", "/v2/systemsharedmemory/region/{region}/status", OneRegion,
        About("One of them", nullptr, "KserveRegions"), frontend::RouteFor::kAdmins),
    Row("POST", "/v2/systemsharedmemory/region/{region}/register", RegisterRegion,
        About("Tensors may come and go through this shared memory (--shared-memory-bytes)",
              "KserveRegionRequest", "KserveDone"),
        frontend::RouteFor::kAdmins),
    Row("POST", "/v2/systemsharedmemory/region/{region}/unregister", UnregisterRegion,
        About("Forgets a region", nullptr, "KserveDone"), frontend::RouteFor::kAdmins),
    Row("POST", "/v2/systemsharedmemory/unregister", UnregisterRegions,
        About("Forgets all regions", nullptr, "KserveDone"), frontend::RouteFor::kAdmins),
    Row("GET", "/v2/cudasharedmemory/status", NoCudaRegions,
        About("Always empty: not supported", nullptr, "KserveRegions"),
        frontend::RouteFor::kAdmins),
    Row("GET", "/v2/cudasharedmemory/region/{region}/status", RefuseCudaRegion,
        About("Always refused: not supported", nullptr, "KserveError", nullptr, 422),
        frontend::RouteFor::kAdmins),
    Row("POST", "/v2/cudasharedmemory/region/{region}/register", RefuseCudaRegion,
        About("Always refused: not supported", nullptr, "KserveError", nullptr, 422),
        frontend::RouteFor::kAdmins),
    Row("POST", "/v2/cudasharedmemory/region/{region}/unregister", NothingToUnregister,
        About("Does nothing: not supported", nullptr, "KserveDone"), frontend::RouteFor::kAdmins),
    Row("POST", "/v2/cudasharedmemory/unregister", NothingToUnregister,
        About("Does nothing: not supported", nullptr, "KserveDone"), frontend::RouteFor::kAdmins),
    Row("GET", "/v2/trace/setting", RefuseTraces,
        About("Always refused: see /v1/stats", nullptr, "KserveError", nullptr, 422)),
    Row("POST", "/v2/trace/setting", RefuseTraces,
        About("Always refused", nullptr, "KserveError", nullptr, 422), frontend::RouteFor::kAdmins),
    Row("GET", "/v2/models/{model}/trace/setting", RefuseTraces,
        About("Always refused: see /v1/stats", nullptr, "KserveError", nullptr, 422)),
    Row("POST", "/v2/models/{model}/trace/setting", RefuseTraces,
        About("Always refused", nullptr, "KserveError", nullptr, 422), frontend::RouteFor::kAdmins),
    Row("GET", "/v2/logging", RefuseLogging,
        About("Always refused: see --log-level", nullptr, "KserveError", nullptr, 422)),
    Row("POST", "/v2/logging", RefuseLogging,
        About("Always refused", nullptr, "KserveError", nullptr, 422), frontend::RouteFor::kAdmins),
};

}  // namespace

std::span<const serving::Route> KserveRoutes() { return kKserveRoutes; }

}  // namespace penstock::dialects
