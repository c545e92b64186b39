// ModelOptions: the models a process loads and how, and their specs for the registry. No command
// line in here: the flags that fill it are in apps/model_flags.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/service.h"
#include "devices/backends.h"
#include "registry/registry.h"
#include "runtime/memory_plan.h"

namespace penstock::runtime {

struct ModelOptions;
// Sets in `options`, of one model, what the model.toml at `path` says (runtime/repository.h).
using ModelFileReader = Status (*)(const std::string& path, ModelOptions* options);

struct ModelOptions {
  std::vector<std::string> models;        // --model; none: the default model, or --repository alone
  std::vector<std::string> repositories;  // --repository: folders of models with versions
  int64_t repository_poll_s = 15;         // --repository-poll-s; 0: they are looked at once
  ModelFileReader read_model_file = nullptr;  // null: there are no settings of one model
  std::string default_name;                   // set by TakeDefaultModel
  std::vector<std::string> served_names;      // --served-model-name
  bool pull_by_request = false;               // a LocalModels::store is made
  uint64_t pull_bytes_max = 64ull << 30;      // --max-pull-bytes: of one pull
  bool auto_pull = true;  // whether models that are not in the cache are downloaded
  int threads = 0;
  bool pin = true;
  std::vector<std::string> devices;            // --device, [NAME=]DEVICE
  std::string isa;                             // of CpuOptions; no flag, doctor compares
  std::vector<std::string> dtypes = {"auto"};  // --dtype, [NAME=]TYPE
  std::vector<std::string> int8_keep;          // --int8-keep, [NAME=]PARTS
  std::vector<std::string> poolings;           // --pooling, [NAME=]MODE
  std::vector<std::string> tasks;              // --task, [NAME=]TASK
  sched::EncoderSchedulerOptions scheduler = {
      .max_batch_tokens = sched::EncoderSchedulerOptions::kAutoBatchTokens,
      .max_batch_rows = sched::EncoderSchedulerOptions::kAutoBatchRows,
      .idle_release_s = 60};
  int32_t replicas = 1;
  sched::TensorSchedulerOptions tensors;     // of tensor models; linger and idle release as above
  std::vector<std::string> max_batch_sizes;  // --max-batch-size, [NAME=]ROWS
  generate::TextModelOptions text;           // of decoders; `dtype` is that of --dtype
  std::vector<std::string> contexts;         // --context, [NAME=]TOKENS
  std::vector<std::string> chat_templates;   // --chat-template, [NAME=]FILE or the name of one
  // --temperature and so on, [NAME=]NUMBER (runtime/sampling_settings.h)
  std::vector<std::string> temperatures, top_ks, top_ps, min_ps, repetition_penalties;
  std::vector<std::string> max_tokens_defaults;
  generate::DecodeSchedulerOptions
      decode;  // the same; bounds of waiting work are those of `scheduler`
  // Models come and go by requests; else all are loaded at once and stay.
  bool on_demand = false;
  std::vector<std::string> keep_alives;     // --keep-alive, [NAME=]DURATION
  int64_t check_interval_s = 30;            // --check-interval-s
  bool preload = false;                     // --preload: all models
  bool check_models = true;                 // --check-models
  std::vector<std::string> preload_models;  // --preload-model: these
  std::vector<std::string> pin_models;      // --pin-model
  // Only where models come and go.
  devices::MemoryLimit memory = {.share = 0.8};         // --memory
  devices::MemoryLimit device_memory = {.share = 0.9};  // --device-memory
  std::string log_level = "info";
  std::string log_format = "text";
  std::string redis_url;
  std::optional<std::string> redis_key;
  std::string redis_key_file;
  api::ServiceOptions limits;
};

// The name a model is served under when none is given: a hub reference without its revision
// ("owner/name", "owner/name:Q4_K_M"), "owner/name" of a folder in the hub's cache, else the
// folder's own name, or that of a GGUF file or a tensor model's file without its extension; of
// "model.onnx" and the like that of its folder; of "builtin:NAME?..." NAME.
std::string NameOfReference(const std::string& reference);

// Where no model or repository is named: the default one (hub/default_model.h), and a line of the
// log that says so. LocalModels do it themselves; for callers that start several times.
void TakeDefaultModel(ModelOptions* flags);

// The parts of a --model: "REF", or "NAME[,ALIAS...]=REF".
struct ModelNames {
  std::vector<std::string> names;  // none: none was given
  std::string reference;
};
// Splits at the first '='. A value that exists as a path, or that begins as a path does ('/', '.'
// or '~') or with "builtin:", is a reference as a whole.
ModelNames SplitModel(const std::string& model);

// As TensorEngineOptions::max_batch_size, but for "auto"; kInvalidArgument names the limits.
Expected<int32_t> ParseMaxBatchSize(const std::string& rows);
// As TextModelOptions::context; kInvalidArgument names the limits.
Expected<int32_t> ParseContext(const std::string& tokens);

// Registry specs of the --model and --served-model-name flags. Models of one reference whose
// settings are equal are one model with several names.
Expected<std::vector<registry::ModelSpec>> ModelSpecs(const ModelOptions& flags);

// How the backend is made where there is one model, that of --model or the default one.
Expected<devices::DeviceOptions> DeviceAsked(const ModelOptions& flags);

// The options for models that are not of --model: without the settings of named ones.
Expected<ModelOptions> ForAnyModel(ModelOptions options);

}  // namespace penstock::runtime
