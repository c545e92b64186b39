// What the inference service tells of the server and its models, as messages.
#pragma once

#include <grpc/inference.pb.h>

#include <string>

#include "api/types.h"
#include "sched/tensor_scheduler.h"

namespace penstock {

void FillServerMetadata(bool shared_memory, inference::ServerMetadataResponse* to);
// The model has a signature.
void FillModelMetadata(const ModelInfo& model, inference::ModelMetadataResponse* to);
void FillStatistics(const ModelInfo& model, const TensorStatistics& statistics,
                    inference::ModelStatistics* to);
// States as Triton has them: READY, LOADING, UNLOADING, UNAVAILABLE with the reason.
void FillIndex(const ModelInfo& model, inference::RepositoryIndexResponse::ModelIndex* to);

}  // namespace penstock
