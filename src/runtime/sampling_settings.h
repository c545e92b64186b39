// Settings of sampling that an operator gives a model in place of what its files recommend: flags
// of `penstock serve`, keys of [models.NAME] and of a repository's model.toml.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/model_options.h"

namespace penstock::runtime {

struct SamplingSetting {
  const char* flag;  // without dashes
  const char* help;
  std::vector<std::string> ModelOptions::*given;  // [NAME=]VALUE
  // Sets the model's; kInvalidArgument says the range.
  Status (*set)(const std::string& value, registry::ModelSpec* spec);
};

std::span<const SamplingSetting> SamplingSettings();

}  // namespace penstock::runtime
