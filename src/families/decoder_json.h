// What the readers of a decoder's config.json share.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/json.h"
#include "common/status.h"
#include "families/decoder_readers.h"

namespace penstock {

// What transformers takes where a field is absent.
struct JsonDefaults {
  std::string_view architecture;
  int32_t vocab_size, hidden_size, intermediate_size, layers, heads;
  int32_t kv_heads;   // 0: as many as heads
  int32_t head_size;  // 0: hidden_size / heads
  int32_t context;
  double rms_epsilon, rope_theta;
  bool tied;
  int32_t bos, eos, pad;  // -1: none
  int32_t window = 0;     // sliding_window; 0: none
};

// Whether the field is written, be it as null: some settings have a default, and null means none.
bool IsWritten(const JsonObject& config, std::string_view key);

// A model's config.json: `model` has the settings of the text model, which lie in text_config where
// the file is of a model with images; `file` is the whole.
struct JsonSource {
  const JsonObject& model;
  const JsonObject& file;
  const DecoderArchitecture& architecture;
  const JsonDefaults& defaults;

  bool Is(std::string_view name) const { return architecture.name == name; }
  // For settings that either may have.
  const JsonObject& With(std::string_view key) const {
    return IsWritten(model, key) || !IsWritten(file, key) ? model : file;
  }
};

// Windows, and layers without rotary embedding. out->layers has its size.
Status ReadJsonLayers(const JsonSource& from, DecoderConfig* out);
// After the layers. The context becomes longer with YaRN.
Status ReadJsonRope(const JsonSource& from, DecoderConfig* out);

}  // namespace penstock
