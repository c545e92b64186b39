// What the readers of a decoder's config.json share.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "families/decoder_readers.h"
#include "json/json.h"

namespace penstock::families {

// Whether the field is written, be it as null: some settings have a default, and null means none.
bool IsWritten(const JsonObject& config, std::string_view key);

// A model's config.json: `model` has the settings of the text model, which lie in text_config where
// the file is of a model with images; `file` is the whole.
struct JsonSource {
  const JsonObject& model;
  const JsonObject& file;
  const DecoderFamily& family;

  // For settings that either may have.
  const JsonObject& With(std::string_view key) const {
    return IsWritten(model, key) || !IsWritten(file, key) ? model : file;
  }
};

// Windows. out->layers has its size, and says which layers are rotated.
Status ReadJsonLayers(const JsonSource& from, DecoderConfig* out);
// After the layers. The context becomes longer with YaRN.
Status ReadJsonRope(const JsonSource& from, DecoderConfig* out);

// ---- The parts of ReadJsonRope, for families that read more

// The theta of `rope`, else that of `config` under `flat_key`.
Expected<double> ReadRopeTheta(const JsonObject& rope, const JsonObject& config,
                               std::string_view flat_key, double absent);
// The share of a head that is rotated, in `rope` or among the model's settings.
inline constexpr std::string_view kRopeShareKey = "partial_rotary_factor";
const JsonObject& PlaceOfRopeShare(const JsonSource& from, const JsonObject& rope);
// What is rotated and how it is scaled; `theta` for all layers.
Status ReadScaledRope(const JsonSource& from, const JsonObject& rope, double theta,
                      DecoderConfig* out);

}  // namespace penstock::families
