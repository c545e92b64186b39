// A model of a repository with settings in Triton's form: DIR/name/config.pbtxt
// (kserve/model_config.h) beside the versions of a tensor model.
#pragma once

#include <optional>
#include <string>

#include "kserve/model_config.h"
#include "registry/registry.h"
#include "runtime/repository_scan.h"

namespace penstock::runtime {

// What config.pbtxt says, if the model has one. Versions that it leaves out are taken off `model`;
// those that it does not fit, all where it cannot be read, get an error.
std::optional<kserve::TensorModelConfig> ReadTensorSettings(RepositoryModel* model);

// The file or folder of a version that is loaded.
std::string TensorModelReference(const kserve::TensorModelConfig& config,
                                 const std::string& version_path);

// Of what the file says, to a spec whose settings are those of all models.
void ApplyTensorSettings(const kserve::TensorModelConfig& config, registry::ModelSpec* spec);

}  // namespace penstock::runtime
