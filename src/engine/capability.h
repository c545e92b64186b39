// What a model can do, a row for each: what models of one kind are found by, and what is said of
// those that lack it.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "families/model_folder.h"

namespace penstock::engine {

enum class Capability : uint8_t {
  kEncode,    // vectors and scores of texts
  kGenerate,  // text
  kTensors,   // tensors in, tensors out
};
// What a model is taken for as long as that is not known.
inline constexpr Capability kUsualCapability = Capability::kEncode;

// For messages about models that are found by name.
struct CapabilityText {
  const char* task;     // "generation"; null: the names of ModelTask are those of its tasks
  const char* verb;     // the same, as --task takes it too
  const char* does;     // what a model with it does: "generates text"
  const char* refusal;  // follows the name of a model without it; {does}: what that one does
  const char* none;     // no model has it; null: a request then gets the first model's refusal
  const char* several;  // several models have it; null: a request without a name means the first
};
const CapabilityText& TextOf(Capability capability);

// What a model does.
struct ModelPurpose {
  Capability capability = kUsualCapability;
  families::ModelTask task = families::ModelTask::kEmbedding;  // where it encodes
  bool encodes() const { return capability == Capability::kEncode; }
  bool operator==(const ModelPurpose& other) const {
    return capability == other.capability && (!encodes() || task == other.task);
  }
};
// "embedding", ..., "generation", "tensors".
const char* ModelPurposeName(const ModelPurpose& purpose);
// These names, and embed, rerank, classify, generate; kInvalidArgument lists them.
Expected<ModelPurpose> ParseModelPurpose(const std::string& name);

}  // namespace penstock::engine
