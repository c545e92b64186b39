// The kinds of models there are, a row each: how one is told from its files, what it will take, and
// how it is loaded. The registry knows models by these rows and by model.h alone.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "engine/capability.h"
#include "engine/decoder_engine.h"
#include "engine/encoder_engine.h"
#include "engine/file_facts.h"
#include "engine/model.h"
#include "engine/model_bytes.h"
#include "engine/tensor_engine.h"

namespace penstock::engine {

// What a load gives a model of any kind.
struct LoadTerms {
  std::string name;     // as served
  int64_t version = 0;  // of a model that has versions; else 0
  int32_t replicas = 1;
  ModelBytes granted;    // what it may take; 0: as it likes
  MeasuredModel before;  // by an earlier load
};

// The options of a model whose kind is not known yet: those of its kind count.
struct KindOptions {
  EncoderEngineOptions encoder;
  DecoderEngineOptions decoder;
  TensorEngineOptions tensors;

  void Set(const LoadTerms& terms);
};

struct EngineKind {
  Capability capability;
  // The path of a model that names of files alone tell to be of this kind, downloads apart.
  // Null: none is told so.
  std::optional<std::string> (*path_of)(const std::string& reference);
  // What the model at a path does and takes, told from its settings and headers.
  Expected<ModelPurpose> (*look)(const std::string& path, const KindOptions& options);
  Expected<ModelNeeds> (*needs)(const std::string& path, const KindOptions& options,
                                program::Backend* backend);
  // What its files say of it. Null: nothing that is of use.
  Expected<FileFacts> (*facts)(const std::string& path, const KindOptions& options);
  Expected<std::unique_ptr<Model>> (*load)(const std::string& path, const KindOptions& options,
                                           program::Backend* backend, metrics::Metrics* metrics);
  // Makes the metrics that are there before a model is loaded. Null: there are none.
  void (*add_metrics)(const std::string& model, metrics::Metrics* metrics);
};

std::span<const EngineKind> EngineKinds();
const EngineKind& KindOf(Capability capability);

// A model on this machine, or to be downloaded.
struct PlacedModel {
  const EngineKind* kind;
  std::string path;
};
// Of a reference whose kind path_of tells; nullopt: its files do.
std::optional<PlacedModel> PlaceByName(const std::string& reference);
// The kind of the files at `path`, a folder or a .gguf file. Errors as KindOfModel.
Expected<const EngineKind*> KindAt(const std::string& path);

}  // namespace penstock::engine
