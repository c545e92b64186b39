// Flags that may differ between the models of a process: "VALUE" is for all of them, "NAME=VALUE"
// for the one served as NAME, and takes precedence. Several stand in several flags, or with commas
// between them (for a variable): "int8,NAME=f32".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "registry/registry.h"

namespace penstock::runtime {

class PerModel {
 public:
  // `flag`: "dtype", for messages. `given`: the flag's values. A value may itself have commas: text
  // behind one belongs to the value before, unless it has a name. kInvalidArgument: two values for
  // the same model, or an empty name.
  static Expected<PerModel> Parse(const std::string& flag, const std::vector<std::string>& given);

  // Values as given, without names.
  std::vector<std::string> Values() const;
  // Of that model, by its name or an alias; "" = none. kInvalidArgument: two of its names have one.
  Expected<std::string> Of(const registry::ModelSpec& model) const;
  // kInvalidArgument: a name that no model has.
  Status CheckNames(const std::vector<registry::ModelSpec>& models) const;

 private:
  std::string flag_;
  std::vector<std::pair<std::string, std::string>> values_;  // name ("" = all) and value
};

}  // namespace penstock::runtime
