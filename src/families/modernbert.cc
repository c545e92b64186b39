// ModernBERT: norms before, rotary positions, a gated feed-forward, and layers that attend to what
// is near between those that attend to everything.
#include <algorithm>
#include <string>

#include "base/printable.h"
#include "families/encoder_family.h"
#include "families/encoder_json.h"

namespace penstock::families {
namespace {

constexpr EncoderDefaults kModernBertDefaults = {.vocab_size = 50368,
                                                 .layers = 22,
                                                 .intermediate_size = 1152,
                                                 .positions = 8192,
                                                 .pad = 50283,
                                                 .norm_epsilon = 1e-5};

// layer_types, the newer form, names each layer; the older form says that every n-th is global.
Status ReadLayerTypes(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"global_attn_every_n_layers"}, 3, 1, kEncoderLayersMax,
                                   &out->global_attn_every_n_layers));
  if (!config.Has("layer_types")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const auto types,
                            config.GetStringsOrEmpty("layer_types", kEncoderLayersMax));
  const auto refuse = [](const std::string& why) {
    return Status::Unsupported("'layer_types': " + why, "layer_types");
  };
  if (types.size() != static_cast<size_t>(out->num_hidden_layers)) {
    return Status::InvalidArgument("'layer_types' has " + std::to_string(types.size()) +
                                       " entries for " + std::to_string(out->num_hidden_layers) +
                                       " layers",
                                   "layer_types");
  }
  const auto second = std::find(types.begin() + 1, types.end(), "full_attention");
  const auto every = static_cast<size_t>(second - types.begin());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention") {
      return refuse("'" + Shown(types[i]) + "' is not supported");
    }
    if ((types[i] == "full_attention") != (i % every == 0)) {
      return refuse("only 'full_attention' at every n-th layer from the first on is supported");
    }
  }
  out->global_attn_every_n_layers = static_cast<int32_t>(every);
  return Status::Ok();
}

Status ReadModernRope(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const double global,
                            config.GetNumberOr("global_rope_theta", 160000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const double local,
                            config.GetNumberOr("local_rope_theta", 10000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject scaling, config.GetObjectOrEmpty("rope_scaling"));
  float scaled_theta = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadPlainRope(scaling, 0.0, &scaled_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, config.GetObjectOrEmpty("rope_parameters"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject full, rope.GetObjectOrEmpty("full_attention"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject sliding, rope.GetObjectOrEmpty("sliding_attention"));
  PENSTOCK_RETURN_IF_ERROR(ReadPlainRope(full, global, &out->rope_theta));
  PENSTOCK_RETURN_IF_ERROR(ReadPlainRope(sliding, local, &out->rope_theta_local));
  if (rope.Has("rope_theta") || rope.Has("rope_type")) {
    return Status::Unsupported(
        "'rope_parameters' of modernbert must name full_attention and sliding_attention",
        "rope_parameters");
  }
  if (scaled_theta > 0) out->rope_theta = out->rope_theta_local = scaled_theta;
  return Status::Ok();
}

Status ReadModernBert(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadEncoderSizes(config, kModernBertDefaults, out));
  out->type_vocab_size = 0;
  PENSTOCK_RETURN_IF_ERROR(RefuseEncoderPositions(config, {"rotary", "absolute"}));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, {"norm_eps"}, 1e-5, 0, 1, &out->layer_norm_eps));
  PENSTOCK_RETURN_IF_ERROR(ReadActivation(config, "hidden_activation", "gelu", &out->hidden_act));
  PENSTOCK_ASSIGN_OR_RETURN(out->norm_bias, config.GetBoolOr("norm_bias", false));
  PENSTOCK_ASSIGN_OR_RETURN(out->qkv_bias, config.GetBoolOr("attention_bias", false));
  out->attention_out_bias = out->qkv_bias;
  PENSTOCK_ASSIGN_OR_RETURN(out->mlp_bias, config.GetBoolOr("mlp_bias", false));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"local_attention"}, 128, 1, kEncoderPositionsMax, &out->local_attention));
  PENSTOCK_RETURN_IF_ERROR(ReadLayerTypes(config, out));
  PENSTOCK_RETURN_IF_ERROR(ReadModernRope(config, out));
  PENSTOCK_ASSIGN_OR_RETURN(out->classifier_pooling,
                            config.GetStringOr("classifier_pooling", "cls"));
  if (out->classifier_pooling != "cls" && out->classifier_pooling != "mean") {
    return Status::Unsupported(
        "'classifier_pooling': '" + Shown(out->classifier_pooling) + "' is not supported",
        "classifier_pooling");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->classifier_bias, config.GetBoolOr("classifier_bias", false));
  return ReadActivation(config, "classifier_activation", "gelu", &out->classifier_activation);
}

}  // namespace

extern constexpr EncoderFamily kModernBert = {
    .model_type = "modernbert",
    .read_json = ReadModernBert,
    .architecture = {.prefix = "model.",
                     .words = "embeddings.tok_embeddings",
                     .embed_norm = "embeddings.norm",
                     .layer = "layers.",
                     .qkv = "attn.Wqkv",
                     .attention_out = "attn.Wo",
                     .attention_norm = "attn_norm",
                     .ff_in = "mlp.Wi",
                     .ff_out = "mlp.Wo",
                     .ff_norm = "mlp_norm",
                     .final_norm = "final_norm",
                     .position_scheme = PositionScheme::kNone,
                     .pre_norm = true,
                     .gated = true,
                     .first_norm_absent = true,
                     .head = {.dense = "head.dense",
                              .config_activation = true,
                              .norm = "head.norm",
                              .classifier = "classifier"}},
};

}  // namespace penstock::families
