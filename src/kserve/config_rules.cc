#include "kserve/config_rules.h"

#include <algorithm>
#include <iterator>

namespace penstock::kserve {
namespace {

constexpr const char* kCpuOnly = "tensor models run on the CPU";
constexpr const char* kTensorRt = "it is a setting of TensorRT";
constexpr const char* kOneOrder = "requests are taken in turn, by their class";
constexpr const char* kQueue = "the bounds of waiting work are those of the server";

constexpr struct {
  std::string_view name;
  FieldRule rule;
} kRules[] = {
    {"ModelConfig.runtime", {FieldUse::kRefused, "there are no backends to load"}},
    {"ModelConfig.batch_input", {FieldUse::kRefused, ""}},
    {"ModelConfig.batch_output", {FieldUse::kRefused, ""}},
    {"ModelConfig.sequence_batching", {FieldUse::kRefused, "models keep no state between runs"}},
    {"ModelConfig.ensemble_scheduling", {FieldUse::kRefused, ""}},
    {"ModelConfig.cc_model_filenames", {FieldUse::kRefused, kCpuOnly}},
    {"ModelConfig.model_operations", {FieldUse::kRefused, "no code is loaded for a model"}},
    {"ModelConfig.model_repository_agents", {FieldUse::kRefused, "no code is loaded for a model"}},
    {"ModelInstanceGroup.gpus", {FieldUse::kRefused, kCpuOnly}},
    {"ModelInstanceGroup.secondary_devices", {FieldUse::kRefused, kCpuOnly}},
    {"ModelInstanceGroup.profile", {FieldUse::kRefused, kTensorRt}},
    {"ModelInstanceGroup.passive", {FieldUse::kRefused, ""}},
    {"ModelInput.format",
     {FieldUse::kRefused, "leave it out: the tensor is passed on as it comes, of the dims given"}},
    {"ModelInput.is_shape_tensor", {FieldUse::kRefused, kTensorRt}},
    {"ModelInput.allow_ragged_batch",
     {FieldUse::kRefused, "a batch has requests whose rows have one shape"}},
    {"ModelInput.optional", {FieldUse::kRefused, "every input is required"}},
    {"ModelInput.is_non_linear_format_io", {FieldUse::kRefused, kTensorRt}},
    {"ModelOutput.is_shape_tensor", {FieldUse::kRefused, kTensorRt}},
    {"ModelOutput.is_non_linear_format_io", {FieldUse::kRefused, kTensorRt}},
    {"ModelDynamicBatching.preserve_ordering", {FieldUse::kRefused, kOneOrder}},
    {"ModelDynamicBatching.priority_levels", {FieldUse::kRefused, kOneOrder}},
    {"ModelDynamicBatching.default_priority_level", {FieldUse::kRefused, kOneOrder}},
    {"ModelDynamicBatching.priority_queue_policy", {FieldUse::kRefused, kQueue}},
    {"ModelQueuePolicy.timeout_action", {FieldUse::kRefused, kQueue}},
    {"ModelQueuePolicy.default_timeout_microseconds", {FieldUse::kRefused, kQueue}},
    {"ModelQueuePolicy.allow_timeout_override", {FieldUse::kRefused, kQueue}},
    {"ModelQueuePolicy.max_queue_size", {FieldUse::kRefused, kQueue}},
    {"ModelTransactionPolicy.decoupled", {FieldUse::kRefused, "a request has one response"}},

    {"ModelConfig.optimization", {FieldUse::kNoEffect, "OpenVINO chooses"}},
    {"ModelConfig.model_warmup", {FieldUse::kNoEffect, "a model is compiled when it is loaded"}},
    {"ModelConfig.model_metrics", {FieldUse::kNoEffect, "metrics have a form of their own"}},
    {"ModelConfig.metric_tags", {FieldUse::kNoEffect, "metrics have a form of their own"}},
    {"ModelResponseCache.enable", {FieldUse::kNoEffect, "there is no cache of tensors"}},
    {"ModelInstanceGroup.rate_limiter",
     {FieldUse::kNoEffect, "models take turns at the processor"}},
    {"ModelInstanceGroup.host_policy", {FieldUse::kNoEffect, "--threads and --pin are for all"}},
    {"ModelDynamicBatching.preferred_batch_size",
     {FieldUse::kNoEffect, "a batch is what has come while the model was at work"}},
    {"ModelOutput.label_filename", {FieldUse::kNoEffect, "outputs are given as they are"}},
};

}  // namespace

FieldRule RuleOf(std::string_view name) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const auto& known) { return known.name == name; });
  return found == std::end(kRules) ? FieldRule() : found->rule;
}

}  // namespace penstock::kserve
