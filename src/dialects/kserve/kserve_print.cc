#include "dialects/kserve/kserve_print.h"

#include <string_view>

#include "api/model_state.h"
#include "json/json_writer.h"
#include "kserve/config_message.h"
#include "signature/tensor_spec.h"

namespace penstock::dialects {
namespace {

// -1 where any number is taken.
void WriteShape(const signature::TensorSpec& spec, JsonWriter* json) {
  json->BeginArray();
  if (spec.shape) {
    for (const signature::DimensionRange& dimension : *spec.shape) {
      json->Int(dimension.fixed() ? dimension.min : -1);
    }
  } else {
    json->Int(-1);
  }
  json->EndArray();
}

void WriteMetadata(const std::vector<signature::TensorSpec>& specs, JsonWriter* json) {
  json->BeginArray();
  for (const signature::TensorSpec& spec : specs) {
    json->BeginObject()
        .Field("name", spec.name)
        .Field("datatype", signature::ElementTypeName(spec.type));
    json->Key("shape");
    WriteShape(spec, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteTimes(std::string_view key, const sched::TensorStatistics::Times& times,
                JsonWriter* json) {
  json->Key(key).BeginObject().Field("count", times.count).Field("ns", times.ns).EndObject();
}

void WriteStatistics(const KserveModelStatistics& each, JsonWriter* json) {
  const sched::TensorStatistics& statistics = each.statistics;
  json->BeginObject()
      .Field("name", each.model.name)
      .Field("version", api::ServedVersion(each.model.version));
  json->Field("last_inference", statistics.last_run_unix_ms);
  json->Field("inference_count", statistics.rows).Field("execution_count", statistics.runs);
  json->Key("inference_stats").BeginObject();
  WriteTimes("success", statistics.success, json);
  WriteTimes("fail", statistics.fail, json);
  WriteTimes("queue", statistics.queue, json);
  WriteTimes("compute_input", statistics.input, json);
  WriteTimes("compute_infer", statistics.infer, json);
  WriteTimes("compute_output", statistics.output, json);
  WriteTimes("cache_hit", {}, json);
  WriteTimes("cache_miss", {}, json);
  json->EndObject().Key("response_stats").BeginObject().EndObject();
  json->Key("batch_stats").BeginArray();
  for (const auto& [rows, batch] : statistics.batches) {
    json->BeginObject().Field("batch_size", rows);
    WriteTimes("compute_input", batch.input, json);
    WriteTimes("compute_infer", batch.infer, json);
    WriteTimes("compute_output", batch.output, json);
    json->EndObject();
  }
  json->EndArray().Key("memory_usage").BeginArray().EndArray().EndObject();
}

}  // namespace

std::string PrintKserveServer(bool shared_memory) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("name", "penstock").Field("version", PENSTOCK_VERSION);
  json.Key("extensions").BeginArray();
  for (const char* extension : {"binary_tensor_data", "parameters", "schedule_policy",
                                "model_configuration", "model_repository", "statistics"}) {
    json.String(extension);
  }
  if (shared_memory) json.String("system_shared_memory");
  json.EndArray().EndObject();
  return out;
}

std::string PrintKserveModel(const api::ModelInfo& model) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("name", model.name).Key("versions").BeginArray();
  json.String(api::ServedVersion(model.version)).EndArray().Field("platform", model.platform);
  json.Key("inputs");
  WriteMetadata(model.signature->inputs, &json);
  json.Key("outputs");
  WriteMetadata(model.signature->outputs, &json);
  json.EndObject();
  return out;
}

std::string PrintKserveConfig(const api::ModelInfo& model) {
  return kserve::ModelConfigJson(
      {.name = model.name, .platform = model.platform, .signature = *model.signature});
}

std::string PrintKserveStatistics(std::span<const KserveModelStatistics> models) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("model_stats").BeginArray();
  for (const KserveModelStatistics& each : models) WriteStatistics(each, &json);
  json.EndArray().EndObject();
  return out;
}

std::string PrintKserveIndex(std::span<const api::ModelInfo> models, bool only_ready) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const api::ModelInfo& model : models) {
    if (only_ready && !api::IsLoaded(model)) continue;
    const api::RepositoryState state = api::RepositoryStateOf(model);
    json.BeginObject()
        .Field("name", model.name)
        .Field("version", api::ServedVersion(model.version));
    json.Field("state", state.state).Field("reason", state.reason).EndObject();
  }
  json.EndArray();
  return out;
}

std::string PrintKserveRegions(std::span<const api::SharedMemoryRegion> regions) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  for (const api::SharedMemoryRegion& region : regions) {
    json.BeginObject().Field("name", region.name).Field("key", region.key);
    json.Field("offset", region.offset).Field("byte_size", region.bytes).EndObject();
  }
  json.EndArray();
  return out;
}

}  // namespace penstock::dialects
