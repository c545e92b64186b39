#include "families/architecture_keys.h"

namespace penstock::families {

Status ArchitectureKeys::Int(std::string_view key, int64_t min, int64_t max, int32_t* out) const {
  const std::string name = Name(key);
  const auto found = all_.values().find(name);
  if (found == all_.values().end() || !found->second.is_array) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, all_.GetInt(name, min, max));
    *out = static_cast<int32_t>(value);
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufNumbers<int64_t> values, all_.GetInts(name));
  if (values.size() == 0) return InvalidKey(name, "is an empty array");
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[0]) return UnsupportedKey(name, "differs from layer to layer");
  }
  if (values[0] < min || values[0] > max) {
    return InvalidKey(name, "must be from " + std::to_string(min) + " to " + std::to_string(max) +
                                ", but is " + std::to_string(values[0]));
  }
  *out = static_cast<int32_t>(values[0]);
  return Status::Ok();
}

}  // namespace penstock::families
