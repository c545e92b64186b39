// The text of a config.pbtxt. What it says of tensors must hold together; and what a server would
// tell of such a model must be JSON, and as text a configuration again.
#include <google/protobuf/text_format.h>
#include <kserve/model_config.pb.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_util.h"
#include "json/json.h"
#include "kserve/config_message.h"
#include "kserve/model_config.h"

namespace penstock {
namespace {

using Limits = kserve::ModelConfigLimits;

std::vector<signature::TensorSpec> SpecsOf(const std::vector<signature::DeclaredTensor>& tensors) {
  std::vector<signature::TensorSpec> specs;
  for (const signature::DeclaredTensor& tensor : tensors) {
    PENSTOCK_CHECK(!tensor.name.empty() && !tensor.dims.empty());
    PENSTOCK_CHECK(tensor.dims.size() <= Limits::kDimsMax);
    PENSTOCK_CHECK(signature::CheckDims(tensor).ok());
    std::vector<signature::DimensionRange> shape;
    for (const int64_t size : tensor.dims) {
      shape.push_back(size < 0 ? signature::DimensionRange{0, -1}
                               : signature::DimensionRange{size, size});
    }
    specs.push_back({tensor.name, tensor.type, std::move(shape)});
  }
  return specs;
}

// As the model itself: each tensor as it is declared.
void CheckAgain(const kserve::TensorModelConfig& config) {
  kserve::ModelConfigParts parts{.name = config.name, .platform = "openvino"};
  parts.signature.inputs = SpecsOf(config.tensors.inputs);
  parts.signature.outputs = SpecsOf(config.tensors.outputs);
  PENSTOCK_CHECK(JsonDocument::Parse(kserve::ModelConfigJson(parts)).ok());
  inference::ModelConfig message;
  kserve::FillModelConfig(parts, &message);
  std::string text;
  PENSTOCK_CHECK(google::protobuf::TextFormat::PrintToString(message, &text));
  if (text.size() > Limits::kBytesMax) return;
  const auto again = kserve::ParseModelConfig(text, "again");
  PENSTOCK_CHECK(again.ok() && again->name == config.name);
  PENSTOCK_CHECK(again->tensors.inputs.size() == config.tensors.inputs.size());
  for (size_t i = 0; i < again->tensors.inputs.size(); ++i) {
    PENSTOCK_CHECK(again->tensors.inputs[i].dims == config.tensors.inputs[i].dims);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = kserve::ParseModelConfig(text, "config.pbtxt");
  if (!config.ok()) {
    PENSTOCK_CHECK(config.status().message().starts_with("config.pbtxt:"));
    return 0;
  }
  PENSTOCK_CHECK(config->file.find('/') == std::string::npos);
  PENSTOCK_CHECK(config->max_batch_size.value_or(0) >= 0 &&
                 config->max_batch_size.value_or(0) <= Limits::kBatchMax);
  PENSTOCK_CHECK(config->replicas.value_or(1) >= 1 &&
                 config->replicas.value_or(1) <= Limits::kReplicasMax);
  PENSTOCK_CHECK(config->linger_us.value_or(0) >= 0);
  PENSTOCK_CHECK(std::is_sorted(config->versions.begin(), config->versions.end()));
  PENSTOCK_CHECK(config->versions.empty() || config->versions.front() > 0);
  CheckAgain(*config);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
