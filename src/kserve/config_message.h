// What a server of the protocol tells of a model's settings, as Triton does: a ModelConfig for
// gRPC, and its JSON for HTTP.
#pragma once

#include <cstdint>
#include <string>

#include "signature/tensor_runner.h"

namespace inference {
class ModelConfig;  // model_config.pb.h
}

namespace penstock::kserve {

struct ModelConfigParts {
  std::string name;
  std::string platform;  // "onnxruntime_onnx", ...
  signature::TensorSignature signature;
  int32_t replicas = 1;
  int32_t linger_us = 0;  // how long a batch that is not full waits
};

// Fills an empty message. Dimensions are those of a row where the model has batches; -1: any size.
void FillModelConfig(const ModelConfigParts& parts, inference::ModelConfig* config);

// The same as JSON, in the form that Triton gives: names as in the .proto, enumerations by name,
// integers as numbers, and fields that have their default.
std::string ModelConfigJson(const ModelConfigParts& parts);

}  // namespace penstock::kserve
