// SmolLM 3: every fourth layer has no rotary embedding, and windows are in those layers.
#include <string>

#include "families/decoder_family.h"
#include "families/decoder_json.h"

namespace penstock::families {
namespace {

constexpr size_t kNoRopeInterval = 4;

void LeaveOutRope(size_t interval, DecoderConfig* out) {
  for (size_t i = 0; i < out->layers.size(); ++i) out->layers[i].rope = (i + 1) % interval != 0;
}

// no_rope_layers has a 1 for each layer that is rotated.
Status ReadNoRopeLayers(const JsonSource& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  const std::string_view key = "no_rope_layers";
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t interval,
      config.GetIntOr("no_rope_layer_interval", kNoRopeInterval, 1, kDecoderLayersMax));
  if (!config.Has(key)) {
    LeaveOutRope(static_cast<size_t>(interval), out);
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

extern constexpr DecoderFamily kSmollm3 = {
    .name = "smollm3",
    .model_type = "smollm3",
    .defaults = {.vocab_size = 128256,
                 .hidden_size = 2048,
                 .intermediate_size = 11008,
                 .layers = 36,
                 .heads = 16,
                 .kv_heads = 4,
                 .context = 32768,
                 .rope_theta = 2e6,
                 .tied = true,
                 .bos = 128000,
                 .eos = 128001,
                 .pad = 128004},
    .attention_bias = true,
    .mlp_bias = true,
    .has_window = [](const WindowSettings&, const DecoderLayerConfig& layer,
                     size_t) { return !layer.rope; },
    .layer_types = true,
    .use_sliding_window = true,
    .read_json = ReadNoRopeLayers,
    .gguf = {.name = "smollm3",
             .interleaved = true,
             // The files have no key for it.
             .read =
                 [](const GgufSource&, DecoderConfig* out) {
                   LeaveOutRope(kNoRopeInterval, out);
                   return Status::Ok();
                 }},
};

}  // namespace penstock::families
