// The layers of a decoder's config.json: windows and rotary embeddings.
#include <limits>
#include <string>
#include <vector>

#include "common/printable.h"
#include "families/config_fields.h"
#include "families/decoder_json.h"
#include "families/decoder_rope.h"

namespace penstock {
namespace {

constexpr double kGemma3LocalTheta = 1e4;
constexpr int32_t kPhi3OriginalPositions = 4096;

// ---- Rotary embeddings

Expected<JsonObject> RopeObject(const JsonObject& config) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject older, config.GetObjectOrEmpty("rope_scaling"));
  bool empty = true;
  older.ForEach([&](std::string_view, JsonElement) { empty = false; });
  if (!empty) return older;
  return config.GetObjectOrEmpty("rope_parameters");
}

// The theta of `rope`, else that of `config`.
Expected<double> ReadTheta(const JsonObject& rope, const JsonObject& config,
                           std::string_view flat_key, double absent) {
  PENSTOCK_ASSIGN_OR_RETURN(const double flat,
                            config.GetNumberOr(flat_key, absent, 1.001, kRopeThetaMax));
  return rope.GetNumberOr("rope_theta", flat, 1.001, kRopeThetaMax);
}

constexpr std::string_view kShareKey = "partial_rotary_factor";

// Gemma 3 has two kinds of layers, which could rotate parts of unlike sizes.
Status RefuseShareOfGemma3(const JsonObject& place) {
  PENSTOCK_ASSIGN_OR_RETURN(const double share, place.GetNumberOr(kShareKey, 1, 1e-3, 1));
  if (share == 1) return Status::Ok();
  return Status::Unsupported("'" + place.PathOf(kShareKey) + "' is not supported for gemma3",
                             place.PathOf(kShareKey));
}

// The first values of a head are rotated, as many as the share says. The reference reads the share
// for phi3 alone; its other decoders fail or rotate all, but the files mean a part.
Status ReadRopeSize(const JsonSource& from, const JsonObject& rope, DecoderConfig* out) {
  const JsonObject& place = rope.Has(kShareKey) ? rope : from.model;
  if (from.Is("gemma3")) PENSTOCK_RETURN_IF_ERROR(RefuseShareOfGemma3(place));
  PENSTOCK_ASSIGN_OR_RETURN(const double share, place.GetNumberOr(kShareKey, 1, 1e-3, 1));
  out->rope_size = static_cast<int32_t>(out->head_size * share);
  if (out->rope_size % 2 == 0 && out->rope_size > 0) return Status::Ok();
  return Status::InvalidArgument("heads of " + std::to_string(out->head_size) +
                                     " values have a rotated part of " +
                                     std::to_string(out->rope_size) + "; it must be even",
                                 share == 1 ? "head_dim" : place.PathOf(kShareKey));
}

Status ReadRope(const JsonSource& from, const JsonObject& rope, double theta, DecoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadRopeSize(from, rope, out));
  RopeSurroundings around = {theta, out->rope_size, out->context};
  PENSTOCK_RETURN_IF_ERROR(ReadInt(from.model, {"original_max_position_embeddings"},
                                   from.Is("phi3") ? kPhi3OriginalPositions : 0, 1,
                                   kDecoderContextMax, &around.original_positions));
  around.yarn_is_longrope = from.Is("phi3");
  PENSTOCK_ASSIGN_OR_RETURN(out->rope_scaling, ReadRopeScaling(rope, around));
  out->context = ContextWithYarn(out->rope_scaling, out->context);
  for (DecoderLayerConfig& layer : out->layers) layer.rope_theta = static_cast<float>(theta);
  return Status::Ok();
}

// Gemma 3 has its scaling for the global layers, and another theta for those with a window. Newer
// files have an object for either kind.
Status ReadGemma3Rope(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject newer, config.GetObjectOrEmpty("rope_parameters"));
  if (newer.Has("rope_theta") || newer.Has("rope_type")) {
    return Status::Unsupported(
        "'rope_parameters' of gemma3 must name full_attention and sliding_attention",
        config.PathOf("rope_parameters"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(JsonObject full, newer.GetObjectOrEmpty("full_attention"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject local, newer.GetObjectOrEmpty("sliding_attention"));
  if (config.Has("rope_scaling")) {
    PENSTOCK_ASSIGN_OR_RETURN(full, config.GetObject("rope_scaling"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double theta,
                            ReadTheta(full, config, "rope_theta", from.defaults.rope_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const double local_theta,
                            ReadTheta(local, config, "rope_local_base_freq", kGemma3LocalTheta));
  PENSTOCK_RETURN_IF_ERROR(RefuseShareOfGemma3(local));
  const std::string_view type = PresentField(local, {"rope_type", "type"});
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, local.GetStringOr(type, "default"));
  if (name != "default") {
    return Status::Unsupported("'" + local.PathOf(type) + "': rotary scaling of layers with a " +
                                   "window is not supported, but is '" + name + "'",
                               local.PathOf(type));
  }
  PENSTOCK_RETURN_IF_ERROR(ReadRope(from, full, theta, out));
  for (DecoderLayerConfig& layer : out->layers) {
    if (layer.window == 0) continue;
    layer.rope_theta = static_cast<float>(local_theta);
    layer.rope_scaled = false;
  }
  return Status::Ok();
}

// ---- Layers: windows, and those without rotary embedding

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

// sliding_window; 0: none.
Status ReadWindow(const JsonObject& config, int32_t absent, int32_t* window) {
  const bool none = IsWritten(config, "sliding_window") && !config.Has("sliding_window");
  return ReadInt(config, {"sliding_window"}, none ? 0 : absent, 1, kDecoderContextMax, window);
}

// no_rope_layers has a 1 for each layer that is rotated.
Status ReadNoRopeLayers(const JsonObject& config, DecoderConfig* out) {
  const std::string_view key = "no_rope_layers";
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t interval,
                            config.GetIntOr("no_rope_layer_interval", 4, 1, kDecoderLayersMax));
  if (!config.Has(key)) {
    for (size_t i = 0; i < out->layers.size(); ++i) {
      out->layers[i].rope = (i + 1) % static_cast<size_t>(interval) != 0;
    }
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto rotated,
                            config.GetArray(key, 4 * static_cast<size_t>(kDecoderLayersMax)));
  if (rotated.size() < out->layers.size()) {
    return Status::InvalidArgument("'" + config.PathOf(key) + "' has " +
                                       std::to_string(rotated.size()) + " entries for " +
                                       std::to_string(out->layers.size()) + " layers",
                                   config.PathOf(key));
  }
  size_t i = 0;
  for (const JsonElement value : rotated) {
    int64_t flag = 0;
    if (!value.Get(&flag) || flag < 0 || flag > 1) {
      return Status::InvalidArgument("'" + config.PathOf(key) + "' must have 0 and 1 only",
                                     config.PathOf(key));
    }
    if (i < out->layers.size()) out->layers[i++].rope = flag == 1;
  }
  return Status::Ok();
}

}  // namespace

Status ReadJsonLayers(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  if (from.Is("smollm3")) PENSTOCK_RETURN_IF_ERROR(ReadNoRopeLayers(config, out));
  if (from.Is("llama") || from.Is("granite")) return Status::Ok();
  if (from.Is("mistral")) PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(config, {"layer_types"}));
  int32_t window = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadWindow(config, from.defaults.window, &window));
  if (from.Is("gemma3") && window == 0) {
    return Status::Unsupported("'" + config.PathOf("sliding_window") +
                                   "' is null, which is not "
                                   "supported for gemma3",
                               config.PathOf("sliding_window"));
  }
  const bool by_flag = from.Is("qwen2") || from.Is("qwen3") || from.Is("smollm3");
  PENSTOCK_ASSIGN_OR_RETURN(const bool flag, config.GetBoolOr("use_sliding_window", false));
  if (by_flag && !flag) window = 0;
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t full_first,
      config.GetIntOr("max_window_layers", 28, 0, std::numeric_limits<int32_t>::max()));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t pattern,
                            config.GetIntOr("sliding_window_pattern", 6, 1, kDecoderLayersMax));
  std::vector<bool> windowed;
  if (!from.Is("mistral") && !from.Is("phi3")) {
    PENSTOCK_ASSIGN_OR_RETURN(windowed, LayerTypes(config, out->layers.size()));
  }
  for (size_t i = 0; i < out->layers.size(); ++i) {
    DecoderLayerConfig& layer = out->layers[i];
    bool here = true;  // mistral, phi3
    if (!windowed.empty()) {
      here = windowed[i];
    } else if (from.Is("gemma2") || from.Is("gemma3")) {
      here = (i + 1) % static_cast<size_t>(from.Is("gemma2") ? 2 : pattern) != 0;
    } else if (from.Is("smollm3")) {
      here = !layer.rope;
    } else if (by_flag) {
      here = i >= static_cast<size_t>(full_first);
    }
    layer.window = here ? window : 0;
  }
  return Status::Ok();
}

Status ReadJsonRope(const JsonSource& from, DecoderConfig* out) {
  if (from.Is("gemma3")) return ReadGemma3Rope(from, out);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, RopeObject(from.model));
  PENSTOCK_ASSIGN_OR_RETURN(const double theta,
                            ReadTheta(rope, from.model, "rope_theta", from.defaults.rope_theta));
  return ReadRope(from, rope, theta, out);
}

}  // namespace penstock
