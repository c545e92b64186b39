// The layers of a decoder's config.json: windows and rotary embeddings.
#include <limits>
#include <string>
#include <vector>

#include "base/printable.h"
#include "families/config_fields.h"
#include "families/decoder_json.h"
#include "families/decoder_rope.h"

namespace penstock::families {
namespace {

// ---- Rotary embeddings

Expected<JsonObject> RopeObject(const JsonObject& config) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject older, config.GetObjectOrEmpty("rope_scaling"));
  bool empty = true;
  older.ForEach([&](std::string_view, JsonElement) { empty = false; });
  if (!empty) return older;
  return config.GetObjectOrEmpty("rope_parameters");
}

// The first values of a head are rotated, as many as the share says. The reference reads the share
// for phi3 alone; its other decoders fail or rotate all, but the files mean a part.
Status ReadRopeSize(const JsonSource& from, const JsonObject& rope, DecoderConfig* out) {
  const JsonObject& place = PlaceOfRopeShare(from, rope);
  PENSTOCK_ASSIGN_OR_RETURN(const double share, place.GetNumberOr(kRopeShareKey, 1, 1e-3, 1));
  out->rope_size = static_cast<int32_t>(out->head_size * share);
  if (out->rope_size % 2 == 0 && out->rope_size > 0) return Status::Ok();
  return Status::InvalidArgument("heads of " + std::to_string(out->head_size) +
                                     " values have a rotated part of " +
                                     std::to_string(out->rope_size) + "; it must be even",
                                 share == 1 ? "head_dim" : place.PathOf(kRopeShareKey));
}

// ---- Windows

// layer_types: which layers have a window. Absent: nothing.
Expected<std::vector<bool>> LayerTypes(const JsonObject& config, size_t layers) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto types,
      config.GetStringsOrEmpty("layer_types", static_cast<size_t>(kDecoderLayersMax)));
  std::vector<bool> windowed;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return Status::Unsupported(
          "'" + config.PathOf("layer_types") + "': '" + Shown(type) + "' is not supported",
          config.PathOf("layer_types"));
    }
    windowed.push_back(type == "sliding_attention");
  }
  if (windowed.empty() || windowed.size() == layers) return windowed;
  return Status::InvalidArgument("'" + config.PathOf("layer_types") + "' has " +
                                     std::to_string(types.size()) + " entries for " +
                                     std::to_string(layers) + " layers",
                                 config.PathOf("layer_types"));
}

Status ReadWindowSettings(const JsonSource& from, WindowSettings* out) {
  const JsonObject& config = from.model;
  const bool none = IsWritten(config, "sliding_window") && !config.Has("sliding_window");
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"sliding_window"},
                                   none ? 0 : from.family.defaults.window, 1, kDecoderContextMax,
                                   &out->window));
  PENSTOCK_ASSIGN_OR_RETURN(const bool used, config.GetBoolOr("use_sliding_window", false));
  if (from.family.use_sliding_window && !used) out->window = 0;
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t full_first,
      config.GetIntOr("max_window_layers", static_cast<int64_t>(out->full_first), 0,
                      std::numeric_limits<int32_t>::max()));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t period, config.GetIntOr("sliding_window_pattern",
                                                                  static_cast<int64_t>(out->period),
                                                                  1, kDecoderLayersMax));
  out->full_first = static_cast<size_t>(full_first);
  out->period = static_cast<size_t>(period);
  return Status::Ok();
}

}  // namespace

Status ReadJsonLayers(const JsonSource& from, DecoderConfig* out) {
  const DecoderFamily& family = from.family;
  if (family.has_window == nullptr) return Status::Ok();
  WindowSettings settings;
  PENSTOCK_RETURN_IF_ERROR(ReadWindowSettings(from, &settings));
  std::vector<bool> types;
  if (family.layer_types) {
    PENSTOCK_ASSIGN_OR_RETURN(types, LayerTypes(from.model, out->layers.size()));
  }
  for (size_t i = 0; i < out->layers.size(); ++i) {
    DecoderLayerConfig& layer = out->layers[i];
    const bool here = types.empty() ? family.has_window(settings, layer, i) : types[i];
    layer.window = here ? settings.window : 0;
  }
  return Status::Ok();
}

Expected<double> ReadRopeTheta(const JsonObject& rope, const JsonObject& config,
                               std::string_view flat_key, double absent) {
  PENSTOCK_ASSIGN_OR_RETURN(const double flat,
                            config.GetNumberOr(flat_key, absent, 1.001, kRopeThetaMax));
  return rope.GetNumberOr("rope_theta", flat, 1.001, kRopeThetaMax);
}

const JsonObject& PlaceOfRopeShare(const JsonSource& from, const JsonObject& rope) {
  return rope.Has(kRopeShareKey) ? rope : from.model;
}

Status ReadScaledRope(const JsonSource& from, const JsonObject& rope, double theta,
                      DecoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadRopeSize(from, rope, out));
  RopeSurroundings around = {theta, out->rope_size, out->context};
  PENSTOCK_RETURN_IF_ERROR(ReadInt(from.model, {"original_max_position_embeddings"},
                                   from.family.defaults.original_context, 1, kDecoderContextMax,
                                   &around.original_positions));
  around.yarn_is_longrope = from.family.yarn_is_longrope;
  PENSTOCK_ASSIGN_OR_RETURN(out->rope_scaling, ReadRopeScaling(rope, around));
  out->context = ContextWithYarn(out->rope_scaling, out->context);
  for (DecoderLayerConfig& layer : out->layers) layer.rope_theta = static_cast<float>(theta);
  return Status::Ok();
}

Status ReadJsonRope(const JsonSource& from, DecoderConfig* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, RopeObject(from.model));
  PENSTOCK_ASSIGN_OR_RETURN(const double theta, ReadRopeTheta(rope, from.model, "rope_theta",
                                                              from.family.defaults.rope_theta));
  return ReadScaledRope(from, rope, theta, out);
}

}  // namespace penstock::families
