// NomicBERT: rotary positions and a gated feed-forward. Its config.json has the names of
// transformers 5, or the older ones of nomic-ai/nomic-bert-2048.
#include <algorithm>
#include <string>

#include "base/printable.h"
#include "families/architecture_keys.h"
#include "families/encoder_family.h"
#include "families/encoder_json.h"

namespace penstock::families {
namespace {

constexpr EncoderDefaults kNomicDefaults = {.vocab_size = 30528, .positions = 2048, .types = 2};

// As transformers 5 writes it: fixed shape, no biases.
Status ReadNomicNative(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadEncoderSizes(config, kNomicDefaults, out));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t head_dim,
                            config.GetIntOr("head_dim", out->hidden_size / out->num_attention_heads,
                                            1, kEncoderHiddenMax));
  if (head_dim * out->num_attention_heads != out->hidden_size) {
    return Status::Unsupported("'head_dim' other than hidden_size / num_attention_heads",
                               "head_dim");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double flat_theta,
                            config.GetNumberOr("rope_theta", 1000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, config.GetObjectOrEmpty("rope_parameters"));
  PENSTOCK_RETURN_IF_ERROR(ReadPlainRope(rope, flat_theta, &out->rope_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject scaling, config.GetObjectOrEmpty("rope_scaling"));
  float ignored = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadPlainRope(scaling, flat_theta, &ignored));
  const std::string_view partial = "partial_rotary_factor";
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(rope.Has(partial) ? rope : config, {partial}, 1.0, 1.0, 1.0, &out->rope_fraction));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string act, config.GetStringOr("hidden_act", "silu"));
  if (act != "silu" && act != "swish" && act != "swiglu") {
    return Status::Unsupported("'hidden_act': '" + Shown(act) + "' is not supported for nomic_bert",
                               "hidden_act");
  }
  out->qkv_bias = out->mlp_bias = out->attention_out_bias = false;
  return Status::Ok();
}

// As nomic-ai publishes it, with the names of GPT-2.
Status ReadNomicOriginal(const JsonObject& config, EncoderConfig* out) {
  EncoderDefaults defaults = kNomicDefaults;
  defaults.norm_epsilon = 1e-5;
  defaults.positions = 1024;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t embedding, config.GetInt("n_embd", 1, kEncoderHiddenMax));
  defaults.intermediate_size = static_cast<int32_t>(4 * embedding);
  PENSTOCK_RETURN_IF_ERROR(ReadEncoderSizes(config, defaults, out));
  PENSTOCK_RETURN_IF_ERROR(
      RefuseIfSet(config, {"prenorm", "parallel_block", "use_rms_norm", "causal",
                           "rotary_emb_scale_base", "scale_attn_by_inverse_layer_idx",
                           "num_experts", "moe_every_n_layers", "num_shared_experts"}));
  PENSTOCK_RETURN_IF_ERROR(RefuseIfFalse(config, "scale_attn_weights"));

  PENSTOCK_ASSIGN_OR_RETURN(const std::string act,
                            config.GetStringOr("activation_function", "gelu_new"));
  if (act != "swiglu") {
    return Status::Unsupported("'activation_function': '" + Shown(act) +
                                   "' is not supported for nomic_bert, only swiglu is",
                               "activation_function");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->qkv_bias, config.GetBoolOr("qkv_proj_bias", true));
  out->attention_out_bias = out->qkv_bias;
  PENSTOCK_ASSIGN_OR_RETURN(out->mlp_bias, config.GetBoolOr("mlp_fc1_bias", true));
  PENSTOCK_ASSIGN_OR_RETURN(const bool fc2_bias, config.GetBoolOr("mlp_fc2_bias", true));
  if (fc2_bias != out->mlp_bias) {
    return Status::Unsupported("'mlp_fc1_bias' and 'mlp_fc2_bias' differ", "mlp_fc2_bias");
  }
  // 0, the default, would mean a learned table of positions.
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, {"rotary_emb_fraction"}, 0.0, 0, 1, &out->rope_fraction));
  if (out->rope_fraction == 0) {
    return Status::Unsupported("'rotary_emb_fraction' is 0: only rotary positions are supported",
                               "rotary_emb_fraction");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->rope_interleaved,
                            config.GetBoolOr("rotary_emb_interleaved", false));
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, {"rotary_emb_base"}, 10000.0, 1, 1e12, &out->rope_theta));
  // A scaling factor changes the angles only beyond the trained length.
  if (config.Has("rotary_scaling_factor")) {
    int32_t trained = 0;
    PENSTOCK_RETURN_IF_ERROR(
        ReadInt(config, {"max_trained_positions"}, 2048, 1, kEncoderPositionsMax, &trained));
    out->max_position_embeddings = std::min(out->max_position_embeddings, trained);
  }
  return Status::Ok();
}

Status ReadNomic(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(RefuseEncoderPositions(config, {"rotary", "absolute"}));
  out->hidden_act = HiddenActivation::kSilu;
  return config.Has("n_embd") ? ReadNomicOriginal(config, out) : ReadNomicNative(config, out);
}

Status ReadNomicGguf(const ArchitectureKeys& keys, EncoderConfig* out) {
  out->hidden_act = HiddenActivation::kSilu;
  PENSTOCK_RETURN_IF_ERROR(keys.FloatOr("rope.freq_base", 10000, 1, 1e12, &out->rope_theta));
  const int32_t head = out->hidden_size / out->num_attention_heads;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t rotated,
                            keys.all().GetIntOr(keys.Name("rope.dimension_count"), head, 1, head));
  out->rope_fraction = static_cast<float>(rotated) / static_cast<float>(head);
  return Status::Ok();
}

}  // namespace

// Tensors as the published nomic-embed-text checkpoints have them.
extern constexpr EncoderFamily kNomicBert = {
    .model_type = "nomic_bert",
    .read_json = ReadNomic,
    .architecture = {.prefix = "nomic_bert.",
                     .words = "embeddings.word_embeddings",
                     .types = "embeddings.token_type_embeddings",
                     .embed_norm = "emb_ln",
                     .layer = "encoder.layers.",
                     .qkv = "attn.Wqkv",
                     .attention_out = "attn.out_proj",
                     .attention_norm = "norm1",
                     .ff_in = "mlp.fc11",
                     .ff_gate = "mlp.fc12",
                     .ff_out = "mlp.fc2",
                     .ff_norm = "norm2",
                     .position_scheme = PositionScheme::kNone,
                     .gated = true,
                     .ff_width_in_file = true},  // no head: no published checkpoint classifies
    .gguf = {.name = "nomic-bert", .class_name = "NomicBertModel", .read = ReadNomicGguf},
};

}  // namespace penstock::families
