// The flags that say which models are loaded and how, and what is made of them: backend, registry
// and service, the same in the server and in every command.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/service.h"
#include "command_line.h"
#include "engine/registry.h"
#include "metrics/metrics.h"
#include "tensor/backend.h"

namespace penstock {

struct ModelFlags {
  std::vector<std::string> models;        // --model; none: the default model
  std::string default_name;               // set by TakeDefaultModel
  std::vector<std::string> served_names;  // --served-model-name
  int threads = 0;
  bool pin = true;
  std::string isa;                             // of CpuOptions; no flag, doctor compares
  std::vector<std::string> dtypes = {"auto"};  // --dtype, [NAME=]TYPE
  std::vector<std::string> int8_keep;          // --int8-keep, [NAME=]PARTS
  std::vector<std::string> poolings;           // --pooling, [NAME=]MODE
  EncoderSchedulerOptions scheduler = {
      .max_batch_tokens = EncoderSchedulerOptions::kAutoBatchTokens, .idle_release_s = 60};
  int32_t replicas = 1;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string redis_url;
  std::optional<std::string> redis_key;
  std::string redis_key_file;
  ServiceLimits limits;
};

// Adds the flags; `several` models or exactly one. Commands log from level `log_level` on.
void AddModelFlags(CommandLine* line, ModelFlags* flags, bool several,
                   const std::string& log_level);
// Sets the log up; an error names the flag.
Status ApplyLogFlags(const ModelFlags& flags);

// The name a model is served under when none is given: "owner/name" of a hub reference or of a
// folder in the hub's cache, else the folder's own name.
std::string NameOfReference(const std::string& reference);

// Where no model is named: the default one (hub/default_model.h), and a line of the log that says
// so. LocalModels do it themselves; for those who start several times.
void TakeDefaultModel(ModelFlags* flags);

// For commands the default model is not made for: takes it out of the help.
void DropDefaultModel(CommandLine* line);
// What such a command says where --model is missing. `what`: "reranker".
std::string ModelRequired(const std::string& what);

// What a --model says: "REF", or "NAME[,ALIAS...]=REF".
struct ModelNames {
  std::vector<std::string> names;  // none: none was given
  std::string reference;
};
// Splits at the first '='. What exists as a path, or what stands before '=' begins as a path does
// ('/', '.' or '~'), is a reference as a whole.
ModelNames SplitModel(const std::string& model);

// Registry specs of the --model and --served-model-name flags.
Expected<std::vector<ModelSpec>> ModelSpecs(const ModelFlags& flags);

// Everything that answers requests in this process. Destroyed in reverse: service, registry,
// backend.
struct LocalModels {
  // Makes everything and starts loading; does not wait for it.
  static Expected<std::unique_ptr<LocalModels>> Start(const ModelFlags& flags);
  // Start and wait: for commands.
  static Expected<std::unique_ptr<LocalModels>> Load(const ModelFlags& flags);
  // Their tokenizers alone: --model may also be a folder with nothing but tokenizer.json, or such a
  // file. For Service::Tokenize.
  static Expected<std::unique_ptr<LocalModels>> LoadTokenizers(const ModelFlags& flags);

  Metrics metrics;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Service> service;
};

}  // namespace penstock
