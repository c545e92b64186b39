#include "runtime/tensor_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/printable.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;

// "": it names none.
std::string FileOf(const kserve::TensorModelConfig& config) {
  return config.file.empty() ? kserve::ModelFileOf(config.platform, config.backend) : config.file;
}

// Why a version is not what config.pbtxt says; "": it may be.
std::string FaultOf(const kserve::TensorModelConfig& config, const std::string& version_path) {
  const std::string file = FileOf(config);
  std::error_code ignored;
  if (!file.empty() && !fs::exists(fs::path(version_path) / file, ignored)) {
    return fmt::format("it has no {}, which config.pbtxt {}", file,
                       config.file.empty() ? "names by the platform" : "names");
  }
  if (!engine::TensorModelPath(TensorModelReference(config, version_path))) {
    return "it has a config.pbtxt and no model.onnx, model.xml, model.savedmodel, "
           "model.graphdef or model.tflite";
  }
  return "";
}

void RefuseAll(const std::string& why, RepositoryModel* model) {
  for (RepositoryVersion& version : model->versions) {
    if (version.error.empty()) version.error = Printable(why);
  }
}

}  // namespace

std::string TensorModelReference(const kserve::TensorModelConfig& config,
                                 const std::string& version_path) {
  const std::string file = FileOf(config);
  return file.empty() ? version_path : (fs::path(version_path) / file).string();
}

std::optional<kserve::TensorModelConfig> ReadTensorSettings(RepositoryModel* model) {
  if (model->config.empty()) return std::nullopt;
  auto config = kserve::ReadModelConfig(model->config);
  if (!config.ok()) {
    RefuseAll(config.status().message(), model);
    return std::nullopt;
  }
  if (!config->name.empty() && config->name != model->name) {
    RefuseAll(fmt::format("{}: name '{}' is not that of the folder", model->config, config->name),
              model);
  }
  if (!config->versions.empty()) {
    std::erase_if(model->versions, [&](const RepositoryVersion& version) {
      return !std::binary_search(config->versions.begin(), config->versions.end(), version.number);
    });
  }
  for (RepositoryVersion& version : model->versions) {
    if (version.error.empty()) version.error = FaultOf(*config, version.path);
  }
  return *std::move(config);
}

void ApplyTensorSettings(const kserve::TensorModelConfig& config, registry::ModelSpec* spec) {
  if (config.replicas) spec->replicas = *config.replicas;
  engine::TensorEngineOptions* const options = &spec->options.tensors;
  if (config.max_batch_size) options->max_batch_size = *config.max_batch_size;
  if (config.linger_us) options->scheduler.linger_us = *config.linger_us;
  if (config.check_finite) options->scheduler.check_finite = true;
  options->declared = config.tensors;
}

}  // namespace penstock::runtime
