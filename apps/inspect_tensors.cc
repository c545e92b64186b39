#include "inspect_tensors.h"

#include <fmt/format.h>

#include "engine/tensor_engine.h"
#include "json/json_writer.h"
#include "runtime/local_models.h"

namespace penstock::cli {
namespace {

void WriteTensors(const char* key, const std::vector<signature::TensorSpec>& specs,
                  JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const signature::TensorSpec& spec : specs) {
    json->BeginObject()
        .Field("name", spec.name)
        .Field("datatype", signature::ElementTypeName(spec.type));
    json->Field("shape", signature::ShapeText(spec.shape)).EndObject();
  }
  json->EndArray();
}

std::string PrintJson(const api::ModelInfo& info) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("name", info.name).Field("path", info.path).Field("task", info.task);
  json.Field("platform", info.platform).Field("backend", info.backend);
  json.Field("max_batch_size", info.signature->max_batch_size);
  json.Field("memory_bytes", info.weight_bytes);
  WriteTensors("inputs", info.signature->inputs, &json);
  WriteTensors("outputs", info.signature->outputs, &json);
  json.EndObject();
  return text + '\n';
}

std::string PrintText(const api::ModelInfo& info) {
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<14} {}\n", name, value);
  };
  row("name", info.name);
  row("model", info.path);
  row("task", info.task);
  row("platform", info.platform);
  const int32_t rows = info.signature->max_batch_size;
  row("batches",
      rows > 0 ? fmt::format("of {} rows at most", rows) : "none; each request is a run");
  for (const signature::TensorSpec& spec : info.signature->inputs) {
    row("input", fmt::format("{}: {} {}", spec.name, signature::ElementTypeName(spec.type),
                             signature::ShapeText(spec.shape)));
  }
  for (const signature::TensorSpec& spec : info.signature->outputs) {
    row("output", fmt::format("{}: {} {}", spec.name, signature::ElementTypeName(spec.type),
                              signature::ShapeText(spec.shape)));
  }
  row("in memory", fmt::format("{:.1f} MB", static_cast<double>(info.weight_bytes) / 1e6));
  row("backend", info.backend);
  return out;
}

}  // namespace

Expected<std::optional<std::string>> DescribeTensorModel(const runtime::ModelOptions& flags,
                                                         bool json) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto specs, runtime::ModelSpecs(flags));
  if (specs.empty() || !engine::TensorModelPath(specs.front().reference)) {
    return std::optional<std::string>();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto local, runtime::LocalModels::Start(flags));
  PENSTOCK_RETURN_IF_ERROR(local->registry->WaitLoaded());
  const api::ModelInfo info = local->service->Models().front();
  return std::optional(json ? PrintJson(info) : PrintText(info));
}

}  // namespace penstock::cli
