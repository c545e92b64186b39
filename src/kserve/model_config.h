// The settings of a tensor model in the form of NVIDIA Triton: config.pbtxt, a ModelConfig
// (model_config.proto) in the text format of protocol buffers.
//
// What a setting means is as in Triton's documentation, "Model Configuration". A setting that would
// change answers and that Penstock does not have is refused by name; one that only asks for speed
// is left out and told in `no_effect`. docs/TENSORS.md has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "signature/declared_tensors.h"

namespace penstock::kserve {

struct TensorModelConfig {
  std::string name;      // "": not said
  std::string platform;  // "onnxruntime_onnx", ...; "": not said
  std::string backend;   // "onnxruntime", ...; "": not said
  std::string file;      // of the model, in the folder of a version; "": the one that is there
  // nullopt: the file states neither it nor inputs and outputs, so the model decides. 0: the model
  // takes no batches.
  std::optional<int32_t> max_batch_size;
  signature::DeclaredTensors tensors;
  std::optional<int32_t> replicas;
  std::optional<int32_t> linger_us;
  // Versions that may serve, ascending; empty: all.
  std::vector<int64_t> versions;
  bool check_finite = false;  // parameters: check_finite
  // Settings that are understood and change nothing, each with its place and the reason.
  std::vector<std::string> no_effect;
};

struct ModelConfigLimits {
  static constexpr size_t kBytesMax = 1 << 20;  // of the text
  static constexpr int kDepthMax = 32;          // messages inside each other
  static constexpr size_t kTensorsMax = 4096;   // inputs, and outputs
  static constexpr size_t kDimsMax = 64;
  static constexpr size_t kNameBytesMax = 1024;
  static constexpr int32_t kReplicasMax = 64;
  static constexpr int32_t kBatchMax = 1 << 20;
  static constexpr int64_t kLingerUsMax = 10'000'000;
};

// `file`: what errors begin with, as "config.pbtxt:12:3: ". kInvalidArgument: the text is no
// ModelConfig, or a value is out of range; kUnsupported: a setting that Penstock does not have;
// kPayloadTooLarge: too large a text. The field is that of the message, such as
// "input[0].reshape".
Expected<TensorModelConfig> ParseModelConfig(std::string_view text, const std::string& file);

// The same of a file.
Expected<TensorModelConfig> ReadModelConfig(const std::string& path);

// The name of the model's file in a version's folder that Triton takes for this platform or
// backend, "model.onnx"; "": it is not known, or the platform has several.
std::string ModelFileOf(const std::string& platform, const std::string& backend);

}  // namespace penstock::kserve
