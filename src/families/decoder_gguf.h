// What the readers of a decoder's GGUF metadata share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "families/decoder_readers.h"

namespace penstock {

// "key 'llama.block_count' WHY".
inline Status UnsupportedKey(const std::string& key, const std::string& why) {
  return Status::Unsupported("key '" + key + "' " + why, key);
}
inline Status InvalidKey(const std::string& key, const std::string& why) {
  return Status::InvalidArgument("key '" + key + "' " + why, key);
}

// The keys of a model's architecture, by what follows its name and a dot.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufMetadata& all, std::string_view architecture)
      : all_(all), prefix_(std::string(architecture) + '.') {}

  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }
  bool Has(std::string_view key) const { return all_.Has(Name(key)); }
  const GgufMetadata& all() const { return all_; }
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
  const GgufMetadata& all_;
  std::string prefix_;
};

// What the reader hands from one setting to the next.
struct GgufSource {
  const TensorStore& store;
  const DecoderArchitecture& architecture;
  ArchitectureKeys keys;

  bool Is(std::string_view name) const { return architecture.name == name; }
};

// After the layers, whose windows it asks for. The context becomes longer with YaRN.
Status ReadGgufRope(const GgufSource& from, DecoderConfig* out);

}  // namespace penstock
