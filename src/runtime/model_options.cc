#include "runtime/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/duration.h"
#include "base/split_list.h"
#include "checks/check_records.h"
#include "engine/builtin_models.h"
#include "engine/tensor_engine.h"
#include "hub/default_model.h"
#include "hub/reference.h"
#include "log/log.h"
#include "runtime/per_model.h"
#include "runtime/sampling_settings.h"

namespace penstock::runtime {

void TakeDefaultModel(ModelOptions* flags) {
  if (!flags->models.empty() || !flags->repositories.empty()) return;
  const hub::DefaultModel found = hub::FindDefaultModel();
  flags->models = {found.reference};
  flags->default_name = found.name;
  // At every level: a user who named no model must see which one is taken.
  LogMessage(LogEnabled(LogLevel::kInfo) ? LogLevel::kInfo : LogLevel::kWarn,
             fmt::format("no --model is given; taking the default, {}", found.reference));
}

namespace {

// The path as it was written, from the root on and without "." and "..". Links are not followed:
// a link's target, in the hub's cache a commit or a digest, is not what the user calls the model.
std::filesystem::path WrittenPath(const std::filesystem::path& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  return absolute.filename().empty() ? absolute.parent_path() : absolute;
}

// "owner/name" of a folder .../models--owner--name/snapshots/COMMIT in the hub's cache, else "".
std::string NameInCache(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "models--";
  if (folder.parent_path().filename() != "snapshots") return "";
  std::string cached = folder.parent_path().parent_path().filename().string();
  if (!cached.starts_with(kPrefix)) return "";
  cached.erase(0, kPrefix.size());
  const size_t slash = cached.find("--");
  return slash == std::string::npos ? cached : cached.replace(slash, 2, "/");
}

}  // namespace

std::string NameOfReference(const std::string& reference) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (reference.ends_with(".gguf") && fs::is_regular_file(reference, ignored)) {
    return fs::path(reference).stem().string();
  }
  if (engine::IsBuiltinModel(reference)) return engine::BuiltinModelName(reference);
  if (const auto tensors = engine::TensorModelPath(reference);
      tensors && !fs::is_directory(*tensors)) {
    const fs::path file = WrittenPath(*tensors);
    const std::string stem = file.stem().string();
    // What a folder's model is called (openvino/model_files.h) says nothing.
    const bool plain = stem == "model" || stem == "saved_model";
    if (!plain) return stem;
    const std::string cached = NameInCache(file.parent_path());
    const std::string folder = file.parent_path().filename().string();
    return !cached.empty() ? cached : !folder.empty() ? folder : stem;
  }
  if (!fs::is_directory(reference, ignored)) {
    const auto hub = hub::ModelReference::ParseHub(reference);
    return hub.ok() ? hub->Short() : reference.substr(0, reference.rfind('@'));
  }
  const fs::path path = WrittenPath(reference);
  const std::string cached = NameInCache(path);
  return cached.empty() ? path.filename().string() : cached;
}

ModelNames SplitModel(const std::string& model) {
  const size_t equals = model.find('=');
  std::error_code ignored;
  const bool address = model.starts_with("https://") || model.starts_with("http://");
  if (equals == std::string::npos || address || model.find_first_of("/.~") == 0 ||
      engine::IsBuiltinModel(model) || std::filesystem::exists(model, ignored)) {
    return {{}, model};
  }
  return {SplitList(model.substr(0, equals)), model.substr(equals + 1)};
}

namespace {

// A list in a variable has commas between its items, so "a,b=./x" came as "a" and "b=./x".
Status CheckCutNames(const std::vector<std::string>& models) {
  for (size_t i = 0; i + 1 < models.size(); ++i) {
    const ModelNames next = SplitModel(models[i + 1]);
    std::error_code ignored;
    if (next.names.empty() || models[i].find_first_of("/=") != std::string::npos ||
        std::filesystem::exists(models[i], ignored)) {
      continue;
    }
    return Status::InvalidArgument(
        fmt::format(
            "--model '{0}' is neither a folder nor owner/name; if it is to be a name of the "
            "model '{1}', write {0},{1}, in PENSTOCK_MODEL with a line break at its end",
            models[i], models[i + 1]),
        "model");
  }
  return Status::Ok();
}

// A flag that may differ between models, and what its value sets.
struct ModelSetting {
  const char* flag;
  const std::vector<std::string>& given;
  Status (*set)(const std::string& value, registry::ModelSpec* spec);
};

// The path of a model on this machine, however it was written; else the reference.
std::string PlaceOf(const std::string& reference) {
  std::error_code error;
  const auto path = std::filesystem::canonical(reference, error);
  return error ? reference : path.string();
}

std::vector<ModelSetting> SettingsOf(const ModelOptions& flags) {
  std::vector<ModelSetting> settings = {
      {"task", flags.tasks,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->purpose, engine::ParseModelPurpose(value));
         return Status::Ok();
       }},
      {"device", flags.devices,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->device, devices::ParseDevice(value));
         return Status::Ok();
       }},
      {"context", flags.contexts,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->options.decoder.model.context, ParseContext(value));
         return Status::Ok();
       }},
      {"chat-template", flags.chat_templates,
       [](const std::string& value, registry::ModelSpec* spec) {
         spec->options.decoder.chat_template = value;
         return Status::Ok();
       }},
      {"max-batch-size", flags.max_batch_sizes,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->options.tensors.max_batch_size, ParseMaxBatchSize(value));
         return Status::Ok();
       }},
      {"pooling", flags.poolings,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->options.encoder.pooling, engine::ParsePoolingMode(value));
         return Status::Ok();
       }},
      {"dtype", flags.dtypes,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->options.encoder.dtype, engine::ParseDType(value));
         spec->options.decoder.model.dtype = spec->options.encoder.dtype;
         return Status::Ok();
       }},
      {"int8-keep", flags.int8_keep,
       [](const std::string& value, registry::ModelSpec* spec) -> Status {
         PENSTOCK_ASSIGN_OR_RETURN(spec->options.encoder.int8_keep,
                                   models::ParseTypeOverrides(value));
         return Status::Ok();
       }},
  };
  for (const SamplingSetting& sampling : SamplingSettings()) {
    settings.push_back({sampling.flag, flags.*sampling.given, sampling.set});
  }
  return settings;
}

// --pooling, --dtype and the like, once the names are settled. Returns a key for each model: equal
// ones have the same reference and the same settings.
Expected<std::vector<std::string>> ApplyPerModel(const ModelOptions& flags,
                                                 std::vector<registry::ModelSpec>* specs) {
  std::vector<std::string> keys;
  for (const registry::ModelSpec& spec : *specs) keys.push_back(PlaceOf(spec.reference));
  for (const ModelSetting& setting : SettingsOf(flags)) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto values, PerModel::Parse(setting.flag, setting.given));
    PENSTOCK_RETURN_IF_ERROR(values.CheckNames(*specs));
    for (size_t i = 0; i < specs->size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string value, values.Of((*specs)[i]));
      keys[i] += '\0' + value;
      if (value.empty()) continue;
      if (const Status set = setting.set(value, &(*specs)[i]); !set.ok()) {
        return Status::InvalidArgument(fmt::format("--{}: {}", setting.flag, set.message()),
                                       setting.flag);
      }
    }
  }
  for (const registry::ModelSpec& spec : *specs) {
    const bool on_host = spec.device.empty() || devices::IsHost(spec.device);
    if (on_host && spec.options.encoder.dtype == numbers::DType::kF16) {
      return Status::InvalidArgument(
          fmt::format("--dtype: the CPU, where model '{}' lies, computes in f32, bf16 or int8; f16 "
                      "is for a GPU (--device cuda)",
                      spec.name),
          "dtype");
    }
  }
  return keys;
}

// A model that is there under other names already lends it its own: it is loaded once.
void MergeEqual(const std::vector<std::string>& keys, std::vector<registry::ModelSpec>* specs) {
  std::vector<registry::ModelSpec> merged;
  std::vector<std::string> known;
  for (size_t i = 0; i < specs->size(); ++i) {
    registry::ModelSpec& spec = (*specs)[i];
    const auto found = std::find(known.begin(), known.end(), keys[i]);
    // The same name again is a mistake, which the registry names.
    if (found == known.end() || merged[found - known.begin()].name == spec.name) {
      known.push_back(keys[i]);
      merged.push_back(std::move(spec));
      continue;
    }
    std::vector<std::string>& aliases = merged[found - known.begin()].aliases;
    aliases.push_back(std::move(spec.name));
    aliases.insert(aliases.end(), spec.aliases.begin(), spec.aliases.end());
  }
  *specs = std::move(merged);
}

// Sets what `set` sets for each of the models that `names` names.
template <typename Set>
Status ForNamed(const std::string& flag, const std::vector<std::string>& names,
                std::vector<registry::ModelSpec>* specs, Set set) {
  for (const std::string& name : names) {
    const auto found =
        std::find_if(specs->begin(), specs->end(), [&](const registry::ModelSpec& spec) {
          return spec.name == name ||
                 std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
        });
    if (found == specs->end()) {
      return Status::InvalidArgument(fmt::format("--{}: no model is served as '{}'", flag, name),
                                     flag);
    }
    set(&*found);
  }
  return Status::Ok();
}

// When models come and go.
Status ApplyLifecycle(const ModelOptions& flags, std::vector<registry::ModelSpec>* specs) {
  PENSTOCK_ASSIGN_OR_RETURN(const PerModel keeps, PerModel::Parse("keep-alive", flags.keep_alives));
  PENSTOCK_RETURN_IF_ERROR(keeps.CheckNames(*specs));
  for (registry::ModelSpec& spec : *specs) {
    spec.preload = flags.preload;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string keep, keeps.Of(spec));
    if (keep.empty()) continue;
    auto duration = ParseDuration(keep);
    if (!duration.ok()) {
      return Status::InvalidArgument("--keep-alive: " + duration.status().message(), "keep-alive");
    }
    spec.keep_alive = *duration;
  }
  PENSTOCK_RETURN_IF_ERROR(ForNamed("preload-model", flags.preload_models, specs,
                                    [](registry::ModelSpec* spec) { spec->preload = true; }));
  return ForNamed("pin-model", flags.pin_models, specs,
                  [](registry::ModelSpec* spec) { spec->pinned = true; });
}

}  // namespace

Expected<int32_t> ParseMaxBatchSize(const std::string& rows) {
  constexpr int32_t kRowsMax = 1 << 16;
  if (rows == "auto") return -1;
  int32_t value = 0;
  const char* const end = rows.data() + rows.size();
  const auto read = std::from_chars(rows.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end && value >= 0 && value <= kRowsMax) return value;
  return Status::InvalidArgument(
      fmt::format("'{:.100}' is not auto, or a number of rows from 0 to {}", rows, kRowsMax),
      "max-batch-size");
}

Expected<int32_t> ParseContext(const std::string& tokens) {
  constexpr int32_t kContextMax = 1 << 27;
  int32_t value = 0;
  const char* const end = tokens.data() + tokens.size();
  const auto read = std::from_chars(tokens.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end && value >= 0 && value <= kContextMax) return value;
  return Status::InvalidArgument(
      fmt::format("'{:.100}' is not a number of tokens from 0 to {}", tokens, kContextMax),
      "context");
}

Expected<std::vector<registry::ModelSpec>> ModelSpecs(const ModelOptions& flags) {
  PENSTOCK_RETURN_IF_ERROR(CheckCutNames(flags.models));
  std::vector<registry::ModelSpec> specs;
  for (const std::string& model : flags.models) {
    registry::ModelSpec spec;
    ModelNames split = SplitModel(model);
    spec.reference = std::move(split.reference);
    if (split.names.empty()) split.names = {NameOfReference(spec.reference)};
    spec.name = split.names.front();
    spec.aliases.assign(split.names.begin() + 1, split.names.end());
    if (!flags.default_name.empty()) {
      spec.name = flags.default_name;
      spec.aliases = {spec.name.substr(spec.name.rfind('/') + 1)};
    }
    if (spec.reference.empty()) {
      return Status::InvalidArgument(
          fmt::format("--model '{}' names no folder or hub reference", model), "model");
    }
    spec.options.encoder.fingerprint = !flags.redis_url.empty();
    spec.options.encoder.scheduler = flags.scheduler;
    spec.replicas = flags.replicas;
    spec.options.tensors.scheduler = flags.tensors;
    spec.options.tensors.scheduler.linger_us = flags.scheduler.linger_us;
    spec.options.tensors.scheduler.idle_release_s = flags.scheduler.idle_release_s;
    spec.options.decoder.model = flags.text;
    spec.options.decoder.scheduler = flags.decode;
    spec.options.decoder.scheduler.max_queued_tokens = flags.scheduler.max_queued_tokens;
    spec.options.decoder.scheduler.max_queued_rows = flags.scheduler.max_queued_rows;
    spec.options.decoder.scheduler.idle_release_s = flags.scheduler.idle_release_s;
    spec.options.encoder.check =
        spec.options.decoder.check = {flags.check_models, checks::CheckRecords::DefaultFolder()};
    specs.push_back(std::move(spec));
  }
  const auto& names = flags.served_names;
  if (specs.size() == 1 && !names.empty()) {
    specs[0].name = names[0];
    specs[0].aliases.insert(specs[0].aliases.begin(), names.begin() + 1, names.end());
  } else if (!names.empty()) {
    if (names.size() != specs.size()) {
      return Status::InvalidArgument(
          fmt::format("--served-model-name is given {} times for {} models: one each, or none",
                      names.size(), specs.size()),
          "served-model-name");
    }
    for (size_t i = 0; i < specs.size(); ++i) specs[i].name = names[i];
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto keys, ApplyPerModel(flags, &specs));
  MergeEqual(keys, &specs);
  PENSTOCK_RETURN_IF_ERROR(ApplyLifecycle(flags, &specs));
  return specs;
}

Expected<devices::DeviceOptions> DeviceAsked(const ModelOptions& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto specs, ModelSpecs(flags));
  devices::DeviceOptions options{.threads = flags.threads, .pin = flags.pin, .isa = flags.isa};
  if (!specs.empty() && !specs.front().device.empty()) options.device = specs.front().device;
  return options;
}

namespace {

// Leaves the value for all models.
Status KeepForAll(const std::string& flag, std::vector<std::string>* values) {
  PENSTOCK_ASSIGN_OR_RETURN(const PerModel read, PerModel::Parse(flag, *values));
  PENSTOCK_ASSIGN_OR_RETURN(std::string value, read.Of(registry::ModelSpec()));
  values->clear();
  if (!value.empty()) values->push_back(std::move(value));
  return Status::Ok();
}

}  // namespace

Expected<ModelOptions> ForAnyModel(ModelOptions options) {
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("task", &options.tasks));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("device", &options.devices));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("context", &options.contexts));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("dtype", &options.dtypes));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("int8-keep", &options.int8_keep));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("pooling", &options.poolings));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("chat-template", &options.chat_templates));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("max-batch-size", &options.max_batch_sizes));
  PENSTOCK_RETURN_IF_ERROR(KeepForAll("keep-alive", &options.keep_alives));
  for (const SamplingSetting& sampling : SamplingSettings()) {
    PENSTOCK_RETURN_IF_ERROR(KeepForAll(sampling.flag, &(options.*sampling.given)));
  }
  options.preload_models.clear();
  options.pin_models.clear();
  options.default_name.clear();
  return options;
}

}  // namespace penstock::runtime
