#include "engine/capability.h"

#include <fmt/format.h>

#include <utility>

namespace penstock::engine {
namespace {

// By the numbers of Capability.
constexpr CapabilityText kTexts[] = {
    {nullptr, nullptr, "gives vectors or scores of texts",
     "{does}; it gives no vectors and no scores of texts", nullptr, nullptr},
    {"generation", "generate", "generates text", "generates no text",
     "no model that generates text is served", nullptr},
    {"tensors", "tensors", "takes and gives tensors", "takes texts, not tensors",
     "no tensor model is served", "several take tensors"},
};

}  // namespace

const CapabilityText& TextOf(Capability capability) {
  return kTexts[static_cast<size_t>(capability)];
}

const char* ModelPurposeName(const ModelPurpose& purpose) {
  const char* const task = TextOf(purpose.capability).task;
  return task != nullptr ? task : families::ModelTaskName(purpose.task);
}

Expected<ModelPurpose> ParseModelPurpose(const std::string& name) {
  for (const Capability capability : {Capability::kGenerate, Capability::kTensors}) {
    const CapabilityText& text = TextOf(capability);
    if (name == text.task || name == text.verb) return ModelPurpose{.capability = capability};
  }
  using Named = std::pair<const char*, families::ModelTask>;
  for (const auto& [verb, task] : {Named{"embed", families::ModelTask::kEmbedding},
                                   Named{"rerank", families::ModelTask::kReranking},
                                   Named{"classify", families::ModelTask::kClassification}}) {
    if (name == verb || name == families::ModelTaskName(task)) return ModelPurpose{.task = task};
  }
  return Status::InvalidArgument(
      fmt::format(
          "'{:.100}' is not a task; known: embedding, reranking, classification, generation, "
          "tensors",
          name),
      "task");
}

}  // namespace penstock::engine
