#include "grpc/kserve_messages.h"

#include "api/model_state.h"
#include "tensor/tensor_spec.h"

namespace penstock {
namespace {

void FillTensor(const TensorSpec& spec, inference::ModelMetadataResponse::TensorMetadata* to) {
  to->set_name(spec.name);
  to->set_datatype(ElementTypeName(spec.type));
  if (!spec.shape) return to->add_shape(-1);
  for (const DimensionRange& dimension : *spec.shape) {
    to->add_shape(dimension.fixed() ? dimension.min : -1);
  }
}

void FillTimes(const TensorStatistics::Times& times, inference::StatisticDuration* to) {
  to->set_count(times.count);
  to->set_ns(times.ns);
}

}  // namespace

void FillServerMetadata(bool shared_memory, inference::ServerMetadataResponse* to) {
  to->set_name("penstock");
  to->set_version(PENSTOCK_VERSION);
  for (const char* extension : {"binary_tensor_data", "parameters", "schedule_policy",
                                "model_configuration", "model_repository", "statistics"}) {
    to->add_extensions(extension);
  }
  if (shared_memory) to->add_extensions("system_shared_memory");
}

void FillModelMetadata(const ModelInfo& model, inference::ModelMetadataResponse* to) {
  to->set_name(model.name);
  to->add_versions(ServedVersion(model.version));
  to->set_platform(model.platform);
  for (const TensorSpec& spec : model.signature->inputs) FillTensor(spec, to->add_inputs());
  for (const TensorSpec& spec : model.signature->outputs) FillTensor(spec, to->add_outputs());
}

void FillStatistics(const ModelInfo& model, const TensorStatistics& statistics,
                    inference::ModelStatistics* to) {
  to->set_name(model.name);
  to->set_version(ServedVersion(model.version));
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

void FillIndex(const ModelInfo& model, inference::RepositoryIndexResponse::ModelIndex* to) {
  to->set_name(model.name);
  to->set_version(ServedVersion(model.version));
  const RepositoryState state = RepositoryStateOf(model);
  to->set_state(state.state);
  to->set_reason(state.reason);
}

}  // namespace penstock
