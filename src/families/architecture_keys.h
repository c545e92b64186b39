// Keys of a GGUF file that begin with the name of the model's architecture: "llama.block_count".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/gguf_metadata.h"

namespace penstock::families {

// "key 'llama.block_count' WHY".
inline Status UnsupportedKey(const std::string& key, const std::string& why) {
  return Status::Unsupported("key '" + key + "' " + why, key);
}
inline Status InvalidKey(const std::string& key, const std::string& why) {
  return Status::InvalidArgument("key '" + key + "' " + why, key);
}

// By what follows the name and a dot.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const files::GgufMetadata& all, std::string_view architecture)
      : all_(all), prefix_(std::string(architecture) + '.') {}

  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }
  bool Has(std::string_view key) const { return all_.Has(Name(key)); }
  const files::GgufMetadata& all() const { return all_; }
  const std::string& prefix() const { return prefix_; }

  // An integer, or an array of equal ones, one a layer.
  Status Int(std::string_view key, int64_t min, int64_t max, int32_t* out) const;
  Status IntOr(std::string_view key, int32_t absent, int64_t min, int64_t max, int32_t* out) const {
    *out = absent;
    return Has(key) ? Int(key, min, max, out) : Status::Ok();
  }
  Status FloatOr(std::string_view key, double absent, double min, double max, float* out) const {
    PENSTOCK_ASSIGN_OR_RETURN(const double value, all_.GetFloatOr(Name(key), absent, min, max));
    *out = static_cast<float>(value);
    return Status::Ok();
  }
  Expected<bool> BoolOr(std::string_view key, bool absent) const {
    return all_.GetBoolOr(Name(key), absent);
  }

 private:
  const files::GgufMetadata& all_;
  std::string prefix_;
};

}  // namespace penstock::families
