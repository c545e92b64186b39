// What the routes of the Open Inference Protocol answer besides inferences: metadata and Triton's
// extensions of model configuration, statistics and repository index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/shared_memory.h"
#include "api/types.h"
#include "sched/tensor_scheduler.h"

namespace penstock::dialects {

// {"name", "version", "extensions"}
std::string PrintKserveServer(bool shared_memory);
// {"name", "versions", "platform", "inputs", "outputs"}; the model has a signature.
std::string PrintKserveModel(const api::ModelInfo& model);
// Triton's ModelConfig; the model has a signature.
std::string PrintKserveConfig(const api::ModelInfo& model);

struct KserveModelStatistics {
  api::ModelInfo model;
  sched::TensorStatistics statistics;
};
// {"model_stats": [...]}
std::string PrintKserveStatistics(std::span<const KserveModelStatistics> models);
// [{"name", "version", "state", "reason"}]
std::string PrintKserveIndex(std::span<const api::ModelInfo> models, bool only_ready);
// [{"name", "key", "offset", "byte_size"}]
std::string PrintKserveRegions(std::span<const api::SharedMemoryRegion> regions);

}  // namespace penstock::dialects
