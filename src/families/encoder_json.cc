#include "families/encoder_json.h"

#include <algorithm>
#include <string>

#include "base/printable.h"

namespace penstock::families {

Status ReadEncoderSizes(const JsonObject& config, const EncoderDefaults& d, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"vocab_size"}, d.vocab_size, 1, kEncoderVocabularyMax, &out->vocab_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"hidden_size", "dim", "n_embd"}, d.hidden_size, 1,
                                   kEncoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_hidden_layers", "n_layers", "n_layer"}, d.layers,
                                   1, kEncoderLayersMax, &out->num_hidden_layers));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_attention_heads", "n_heads", "n_head"}, d.heads, 1,
                                   kEncoderHeadsMax, &out->num_attention_heads));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"intermediate_size", "hidden_dim", "n_inner"},
                                   d.intermediate_size, 1, kEncoderIntermediateMax,
                                   &out->intermediate_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"max_position_embeddings", "n_positions"}, d.positions,
                                   1, kEncoderPositionsMax, &out->max_position_embeddings));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"type_vocab_size"}, d.types, 0, kEncoderVocabularyMax,
                                   &out->type_vocab_size));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"pad_token_id"}, d.pad, -1, out->vocab_size - 1, &out->pad_token_id));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, {"layer_norm_eps", "layer_norm_epsilon"},
                                     d.norm_epsilon, 0, 1, &out->layer_norm_eps));
  if (out->hidden_size % out->num_attention_heads != 0) {
    const std::string name(PresentField(config, {"hidden_size", "dim", "n_embd"}));
    return Status::InvalidArgument(
        "'" + name + "' " + std::to_string(out->hidden_size) + " is not a multiple of the " +
            std::to_string(out->num_attention_heads) + " attention heads",
        name);
  }
  return Status::Ok();
}

Status RefuseEncoderPositions(const JsonObject& config, FieldNames supported) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type,
                            config.GetStringOr("position_embedding_type", *supported.begin()));
  if (std::find(supported.begin(), supported.end(), type) != supported.end()) return Status::Ok();
  return Status::Unsupported("'position_embedding_type': '" + Shown(type) + "' is not supported",
                             "position_embedding_type");
}

Status ReadBertLike(const JsonObject& config, const EncoderDefaults& defaults, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadEncoderSizes(config, defaults, out));
  PENSTOCK_RETURN_IF_ERROR(RefuseEncoderPositions(config, {"absolute"}));
  return ReadActivation(config, "hidden_act", "gelu", &out->hidden_act);
}

Status ReadPlainRope(const JsonObject& rope, double absent, float* theta) {
  for (const std::string_view key : {"rope_type", "type"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, rope.GetStringOr(key, "default"));
    if (type != "default") {
      return Status::Unsupported(std::string("'") + rope.PathOf(key) + "': rotary scaling '" +
                                     Shown(type) + "' is not supported",
                                 rope.PathOf(key));
    }
  }
  return ReadFloat(rope, {"rope_theta"}, absent, 1, 1e12, theta);
}

}  // namespace penstock::families
